"""A page in one file: well formed, escaped, and without anything to fetch or to run."""

import re
import subprocess
from itertools import count

import pytest

from airpool import Network, guarantee
from airpool._support.figures import figure
from airpool._support.page import Download, Facts, Figure, Items, PageTable, Section, Text, page, templates
from benchmarks.chromium import CHROMIUM
from tests.html_reader import Reader

EVIL = "<script>alert('x')</script>\" onload=\"y & 'z'"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    with figure(folder / "a.svg", folder / "a.png") as (_, axes):
        axes.plot([0, 1], [1, 2], label="line -- <b>")
        axes.set_xlabel("x & y")
        axes.legend()
    return (folder / "a.svg").read_bytes(), (folder / "a.png").read_bytes()


OWN = """
{% extends "layout.html" %}
{% import "parts.html" as parts with context %}
{% block main %}
{% call parts.section(1, word) %}
{{ parts.code(word, word) }}
{{ parts.gallery([(png, word, word)], word) }}
{% endcall %}
{% endblock %}
"""


def everything(pictures, word="plain"):
    """A page with every kind of part that `page` takes."""
    svg, png = pictures
    return page(
        word,
        lead=word,
        sections=[
            Section(word, [Text(word), Items([word]), Facts([(word, word)])]),
            Section("more", [Figure(svg, word, word), Figure(svg, word, word), Figure(png, word, word)]),
            Section("still more", [Download(word, b"1,2", word)]),
            Section("a table", [PageTable(word, ["name", word], [[word, "1.0"], ["b", "2 ± 0.5"]])]),
        ],
        footer=[word],
    )


def own(pictures, word="plain"):
    """A page from a template of its own, with the macros that `page` has no part for."""
    values = {"title": word, "lead": word, "headings": [word], "footer": [word], "word": word, "png": pictures[1]}
    return templates().from_string(OWN).render(values, fresh=count(1).__next__)


def test_every_tag_is_closed_where_it_should_be(pictures):
    tags = [tag for tag, _ in Reader(everything(pictures)).tags]
    for tag in ("html", "main", "h1", "section", "figcaption", "svg", "img", "table", "footer", "dl"):
        assert tag in tags
    assert {"details", "pre", "img"} <= {tag for tag, _ in Reader(own(pictures)).tags}


def test_whatever_is_said_stays_text(pictures):
    read = Reader(everything(pictures, EVIL))
    assert "script" not in [tag for tag, _ in read.tags]
    assert read.attributes("onload") == []
    assert "".join(read.texts).count(EVIL) >= 15
    assert "script" not in [tag for tag, _ in Reader(own(pictures, EVIL)).tags]
    assert "".join(Reader(own(pictures, EVIL)).texts).count(EVIL) == 9
    assert EVIL in read.attributes("alt")
    assert EVIL in read.attributes("aria-label")
    assert EVIL in read.attributes("download")


