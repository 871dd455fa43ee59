"""Draw the diagrams of the documentation, docs/figures/diagram-*.svg, from the boxes and arrows of diagrams.txt there.

    .venv/bin/python scripts/diagrams.py

They are 560 units wide with text of 13 to 15, which a phone shows at 8 to 10 pixels; white, on dark pages too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from airpool._support.figures import BLUE, GREY, RED

FIGURES = Path(__file__).resolve().parent.parent / "docs" / "figures"
WIDTH = 560
# Blue is what airpool computes, as in all figures.
COLOURS = {"blue": (BLUE, "#e9f3fa"), "grey": (GREY, "#f4f4f4"), "red": (RED, "#fdeee6")}
INK = "#444"


@dataclass
class Diagram:
    """parts: (kind, numbers, lines), in the order in which they are drawn."""

    name: str
    height: int
    title: str = ""
    told: str = ""
    parts: list[tuple[str, list[float], list[str]]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return FIGURES / f"diagram-{self.name}.svg"


@dataclass(frozen=True)
class Text:
    """One line of text; y is its baseline."""

    x: float
    y: float
    words: str
    size: int = 13
    bold: bool = False
    middle: bool = True
    colour: str = "#555"

    @property
    def svg(self) -> str:
        place = f'x="{self.x:g}" y="{self.y:g}" font-size="{self.size}" fill="{self.colour}"'
        style = (' text-anchor="middle"' if self.middle else "") + (' font-weight="bold"' if self.bold else "")
        return f"<text {place}{style}>{escape(self.words)}</text>"


def read(source: str) -> list[Diagram]:
    """The diagrams of a source such as diagrams.txt, whose first lines describe its form."""
    found: list[Diagram] = []
    for line in source.splitlines():
        kind, _, rest = line.partition(" ")
        if not line or kind == "#":
            continue
        if kind == "diagram":
            name, height = rest.split()
            found.append(Diagram(name, int(height)))
        elif kind in ("title", "told"):
            setattr(found[-1], kind, rest)
        else:
            place, *lines = (part.strip() for part in rest.split("|"))
            if kind == "box":
                colour, place = place.split(" ", 1)
                kind = f"box-{colour}"
            found[-1].parts.append((kind, [float(number) for number in place.split()], lines))
    return found


def texts(kind: str, place: list[float], lines: list[str]) -> Iterator[Text]:
    """What is written on a part: the title of a box is bold, a line after "· " small; a frame has its title on top."""
    if kind == "note":
        yield Text(place[0], place[1], lines[0], middle=False)
    elif kind.startswith("box"):
        x, y, width, height = place
        top = y + 22 if kind == "box-blue-dashed" else y + height / 2 - 9.5 * (len(lines) - 1) + 5
        for n, line in enumerate(lines):
            middle, baseline = x + width / 2, top + 19 * n
            if line.startswith("· "):
                yield Text(middle, baseline, line[2:])
            else:
                yield Text(middle, baseline, line, 14 if n else 15, bold=not n, colour="#000")


def shape(kind: str, place: list[float]) -> str:
    """The rectangle of a box, or the path of an arrow or a line."""
    what, *modes = kind.split("-")
    dash = ' stroke-dasharray="5 4"' if "dashed" in modes or what == "line" else ""
    if what == "box":
        (x, y, width, height), (stroke, fill) = place, COLOURS[modes[0]]
        fill = "none" if modes == ["blue", "dashed"] else fill
        size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
        return f'<rect {size} fill="{fill}" stroke="{stroke}" stroke-width="1.4"{dash}/>'
    way = "L".join(f"{x:g} {y:g}" for x, y in zip(place[::2], place[1::2], strict=True))
    stroke = "#bbb" if what == "line" else RED if "red" in modes else INK
    tip = f' marker-end="url(#{"red" if "red" in modes else "tip"})"' if what == "arrow" else ""
    return f'<path d="M{way}" stroke="{stroke}" stroke-width="1.5" fill="none"{dash}{tip}/>'


def svg(diagram: Diagram) -> str:
    """The diagram as SVG, with a title and a description for readers that do not see it."""
    drawn = []
    for kind, place, lines in diagram.parts:
        drawn += [] if kind == "note" else [shape(kind, place)]
        drawn += [text.svg for text in texts(kind, place, lines)]
    tips = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" fill="{colour}"/></marker>'
        for name, colour in (("tip", INK), ("red", RED))
    )
    size = f'viewBox="0 0 {WIDTH} {diagram.height}" width="{WIDTH}" height="{diagram.height}"'
    font = 'font-family="Helvetica, Arial, sans-serif"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img" aria-labelledby="title desc">'
    told = f'<title id="title">{escape(diagram.title)}</title>\n<desc id="desc">{escape(diagram.told)}</desc>'
    white = f'<rect width="{WIDTH}" height="{diagram.height}" fill="#fff"/>'
    return "\n".join([head, told, white, f"<defs>{tips}</defs>", *drawn, "</svg>\n"])


def diagrams() -> list[Diagram]:
    """All diagrams of docs/figures/diagrams.txt."""
    return read((FIGURES / "diagrams.txt").read_text("utf-8"))


if __name__ == "__main__":
    for each in diagrams():
        each.path.write_text(svg(each), encoding="utf-8")
