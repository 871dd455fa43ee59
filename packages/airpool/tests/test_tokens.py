"""The colours of all pages: legible in both themes, the figures' own, and equal however a theme was chosen."""

import re
from itertools import product
from pathlib import Path

import pytest

import airpool
from airpool._support import figures

TEXT = (Path(airpool.__file__).parent / "_support/templates/tokens.css").read_text("utf-8")
LIGHT, *DARK = (
    dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", block)) for block in re.findall(r":root[^{]*{([^}]*)}", TEXT)
)
WORDS = ("ink", "soft", "link", "ours", "paper-ink", "bound", "good", "fair", "bad", "open")
GROUNDS = ("page", "shade", "raised")


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # WebAIM's well-known near miss


@pytest.mark.parametrize("theme", [LIGHT, DARK[0]], ids=["light", "dark"])
def test_all_words_can_be_read_on_every_ground(theme):
    poor = {
        (word, ground): round(found, 2)
        for word, ground in product(WORDS, GROUNDS)
        if (found := contrast(theme[f"--{word}"], theme[f"--{ground}"])) < 4.5
    }
    assert poor == {}
    assert contrast(theme["--focus"], theme["--page"]) > 3


def test_a_dark_theme_is_the_same_by_system_and_by_choice():
    assert len(DARK) == 2
    assert DARK[0] == DARK[1]
    assert DARK[0].keys() == LIGHT.keys()


def test_light_pages_have_the_figures_colours():
    pairs = {"--ours": figures.OURS, "--paper-mark": figures.PAPER, "--bound": figures.BOUND}
    assert {name: LIGHT[name].upper() for name in pairs} == {name: colour.upper() for name, colour in pairs.items()}
