"""One web page in one file: text, figures and tables. It fetches nothing and runs nothing.

    html = page("Title", lead="One sentence.", sections=[Section("Results", [Text("…"), PageTable(…), Figure(…)])])

The markup and the style are in templates/. Every value is escaped; an SVG is the only markup that goes in as it is. A
content security policy makes the browser enforce this: no script, no address but data: URIs.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_PHONE = 44  # characters that fit beside each other on a screen of 390 pixels
# Black, white and grey of a drawing follow the page's theme; colours have a meaning, and stay.
_THEMED = {"#000000": "--bound", "#ffffff": "--page", "#dddddd": "--line", "#777777": "--soft"}


Mood = Literal["good", "fair", "bad", "open"]


class Badge(str):
    """A cell, or a number of Facts, in the colour of its mood and with an icon: no colour says anything alone."""

    mood: Mood

    def __new__(cls, text: str, mood: Mood) -> "Badge":
        made = super().__new__(cls, text)
        made.mood = mood
        return made


class Text(NamedTuple):
    """A paragraph."""

    paragraph: str


class Items(NamedTuple):
    """A list of sentences."""

    items: Sequence[str]


class Facts(NamedTuple):
    """Pairs of a number and its meaning."""

    facts: Sequence[tuple[str, str]]


class Figure(NamedTuple):
    """A picture (the bytes of a PNG or SVG file), its alt text and its caption."""

    image: bytes
    alt: str
    caption: str


class Download(NamedTuple):
    """A file inside the page."""

    name: str
    data: bytes
    kind: str = "text/csv"


@dataclass(frozen=True)
class PageTable:
    """Rows of text under a header. The first cell names its row; other columns of numbers are aligned to the right."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a row has {len(row)} cells under {len(self.header)} headings: {list(row)}")

    def is_numeric(self, column: int) -> bool:
        return column > 0 and all(_is_number(row[column]) for row in self.rows)

    def is_long(self, column: int) -> bool:
        """Whether a cell needs more than one line of a narrow column."""
        return any(len(row[column]) > 20 for row in self.rows)

    @property
    def is_wide(self) -> bool:
        """Whether its columns do not fit beside each other on a phone."""
        longest = (max(len(row[k]) for row in [self.header, *self.rows]) for k in range(len(self.header)))
        return sum(min(length, 20) + 2 for length in longest) > _PHONE


Part = Text | Items | Facts | PageTable | Figure | Download


class Section(NamedTuple):
    title: str
    parts: Sequence[Part]


def page(
    title: str,
    *,
    lead: str = "",
    origin: Sequence[str] = (),
    sections: Sequence[Section],
    footer: Sequence[str] = (),
    template: str = "page.html",
) -> str:
    """The whole page as HTML; the same content gives the same bytes.

    origin: when it was measured, and how again. template: page.html or one that extends it.
    """
    bodies = [
        [(type(part).__name__.removeprefix("Page").lower(), part) for part in section.parts] for section in sections
    ]
    headings = [section.title for section in sections]
    return render(template, headings=headings, bodies=bodies, title=title, lead=lead, origin=origin, footer=footer)


def render(template: str, **values: Any) -> str:
    """A page from a template of its own, which extends layout.html and uses the macros of parts.html."""
    return templates().get_template(template).render(values, fresh=count(1).__next__)


@cache
def templates() -> "Environment":
    """The shipped templates, with autoescaping."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"picture": _picture, "base64": _base64}
    return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _picture(image: bytes, alt: str, number: int) -> "Markup":
    """The markup of a PNG, or an SVG itself with its ids made unique by `number`."""
    from markupsafe import Markup

    if image.startswith(b"\x89PNG"):
        return Markup('<img alt="{}" src="data:image/png;base64,{}">').format(alt, _base64(image))
    drawing = image.decode("utf-8")
    if "<svg" not in drawing:
        raise ValueError("a figure must be a PNG or an SVG")
    drawing = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", drawing[drawing.index("<svg") :], flags=re.DOTALL)
    for colour, token in _THEMED.items():
        drawing = drawing.replace(f": {colour}", f": var({token})")
    drawing = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>f{number}-", drawing).strip()
    opening = Markup('<svg role="img" aria-label="{}"').format(alt)
    return Markup(drawing.replace("<svg", opening, 1))


def _is_number(text: str) -> bool:
    """Whether a cell is empty or holds numbers only.

    >>> [_is_number(text) for text in ("0.51 ± 0.02", "1e-5", "7 %", "", "12 devices", "chair")]
    [True, True, True, True, False, False]
    """
    word = re.compile(r"[-−+]?[\d.,]+(e-?\d+)?[%°]?|inf|±|to|–|—|%")
    return all(word.fullmatch(part) for part in text.split())