def test_nothing_is_fetched_and_nothing_runs(pictures):
    text = everything(pictures)
    read = Reader(text)
    addresses = read.attributes("src", "href", "xlink:href", "action", "data", "srcset", "poster")
    assert len(addresses) > 10
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert all(found.startswith("#") for found in re.findall(r"url\(\"?([^)]*)\)", text))
    assert "@import" not in text
    policy = next(about["content"] for tag, about in read.tags if about.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert not any(name.startswith("on") for _, about in read.tags for name in about)


def test_ids_are_unique_and_lead_somewhere(pictures):
    text = everything(pictures)
    read = Reader(text)
    ids = read.attributes("id")
    assert len(ids) == len(set(ids))
    links = [address[1:] for address in read.attributes("href", "xlink:href") if address.startswith("#")]
    links += re.findall(r"url\(#([^)]*)\)", text) + read.attributes("popovertarget", "for")
    links += " ".join(read.attributes("aria-labelledby")).split()
    assert len(links) > 10
    assert set(links) <= set(ids)


def named(text, tag):
    """Each part of a page of this tag: its attributes and its words."""
    found = re.findall(rf"<{tag}\b([^>]*)>(.*?)</{tag}>", text, flags=re.DOTALL)
    return [
        (Reader(f"<br {about}>").tags[0][1], " ".join("".join(Reader(inner).texts).split())) for about, inner in found
    ]


def test_the_contents_are_a_list_of_the_headings(pictures):
    text = everything(pictures, "a & b")
    assert [about["aria-label"] for tag, about in Reader(text).tags if tag == "nav"] == ["Contents"]
    listed = re.findall(r"<li>(<a href.*?</a>)</li>", text[text.index("<nav") : text.index("</nav>")])
    links = [(about["href"], words) for about, words in named("".join(listed), "a")]
    assert links == [(f"#{about['id']}", words) for about, words in named(text, "h2")]
    assert [words for _, words in links] == ["a & b", "more", "still more", "a table"]
    assert "<nav" not in page("t", sections=[Section("the only one", [Text("t")])])


@pytest.mark.parametrize(("whole", "count"), [(everything, 3), (own, 1)], ids=["figures", "a gallery"])
def test_every_figure_has_a_button_of_its_own_that_enlarges_it(pictures, whole, count):
    text = whole(pictures, "a caption")
    figures = [about for about, _ in named(text, "figure") if "popover" in about]
    captions = {about["id"]: words for about, words in named(text, "figcaption")}
    buttons = [about for about, words in named(text, "button") if words == "EnlargeClose"]
    assert len(figures) == len(buttons) == count
    for about, button in zip(figures, buttons, strict=True):
        own_id, caption = button["aria-labelledby"].split()
        assert (button["popovertarget"], button["id"]) == (about["id"], own_id)
        assert captions[caption] == "a caption"


def test_a_figure_that_can_be_enlarged_is_in_the_page_once(pictures):
    svg, png = pictures
    text = page("t", sections=[Section("s", [Figure(svg, "a", "c"), Figure(png, "a", "c")])])
    empty = page("t", sections=[Section("s", [])])
    assert text.count("<svg") == text.count("<img") == 1
    assert len(text) - len(empty) < len(svg) + 4 * len(png) / 3 + 2000


def test_a_drawing_follows_the_theme_and_keeps_its_colours(pictures):
    text = page("t", sections=[Section("s", [Figure(pictures[0], "a", "c")])])
    drawing = text[text.index("<svg") : text.index("</svg>")]
    assert set(re.findall(r"(?:fill|stroke): (#\w+)", drawing)) == {"#1f77b4"}  # Matplotlib's first colour
    assert {"--bound", "--page", "--line"} <= set(re.findall(r"var\((--\w+)\)", drawing))


def test_no_style_asks_for_what_is_not_defined(pictures):
    for template in ("page.html", "statement.html"):
        text = page("t", sections=[Section("s", [Figure(pictures[0], "a", "c")])], template=template)
        used, defined = (set(re.findall(form, text)) for form in (r"var\((--[\w-]+)\)", r"[{; ](--[\w-]+):"))
        assert len(used) > 12
        assert used <= defined


def test_a_table_has_headings_for_every_row_and_column(pictures):
    read = Reader(everything(pictures))
    scopes = [about.get("scope") for tag, about in read.tags if tag == "th"]
    assert scopes == ["col", "col", "row", "row"]
    assert read.tables == [[["name", "plain"], ["plain", "1.0"], ["b", "2 ± 0.5"]]]
    numbers = [tag for tag, about in read.tags if about.get("class") == "number"]
    assert numbers == ["th", "td", "td"]


def test_every_picture_is_told_in_words(pictures):
    read = Reader(everything(pictures))
    assert all(about["alt"] == "plain" for tag, about in read.tags if tag == "img")
    drawings = [about for tag, about in read.tags if tag == "svg"]
    assert [(about["role"], about["aria-label"]) for about in drawings] == 2 * [("img", "plain")]


def test_the_same_content_gives_the_same_bytes(pictures):
    assert everything(pictures) == everything(pictures)


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(ValueError, match="a row has 1 cells under 2 headings"):
        PageTable("t", ["a", "b"], [["1"]])
    with pytest.raises(ValueError, match="must be a PNG or an SVG"):
        page("t", sections=[Section("s", [Figure(b"GIF89a", "", "")])])


def test_a_table_that_is_wider_than_a_phone_becomes_cards():
    narrow = PageTable("t", ["class", "probability", "named"], [["chair", "0.3694", "100.0%"]])
    wide = PageTable("t", ["what", "why"], [["a long statement of the paper"] * 2] * 2)
    wider = PageTable("t", [f"epsilon {k}" for k in range(8)], [["1.234"] * 8])
    assert [table.is_wide for table in (narrow, wide, wider)] == [False, False, True]
    read = Reader(page("t", sections=[Section("s", [narrow, wider])]))
    assert [about.get("class") for tag, about in read.tags if tag == "table"] == [None, "wide"]
    cells = [about for tag, about in read.tags if tag in ("td", "th") and "data-heading" in about]
    assert [about["data-heading"] for about in cells] == [*narrow.header, *wider.header]


def complaints(path):
    """What a real browser says about a page, and whether it drew anything."""
    shot = path.with_suffix(".png")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += ["--window-size=1000,1200", f"--screenshot={shot}", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert shot.stat().st_size > 5000
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


FRAME = """<pre id="told"></pre>
<script>addEventListener("message", event => { document.getElementById("told").textContent = event.data })</script>
<iframe style="border: 0; width: 390px; height: 2000px" src="{address}"></iframe>"""
MEASURE = """<script>addEventListener("load", () => {
const boxes = [document.documentElement, ...document.querySelectorAll(".scroll")];
parent.postMessage("too wide: " + boxes.filter(box => box.scrollWidth > box.clientWidth).length, "*") })</script>"""


@pytest.mark.check
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_phone_scrolls_neither_the_page_nor_a_table(pictures, tmp_path):
    wide = PageTable("t", [f"epsilon {k}" for k in range(8)], [["0.1234 ± 0.0012"] * 7 + ["a statement of the paper"]])
    text = page("t", sections=[Section("s", [wide, Figure(pictures[0], "a", "c")])])
    for name, html, told in (("cards", text, 0), ("table", text.replace(' class="wide"', ""), 1)):
        path, frame = tmp_path / f"{name}.html", tmp_path / f"{name}-frame.html"
        path.write_text(re.sub("<meta http-equiv[^>]*>", "", html).replace("</body>", MEASURE + "</body>"), "utf-8")
        frame.write_text(FRAME.replace("{address}", path.as_uri()), "utf-8")
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--dump-dom"]
        done = subprocess.run([*command, frame.as_uri()], capture_output=True, text=True, timeout=600, check=True)
        assert f"too wide: {told}" in done.stdout


@pytest.mark.check
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_has_nothing_to_complain_about(pictures, tmp_path):
    good, bad = tmp_path / "good.html", tmp_path / "bad.html"
    text = everything(pictures)
    good.write_text(text, encoding="utf-8")
    bad.write_text(text.replace("<main>", "<main><script>document.title = 1</script>"), encoding="utf-8")
    assert complaints(good) == []
    assert any("Content Security Policy" in line for line in complaints(bad))


@pytest.fixture(scope="module")
def browser():
    driver = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with driver.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def shown(browser, pictures, tmp_path):
    """Opens the page with every part in a window of this width, under a system of this theme."""
    path = tmp_path / "page.html"
    path.write_text(everything(pictures), "utf-8")

    def open_page(width, scheme="light"):
        tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        tab.goto(path.as_uri())
        return tab

    return open_page


@pytest.mark.check
@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_theme_is_the_systems_or_the_readers_and_paper_is_white(shown, system):
    tab, other = shown(1280, system), {"light": "dark", "dark": "light"}[system]
    ground = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 22, 26)"}

    def found():
        return tab.evaluate("getComputedStyle(document.body).backgroundColor")

    assert found() == ground[system]
    for chosen, expected in ((other, other), (system, system), (other, other), ("system", system), ("dark", "dark")):
        tab.locator(f"#theme-{chosen}").focus()
        tab.keyboard.press("Space")
        assert found() == ground[expected]
    tab.emulate_media(media="print")
    assert found() == ground["light"]
    assert tab.locator(".theme, nav, .zoom").evaluate_all("all => all.map(each => each.offsetHeight)") == [0] * 5


@pytest.mark.check
@pytest.mark.parametrize("width", [1280, 390])
def test_contents_stay_in_sight_where_there_is_room_and_fold_where_there_is_none(shown, width):
    tab = shown(width)
    link, fold = tab.locator("nav a").last, tab.locator("nav summary")
    assert (link.is_visible(), fold.is_visible()) == ((True, False) if width == 1280 else (False, True))
    if width == 390:
        fold.press("Enter")
    link.press("Enter")
    assert tab.url.endswith("#s4")
    if width == 1280:
        tab.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert 0 <= link.bounding_box()["y"] < 800


@pytest.mark.check
@pytest.mark.parametrize("width", [1280, 390])
def test_a_figure_fills_the_window_by_keyboard_and_goes_back_to_its_place(shown, width):
    tab = shown(width)
    for number in range(3):
        figure, opened = tab.locator("figure[popover]").nth(number), tab.locator("figure:popover-open")
        button, picture = figure.locator("button"), figure.locator("svg, img")
        button.scroll_into_view_if_needed()
        place, size = button.bounding_box(), picture.bounding_box()
        button.press("Enter")
        assert opened.count() == 1
        assert button.inner_text() == "Close"
        window = figure.bounding_box()
        assert (window["x"], window["y"], window["height"]) == (0, 0, 800)
        assert picture.bounding_box()["width"] > 1.2 * size["width"]
        reached = {tab.keyboard.press("Tab") or tab.evaluate("document.activeElement.className") for _ in range(8)}
        assert reached == {"", "sheet", "zoom"}  # "": the window itself
        tab.keyboard.press("Escape")
        assert opened.count() == 0
        assert button.bounding_box() == place
        assert button.inner_text() == "Enlarge"


@pytest.mark.check
def test_the_statement_of_equal_devices_prints_on_one_sheet(browser, tmp_path):
    path = tmp_path / "statement.html"
    path.write_text(guarantee(Network.uniform(num_devices=12, noise_std=0.05)).statement().html, "utf-8")
    tab = browser.new_page()
    tab.goto(path.as_uri())
    assert len(re.findall(rb"/Type /Page\b", tab.pdf(prefer_css_page_size=True))) == 1
