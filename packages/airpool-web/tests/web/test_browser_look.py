"""The look of the page: both themes, a phone, people who use a screen reader, and how much is sent."""

from pathlib import Path

import pytest

from . import looking

pytestmark = pytest.mark.check
TABS = ("scene", "numbers", "adversary", "plan", "live")
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
# Playwright evaluates what it is given outside of the page's policy, which refuses every script but the page's own.
CHECK = """async () => {
  const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
  const { violations } = await axe.run(document, { resultTypes: ["violations"], runOnly });
  const told = ({ target, failureSummary }) => `${target.join(" ")} ${failureSummary}`;
  return violations.map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.slice(0, 4).map(told).join(" | ")}`);
}"""
WIDE = """() => {
  const beyond = (e) => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1;
  const over = [...document.querySelectorAll("main *")].filter((e) => beyond(e) && !e.closest(".scroll, svg, canvas"));
  const named = over.slice(0, 5).map((e) => `${e.tagName}.${e.className}`);
  return { page: document.scrollingElement.scrollWidth, seen: innerWidth, over: named };
}"""


def shown(opened, name, **options):
    """A view, with all that it shows by itself."""
    tab = opened(f"#tab={name}", **options).tab
    looking.done(tab)
    tab.wait_for_function(f"() => !document.querySelector('#panel-{name} > .loading')")
    if name == "scene":
        tab.wait_for_selector(".view img")
    return tab


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nobody_is_kept_out(opened, theme):
    tab = shown(opened, "scene", theme=theme)
    tab.evaluate(AXE.read_text("utf-8"))
    found = {}
    for name in TABS:
        tab.click(f"#tab-{name}")
        tab.wait_for_function(f"() => !document.querySelector('#panel-{name} > .loading')")
        tab.wait_for_timeout(300)
        looking.all_groups_open(tab)
        if name == "scene":
            tab.click("#scene-infer")
            tab.wait_for_selector(".answer .label")
        found[name] = [each for each in tab.evaluate(CHECK) if each.startswith(("serious", "critical"))]
    assert found == {name: [] for name in TABS}


@pytest.mark.parametrize("name", TABS)
def test_a_phone_shows_every_view_without_scrolling_sideways(opened, name):
    tab = shown(opened, name, width=390, height=844, has_touch=True, is_mobile=True, device_scale_factor=2)
    wide = tab.evaluate(WIDE)
    assert wide["page"] <= wide["seen"] == 390, wide
    if name == "live":
        return  # nothing can be set there
    tab.click("#open-settings")
    assert tab.locator("#knob-epsilon").is_visible()
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= 390
    tab.click("#close-settings")
    assert not tab.locator("#knob-epsilon").is_visible()


def background(tab):
    return tab.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()"
                        " + getComputedStyle(document.body).backgroundColor")  # fmt: skip


def test_the_theme_is_the_systems_until_one_is_chosen(opened):
    light, dark = opened(theme="light").tab, opened(theme="dark").tab
    colours = [background(light), background(dark)]
    assert colours[0] != colours[1]
    for wanted in ("light", "dark", None):
        light.click("#theme")
        assert light.evaluate("document.documentElement.dataset.theme ?? null") == wanted
        assert background(light) == colours[wanted == "dark"]
    light.click("#theme")
    light.click("#theme")
    light.reload()
    looking.answered(light)
    assert light.evaluate("document.documentElement.dataset.theme") == "dark"
    assert "dark" in light.locator("#theme").inner_text()
    assert background(light) == colours[1]


def test_the_first_view_is_small_and_from_here_alone(opened, site):
    sizes, foreign = [], []
    watched = opened(None)
    tab = watched.tab
    tab.on(
        "request",
        lambda request: foreign.append(request.url) if not request.url.startswith((site, "data:", "blob:")) else None,
    )
    wire = tab.context.new_cdp_session(tab)
    wire.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    wire.send("Network.enable")
    tab.goto(site)
    looking.done(tab)
    tab.wait_for_selector(".view img")
    tab.wait_for_timeout(500)
    total = sum(sizes)
    assert foreign == []
    assert 50_000 < total < 1_500_000


def test_motion_is_left_out_where_it_is_not_wanted(opened):
    tab = shown(opened, "scene")
    tab.click("#scene-infer")
    tab.wait_for_selector(".answer .label")
    assert tab.evaluate("document.getAnimations().filter(each => each.playState === 'running').length") == 0
