"""The figures of the docs, redrawn from their tables, keep the laws of every figure."""

import pytest
from tests.figure_laws import watched

from airpool._support.figures import figure
from studies import (
    energy_detection,
    radio_figures,
    secure_comparison,
    selection_study,
    slots_figures,
    slots_posterior,
    slots_sensors,
    theory_figures,
)

PAINTED = [
    secure_comparison.paint,
    energy_detection.paint,
    slots_figures.paint,
    slots_figures.paint_budget,
    slots_figures.paint_classes,
    slots_posterior.paint_reliability,
    slots_posterior.paint_risk,
    slots_sensors.paint,
]


def broken(drawn):
    return {name: laws for name, laws in drawn.items() if laws}


@pytest.mark.check
@pytest.mark.parametrize("paint", PAINTED, ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_a_figure_of_one_panel_can_be_printed(paint, tmp_path, monkeypatch):
    with watched(monkeypatch) as drawn, figure(tmp_path / "a.png", width=5.6, height=3.8) as (_, axes):
        paint(axes)
    assert len(drawn) == 1
    assert broken(drawn) == {}


@pytest.mark.check
def test_the_figures_of_theory_selection_and_radio_can_be_printed(tmp_path, monkeypatch):
    with watched(monkeypatch) as drawn:
        theory_figures.main(["--figures", str(tmp_path)])
        selection_study.main(["--figures", str(tmp_path)])
        with figure(tmp_path / "antennas.png", width=8.4, height=4.4) as (fig, axes):
            radio_figures.paint(fig, axes)
    assert len(drawn) == 8
    assert broken(drawn) == {}


@pytest.mark.parametrize(
    ("spoil", "law"),
    [
        (lambda axes: axes.legend(loc="upper left"), "a legend stands over data of 'y'"),
        (lambda axes: axes.text(0, 0, "here"), "'here' stands over data of 'y'"),
        (lambda axes: axes.set_xlabel(""), "the x axis of '' has no label"),
        (lambda axes: axes.set_ylabel("y", fontsize=5), "'y' has 5.0 points on a printed page"),
        (lambda axes: axes.lines[0].set_color("#123456"), "#123456 is not in the palette"),
        (lambda axes: axes.set_title("too long " * 20), "is cut off at the edge"),
    ],
)
def test_each_law_finds_what_breaks_it(spoil, law, tmp_path, monkeypatch):
    for changed in (lambda _: None, spoil):
        with watched(monkeypatch) as drawn, figure(tmp_path / "a.png") as (_, axes):
            axes.plot([-1, 0, 1], [1, 0, 1], color="#0072B2", label="line")
            axes.set(xlabel="x", ylabel="y")
            changed(axes)
        (found,) = drawn.values()
        assert (len(found) == 0) == (changed is not spoil)
    assert all(law in each for each in found)
