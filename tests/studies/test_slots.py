"""The study of slots: its measures of calibration, and that committed results are drawn."""

import pytest
import torch
from studies.tables import FIGURES

from airpool._support.figures import figure
from studies import slots_figures, slots_posterior, slots_sensors


def test_a_calibrated_server_has_no_calibration_error():
    rng = torch.Generator().manual_seed(0)
    best = torch.rand(200_000, generator=rng)
    right = torch.rand(200_000, generator=rng) < best
    # Each bin's mean is off by .5/√20000 at most on average.
    assert slots_posterior.binned(best, right)["ece"] < 0.005
    assert slots_posterior.binned(best, torch.ones_like(right))["ece"] == pytest.approx(0.5, abs=0.01)


def test_every_rule_orders_by_its_own_score():
    logits = torch.log(torch.tensor([[[0.6, 0.3, 0.1]], [[0.6, 0.2, 0.2]], [[0.9, 0.05, 0.05]]]))
    best = slots_posterior.score("posterior", logits)[:, 0]
    assert best.tolist() == pytest.approx([0.6, 0.6, 0.9])
    assert slots_posterior.score("margin", logits)[:, 0].tolist() == pytest.approx([0.3, 0.4, 0.85])
    assert slots_posterior.score("ratio", logits)[:, 0].exp().tolist() == pytest.approx([2.0, 3.0, 18.0])
    falling = slots_posterior.score("falling", logits)[:2, 0]
    # Stops at `sure` in the first slot, and half-way between it and ½ in the second of three.
    assert falling.tolist() == pytest.approx([0.6, 0.7])


PICTURES = {
    "slots": slots_figures.paint,
    "slots-budget": slots_figures.paint_budget,
    "slots-classes": slots_figures.paint_classes,
    "slots-reliability": slots_posterior.paint_reliability,
    "slots-risk": slots_posterior.paint_risk,
    "slots-sensors": slots_sensors.paint,
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_figure_is_drawn_again_from_what_is_committed(name, tmp_path):
    with figure(tmp_path / f"{name}.svg") as (_, axes):
        PICTURES[name](axes)
        assert axes.lines or axes.patches
    assert (FIGURES / f"{name}.png").exists()
