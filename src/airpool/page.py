"""One web page in one file: sections of text, figures and tables, with nothing fetched and nothing that runs.

    html = page("Title", lead="One sentence.", sections=[Section("Results", [Text("…"), Table(…), Figure(…)])])

Everything given is text and is escaped; an SVG is the only markup that goes in as it is. A content security policy in
the head makes the browser keep the promise: no script, no address but data: URIs. Prints well, fits a phone.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import count

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light; --ink: #1a1a1a; --soft: #555; --line: #d8d8d8; --link: #00588a; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 54rem; padding: 1.5rem 1rem 3rem; color: var(--ink); background: #fff;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .5rem; padding-top: .75rem; border-top: 2px solid var(--ink); }
.lead { font-size: 1.1rem; color: var(--soft); margin: 0; }
a { color: var(--link); }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1rem; margin: 1.25rem 0; }
dl.facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end;
  border-left: 4px solid #0072B2; padding-left: .75rem; }
dl.facts dd { margin: 0; font-size: 1.6rem; font-weight: 650; line-height: 1.2; }
dl.facts dt { font-size: .9rem; color: var(--soft); line-height: 1.35; }
figure { margin: 1.25rem 0; }
figure svg, figure img { display: block; width: 100%; max-width: 40rem; height: auto; margin: 0 auto; }
figcaption { color: var(--soft); font-size: .9rem; text-align: left; padding: .4rem 0; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(7.5rem, 1fr)); gap: .75rem;
  list-style: none; margin: 0; padding: 0; }
.gallery li { font-size: .85rem; line-height: 1.3; }
.gallery img { width: 100%; border: 1px solid var(--line); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: baseline; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; line-height: 1.25; white-space: nowrap; }
tbody th { font-weight: 600; }
.words { min-width: 14rem; }
.number { text-align: right; white-space: nowrap; }
summary { cursor: pointer; margin: .5rem 0; }
pre { background: #f5f5f5; padding: .75rem; overflow-x: auto; font-size: .8rem; line-height: 1.4; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); color: var(--soft); font-size: .85rem; }
@media print {
  @page { margin: 16mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2, figcaption { break-after: avoid; }
  figure, tr, dl.facts { break-inside: avoid; }
  .scroll { overflow: visible; }
  nav, a[download] { display: none; }
  figure svg, figure img { max-width: 13cm; }
  .gallery { grid-template-columns: repeat(6, 1fr); }
}
"""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    paragraph: str


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """A few numbers to remember: each with what it means."""

    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first cell of a row names it. Other columns of numbers are set to the right."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a row has {len(row)} cells under {len(self.header)} headings: {list(row)}")

    def is_numeric(self, column: int) -> bool:
        return column > 0 and all(_is_number(row[column]) for row in self.rows)


@dataclass(frozen=True)
class Figure:
    """A picture (the bytes of a PNG or an SVG file), what it shows in words for who cannot see it, and a caption."""

    image: bytes
    alt: str
    caption: str


@dataclass(frozen=True)
class Gallery:
    """Small PNG pictures side by side, as many to a row as fit."""

    pictures: Sequence[Figure]
    caption: str


@dataclass(frozen=True)
class Code:
    """Text whose spaces and lines matter, such as a file: folded away under its title until it is asked for."""

    title: str
    text: str


@dataclass(frozen=True)
class Download:
    """A file that travels inside the page."""

    name: str
    data: bytes
    kind: str = "text/csv"


Part = Text | Items | Facts | Table | Figure | Gallery | Code | Download


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence[Part]


