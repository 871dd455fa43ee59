"""The planner of the page: its designs are the library's, and loading one gives the same network and numbers."""

import json
from dataclasses import replace

import pytest

from airpool.evaluation.plan import plan
from airpool.evaluation.plan.candidates import Candidate
from airpool.evaluation.plan.search import FACTORS, frontier, simulated
from airpool.models.pretrained import load
from airpool.network import Channel, Claim, Neighbours, Network, Ranking, Slots, Threshold
from airpool_web import planning
from airpool_web.settings import asked_network, flat

MODEL = "wearables"  # five units: quick
SETTINGS = {"model": MODEL, "epsilon": "3", "fading": "rician"}


@pytest.fixture
def quick(monkeypatch):
    """Few candidates and trials; the search itself is tested where it lives."""
    few = (Candidate(), Candidate("compact", 0.9, True), Candidate(scheme=Ranking(num_selected=4), share=0.1))
    monkeypatch.setattr(planning, "candidates", lambda *_, **__: few)
    monkeypatch.setattr(planning, "plan", lambda *given, **how: plan(*given, trials=(1,), **how))
    monkeypatch.setattr(planning, "FACTORS", FACTORS[:2])
    return few


def told(settings, seed=0):
    parts = []
    planning.planned(parts.append, settings, "modelnet40", seed)
    json.dumps(parts, allow_nan=False)
    return parts


def same(settings, network, claim=Claim()):
    """Whether settings make this network and claim; targets of ε are no settings."""
    found = asked_network(settings, "modelnet40")
    return (found.network, found.claim) == (replace(network, devices=replace(network.devices, epsilon=None)), claim)


def test_designs_are_the_librarys_and_load_as_the_same_network(quick):
    parts = told(SETTINGS, seed=2)
    (whole,) = (part for part in parts if part["part"] == "plan")
    points = [part for part in parts if part["part"] == "point"]
    model = load(MODEL)
    given = asked_network(SETTINGS, "modelnet40").bare
    found = plan(given, model=model, epsilon=3.0, seed=2, choice=quick, trials=(1,))
    line = frontier(found, model=model, factors=FACTORS[:2])
    designs = [whole["best"], *whole["others"], *points]
    options = [found.best, *found.others, *line.options, *line.paper]
    assert len(designs) == len(options) == 3 + 2
    for design, option in zip(designs, options, strict=True):
        row = option.row()
        assert (design["words"], design["accuracy"]) == (option.candidate.words, option.accuracy)
        assert (design["epsilon"], design["energy"]) == (row["epsilon"], row["energy"])
        assert same(design["settings"], option.network)
    network = asked_network(points[0]["settings"], "modelnet40").network
    again = simulated(line.options[0].candidate, network, Claim(), model, trials=5, seed=2)
    assert (again.accuracy, again.evaluation.report.worst) == (points[0]["accuracy"], points[0]["epsilon"])
    assert parts[-1] == {"part": "done"}


def test_a_network_with_given_noise_is_planned_for_its_own_epsilon(quick):
    parts = told({"model": MODEL, "way": "noise", "noise_std": "0.1"})
    (whole,) = (part for part in parts if part["part"] == "plan")
    own = asked_network({"model": MODEL, "way": "noise", "noise_std": "0.1"}, "modelnet40").network
    from airpool import guarantee

    assert whole["best"]["epsilon"] == pytest.approx(guarantee(own).worst, rel=1e-6)


def test_progress_tells_how_far_it_is(quick):
    steps = [part for part in told(SETTINGS) if part["part"] == "progress"]
    assert all(part["text"] and part["done"] <= part["total"] for part in steps)


NETWORKS = [
    Network.uniform(num_devices=5, noise_std=(0.1, 0.2, 0.3, 0.1, 0.123456789012345), dimension=19),
    Network.uniform(num_devices=5, participation=0.7, cover_noise=True, dimension=19, colluders=1),
    Network.uniform(num_devices=5, weight=(0.1, 0.3, 0.2, 0.2, 0.2), clip_norm=2.0, dimension=19),
    Network.uniform(num_devices=5, dimension=19, channel=Channel("rayleigh", noise_std=0.01, outage=0.05, antennas=2)),
    Network.uniform(num_devices=5, dimension=19, channel=Channel(access="secure"), cover_noise=True),
    Network.uniform(num_devices=5, dimension=19, scheme=Ranking(num_selected=3, score_noise_std=0.5)),
    Network.uniform(num_devices=5, dimension=19, scheme=Threshold(threshold=0.25, score_bound=2.0)),
    Network.uniform(num_devices=5, dimension=19, slots=Slots(3, sure=0.9)),
]


@pytest.mark.parametrize("network", NETWORKS)
def test_flat_settings_make_the_same_network(network):
    assert same(flat(network, Claim(), model=MODEL, codec="vote"), network)


@pytest.mark.parametrize("claim", [Claim(delta=1e-6), Claim(neighbours=Neighbours.REPLACE, inferences=7)], ids=str)
def test_flat_settings_make_the_same_claim(claim):
    network = Network.uniform(num_devices=5, dimension=19)
    assert same(flat(network, claim, model=MODEL, codec="vote"), network, claim)
