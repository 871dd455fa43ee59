"""The page in a real browser: it loads, every control works, and the state is in the address."""

import pytest

from . import looking

pytestmark = pytest.mark.check
TABS = ("scene", "numbers", "adversary", "plan", "live")
# Each control applies in one of these at least.
STARTS = (
    "",
    "way=accuracy",
    "way=noise",
    "scheme=2.1",
    "scheme=2.1&way=noise",
    "scheme=2.2",
    "fading=rician",
    "slots=4",
    "antennas=1",
)


def test_the_page_loads(opened):
    tab = opened().tab
    looking.done(tab)
    assert tab.title() == "airpool"
    assert tab.locator("#summary-worst").inner_text() == "2.000"
    assert looking.faults(tab) == []
    for word in ("Protected", "Not protected"):
        assert tab.locator("#summary strong", has_text=word).first.is_visible()


@pytest.mark.parametrize("name", TABS)
def test_every_view_can_be_shown(opened, name):
    tab = opened(f"#tab={name}").tab
    looking.done(tab)
    panel = tab.locator(f"#panel-{name}")
    panel.wait_for(state="visible")
    tab.wait_for_function(f"() => !document.querySelector('#panel-{name} > .loading')")
    assert len(panel.inner_text()) > 100
    assert not panel.locator("> .failed").first.is_visible()
    assert tab.locator(f"#tab-{name}").get_attribute("aria-selected") == "true"


def test_views_are_chosen_by_keyboard(opened):
    tab = opened().tab
    looking.answered(tab)
    tab.locator("#tab-scene").focus()
    for name in ("numbers", "adversary", "plan", "live", "scene"):
        tab.keyboard.press("ArrowRight")
        assert tab.evaluate("document.activeElement.id") == f"tab-{name}"
        tab.locator(f"#panel-{name}").wait_for()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "theme"


def moved(tab, knob):
    """Moves a control to another value, by keyboard; whether it applies."""
    root = tab.locator(f'[data-knob="{knob}"]')
    slider, choice, box = (
        root.locator("input[type=range]"),
        root.locator("select"),
        root.locator("input[type=checkbox]"),
    )
    one = next((each for each in (slider, choice, box) if each.count()), root.locator("input"))
    if one.is_disabled():
        assert len(root.locator(".reason").inner_text()) > 5, f"{knob} is greyed without a reason"
        return False
    before = looking.answers(tab)
    one.focus()
    if one is slider:
        tab.keyboard.press(
            "PageDown" if int(slider.input_value()) > int(slider.get_attribute("max")) / 10 else "PageUp"
        )
    elif one is choice:
        options = choice.locator("option").evaluate_all("all => all.map(each => each.value)")
        choice.select_option(options[1 if choice.input_value() == options[0] else 0])
    elif one is box:
        tab.keyboard.press("Space")
    else:
        one.fill("8" if one.input_value() in ("", "auto") else one.input_value() + "0")
        one.press("Enter")
    looking.answered(tab, before)
    return True


def test_every_control_can_be_moved_and_moved_back(opened, site):
    tab = opened().tab
    looking.answered(tab)
    knobs = tab.evaluate("fetch('/api/knobs').then(found => found.json()).then(found => Object.keys(found.knobs))")
    left, failed = set(knobs) - {"way", "dimension"}, {}  # the way has a test of its own; the codec says the dimension
    for start in STARTS:
        tab.goto("about:blank")
        tab.goto(f"{site}#{start}")
        looking.answered(tab)
        looking.all_groups_open(tab)
        for knob in sorted(left):
            if tab.locator(f'[data-knob="{knob}"]').is_visible() and moved(tab, knob):
                left.remove(knob)
                if said := looking.faults(tab):
                    failed[knob] = said
                before = looking.answers(tab)
                tab.click("#undo")
                looking.answered(tab, before)
                assert looking.faults(tab) == []
    assert left == set()
    assert failed == {}


def test_undo_redo_and_reset(opened):
    tab = opened().tab
    looking.done(tab)
    first = looking.numbers(tab)
    for value in ("1", "4"):
        before = looking.answers(tab)
        tab.fill("#knob-epsilon", value)
        tab.press("#knob-epsilon", "Enter")
        looking.answered(tab, before)
    assert looking.state(tab)["epsilon"] == "4"
    for button, epsilon in (("#undo", "1"), ("#undo", None), ("#redo", "1"), ("#reset", None), ("#undo", "1")):
        before = looking.answers(tab)
        tab.click(button)
        looking.answered(tab, before)
        assert looking.state(tab).get("epsilon") == epsilon
    tab.click("#reset")
    looking.done(tab)
    tab.wait_for_function("was => document.querySelector('#summary-worst').dataset.value === was", arg=first["device"])
    assert looking.numbers(tab) == first


def test_the_address_is_the_state(opened):
    address = "#tab=numbers&epsilon=0.7&devices=8&neighbours=replace"
    tab, again = opened(address).tab, opened("#tab=numbers").tab
    looking.done(tab)
    looking.done(again)
    before = looking.answers(again)
    again.evaluate("address => { location.hash = address }", address)
    looking.answered(again, before)
    looking.done(again)
    assert looking.numbers(tab) == looking.numbers(again)
    assert again.locator("#knob-devices").input_value() == "8"
    assert again.locator("#knob-neighbours").input_value() == "replace"


def test_presets_replace_all_settings(opened):
    tab = opened("#epsilon=9&devices=3").tab
    looking.answered(tab)
    presets = tab.locator("[data-preset]")
    assert presets.count() >= 4
    for k in range(presets.count()):
        before = looking.answers(tab)
        presets.nth(k).click()
        looking.answered(tab, before)
        assert looking.faults(tab) == []
        assert presets.nth(k).get_attribute("aria-pressed") == "true"


HOSTILE = (
    "#epsilon=abc",
    "#devices=1000000000",
    "#devices=-1&fading=<script>alert(1)</script>",
    "#tab=../../x&object=%00&seed=NaN",
    "#" + "a=1&" * 500,
    "#__proto__=1&constructor=2&epsilon=%F0%9F%98%80",
    "#epsilon=" + "9" * 399,
    "#%%%&&&===;;;",
)


@pytest.mark.parametrize("address", HOSTILE, ids=lambda each: each[:20])
def test_an_address_bar_of_anything_is_told_in_words_or_passed_over(opened, site, address):
    watched = opened(None)
    watched.allowed += ["status of 400", "status of 404"]
    tab = watched.tab
    asked = []
    tab.on("dialog", lambda dialog: asked.append(dialog.message) or dialog.dismiss())
    tab.goto(site + address)
    shown = "document.querySelector('#summary-worst')?.dataset.value !== undefined"
    tab.wait_for_function(f"() => ({looking.FAULTS}).length > 0 || {shown}")
    assert asked == []
    if tab.locator("#reset").is_enabled():
        tab.click("#reset")
    tab.wait_for_function(f"() => ({looking.FAULTS}).length === 0 && {shown}")