def page(title: str, *, lead: str = "", sections: Sequence[Section], footer: Sequence[str] = ()) -> str:
    """The whole page as HTML; the same content gives the same bytes."""
    numbers = count(1)
    bodies = [
        f'<section aria-labelledby="s{n}">\n<h2 id="s{n}">{escape(section.title)}</h2>\n'
        + "\n".join(_html(part, numbers) for part in section.parts)
        + "\n</section>"
        for n, section in enumerate(sections, 1)
    ]
    links = " · ".join(f'<a href="#s{n}">{escape(section.title)}</a>' for n, section in enumerate(sections, 1))
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<header>\n<h1>{escape(title)}</h1>",
            *([f'<p class="lead">{escape(lead)}</p>'] if lead else []),
            *([f'<nav aria-label="Sections"><p>{links}</p></nav>'] if len(sections) > 1 else []),
            "</header>\n<main>",
            *bodies,
            "</main>",
            *(["<footer>", *(f"<p>{escape(line)}</p>" for line in footer), "</footer>"] if footer else []),
            "</body>\n</html>\n",
        ]
    )


def _html(part: Part, numbers: "count[int]") -> str:
    match part:
        case Text(paragraph):
            return f"<p>{escape(paragraph)}</p>"
        case Items(items):
            return "<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in items) + "\n</ul>"
        case Facts(facts):
            each = "".join(f"<div><dt>{escape(what)}</dt><dd>{escape(value)}</dd></div>" for value, what in facts)
            return f'<dl class="facts">{each}</dl>'
        case Table():
            return _table(part, next(numbers))
        case Figure(image, alt, caption):
            return (
                f"<figure>\n{_image(image, alt, next(numbers))}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"
            )
        case Gallery(pictures, caption):
            small = "\n".join(
                f"<li>{_image(each.image, each.alt, next(numbers))}{escape(each.caption)}</li>" for each in pictures
            )
            shown = f'<ul class="gallery">\n{small}\n</ul>'
            return f"<figure>\n{shown}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"
        case Code(title, text):
            return f"<details>\n<summary>{escape(title)}</summary>\n<pre>{escape(text)}</pre>\n</details>"
        case Download(name, data, kind):
            address = f"data:{escape(kind)};base64,{base64.b64encode(data).decode()}"
            return f'<p><a download="{escape(name)}" href="{address}">{escape(name)}</a></p>'


def _table(table: Table, number: int) -> str:
    columns = range(len(table.header))
    # What is long may break, but not into a column of single words.
    long = [any(len(row[k]) > 20 for row in table.rows) for k in columns]
    kind = [' class="number"' if table.is_numeric(k) else ' class="words"' if long[k] else "" for k in columns]

    def cell(tag: str, text: str, k: int, scope: str = "") -> str:
        about = (f' scope="{scope}"' if scope else "") + kind[k]
        return f"<{tag}{about}>{escape(text)}</{tag}>"

    head = "".join(cell("th", text, k, "col") for k, text in enumerate(table.header))
    rows = "\n".join(
        "<tr>" + cell("th", row[0], 0, "row") + "".join(cell("td", row[k], k) for k in range(1, len(row))) + "</tr>"
        for row in table.rows
    )
    # On a phone a wide table scrolls, by finger or by keyboard; its caption stays where it is.
    return (
        f'<figure>\n<figcaption id="t{number}">{escape(table.caption)}</figcaption>\n'
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="t{number}">\n'
        f'<table aria-labelledby="t{number}">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n'
        "</div>\n</figure>"
    )


def _is_number(text: str) -> bool:
    """A number, a few of them, or nothing at all.

    >>> [_is_number(text) for text in ("0.51 ± 0.02", "1e-5", "inf", "", "12 devices", "chair")]
    [True, True, True, True, False, False]
    """
    word = re.compile(r"[-−+]?[\d.,]+(e-?\d+)?[%°]?|inf|±|to|–|—")
    return all(word.fullmatch(part) for part in text.split())


def _image(image: bytes, alt: str, number: int) -> str:
    if image.startswith(b"\x89PNG"):
        return f'<img alt="{escape(alt)}" src="data:image/png;base64,{base64.b64encode(image).decode()}">'
    drawing = image.decode("utf-8")
    if "<svg" not in drawing:
        raise ValueError("a figure must be a PNG or an SVG")
    # Without the prologue and what says who made it; ids of one figure must not meet those of another.
    drawing = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", drawing[drawing.index("<svg") :], flags=re.DOTALL)
    drawing = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>f{number}-", drawing).strip()
    return drawing.replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)
