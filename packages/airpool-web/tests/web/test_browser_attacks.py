"""The adversary and the planner in a real browser: attacks are played, stopped and judged; a design is loaded."""

import pytest

from . import looking

pytestmark = pytest.mark.check
LONG = 180_000  # ms, on a machine that does other things too


def section(tab, name):
    return tab.locator(f"section[aria-labelledby={name}-title]")


def test_the_papers_claim_is_refuted_while_one_looks(opened):
    tab = opened("#tab=adversary").tab
    game = section(tab, "game")
    tab.check("#against-paper")
    game.get_by_role("button", name="Try to attack").click()
    game.locator(".verdict[data-kind=bad]", has_text="Refuted").wait_for(timeout=LONG)
    assert "Theorem 1 claims ε = 2" in game.locator(".verdict").inner_text()
    assert game.locator(".chart .lower").count() >= 1


def test_an_attack_can_be_stopped_and_its_bound_stays(opened):
    tab = opened("#tab=adversary&devices=4").tab
    game = section(tab, "game")
    game.get_by_role("button", name="Try to attack").click()
    game.locator(".chart .lower").nth(1).wait_for(timeout=LONG)
    game.get_by_role("button", name="Stop").click()
    game.locator(".told", has_text="Stopped").wait_for()
    assert game.locator(".verdict").inner_text().startswith("Not refuted so far")
    assert game.get_by_role("button", name="Attack again").is_enabled()
    tab.evaluate("location.hash = '#tab=adversary&devices=5'")
    game.get_by_text("The settings have changed since").wait_for()


def test_the_bounds_follow_the_settings(opened):
    tab = opened("#tab=adversary").tab
    rows = section(tab, "bounds").locator("tbody tr")
    rows.nth(2).wait_for()
    before = rows.first.inner_text()
    tab.evaluate("location.hash = '#tab=adversary&epsilon=0.5'")
    tab.wait_for_function("() => !document.querySelector('.bounds').classList.contains('stale')")
    section(tab, "bounds").locator("table:not(.stale)").wait_for()
    tab.wait_for_timeout(1_000)
    assert rows.first.inner_text() != before
    assert tab.locator("#against-antennas").is_disabled()


def test_a_setting_that_cannot_be_attacked_says_why(opened):
    watched = opened("#tab=adversary&codec=q16")
    watched.allowed.append("400")
    pictures = section(watched.tab, "pictures")
    pictures.get_by_role("button", name="Paint what it sees").click()
    pictures.locator(".failed", has_text="choose vote or compact").wait_for()


def test_a_view_is_painted_and_painted_again_with_every_setting(opened):
    tab = opened("#tab=adversary&object=cup_1", width=390).tab
    pictures = section(tab, "pictures")
    pictures.get_by_role("button", name="Paint what it sees").click()
    pictures.locator("canvas").nth(4).wait_for(timeout=LONG)
    rows = pictures.locator("tbody tr")
    before = rows.nth(1).inner_text()
    tab.evaluate("location.hash = '#tab=adversary&object=cup_1&epsilon=0.5'")
    tab.locator("section[aria-labelledby=pictures-title] tbody tr", has_text=before).wait_for(state="detached")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_design_is_loaded_by_keyboard_and_the_page_shows_its_numbers(opened):
    tab = opened("#tab=plan&model=wearables&epsilon=4").tab
    tab.get_by_role("button", name="Find the best design").click()
    marks = tab.locator("#panel-plan .mark.ours[role=button]")
    marks.nth(6).wait_for(timeout=LONG)
    tab.locator("#panel-plan .told", has_text="designs on the frontier").wait_for(timeout=LONG)
    before = looking.answers(tab)
    marks.nth(1).focus()
    tab.keyboard.press("Enter")
    looking.answered(tab, before)
    found = looking.state(tab)
    assert (found["way"], found["model"], found["tab"]) == ("noise", "wearables", "plan")
    assert float(looking.numbers(tab)["device"]) == pytest.approx(2.0, rel=1e-9)
    assert marks.nth(1).get_attribute("aria-pressed") == "true"
