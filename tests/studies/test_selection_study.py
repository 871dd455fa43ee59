"""The contestants of the study meet their ε; its figures are redrawn."""

import json
import math

import pytest
import torch
from studies.selection_contest import Candidate, Setting, candidates, judged, views
from studies.tables import rows

from airpool import guarantee, load
from studies import selection_contest, selection_study

# The contest


def test_views_of_no_bad_camera_are_those_that_ship():
    seen, held = views("validation", bad_share=0.0, num_devices=12, seed=3, step=5), load().held_out("validation")
    assert torch.equal(seen.latents, held.latents[::5])
    assert torch.equal(seen.labels, held.labels[::5])
    assert not seen.bad.any()


def test_as_many_cameras_are_bad_as_should_be_and_they_are_less_sure():
    seen = views("validation", bad_share=0.75, num_devices=50, seed=3, step=5)
    assert seen.latents.shape == (196, 50, 40)
    assert abs(float(seen.bad.double().mean()) - 0.75) < 4 * math.sqrt(0.75 * 0.25 / seen.bad.numel())
    assert float(seen.bits[seen.bad].mean()) > 0.9 + float(seen.bits[~seen.bad].mean())


@pytest.mark.parametrize("method", selection_study.METHODS)
def test_every_contestant_meets_the_total_epsilon_whatever_its_score_bound(method, monkeypatch):
    monkeypatch.setattr(selection_contest, "NUM_SELECTED", {12: (6,)})
    monkeypatch.setattr(selection_contest, "SHARES", (0.2,))
    monkeypatch.setattr(selection_contest, "THRESHOLDS", (0.8,))
    monkeypatch.setattr(selection_contest, "SHARES_21", (0.3,))
    found = list(candidates(method, Setting(4.0)))
    worst = {network: guarantee(network).worst for network in {each.network for each in found}}
    assert all(3.99 < epsilon <= 4.0 for epsilon in worst.values())
    if method.startswith("2"):
        assert len(worst) == len(selection_contest.BOUNDS)


def test_bad_cameras_and_noise_never_come_from_the_same_seed():
    s = selection_study
    cameras = {*s.VALIDATION_SEEDS, *s.TEST_SEEDS}
    noise = {s.VALIDATION_NOISE + at for at in range(len(s.VALIDATION_SEEDS))}
    tested = [s.TEST_NOISE + 10 * seed + at for seed in s.TEST_SEEDS for at in s.NOISE_SEEDS]
    assert len(set(tested)) == len(tested)
    assert len({*cameras, *noise, *tested}) == len(cameras) + len(noise) + len(tested)


def test_a_contestant_that_is_none_is_named():
    with pytest.raises(ValueError, match="method='3' must be 1, soft"):
        next(candidates("3", Setting(4.0)))


def test_accuracy_is_that_of_evaluate():
    from airpool.evaluation.evaluate import evaluate
    from airpool.evaluation.objects import EncodedObjects

    seen = views("validation", bad_share=0.5, num_devices=12, seed=3, step=5)
    net = next(iter(candidates("1", Setting(4.0)))).network
    ours = judged(Candidate(net, {}), seen, reference=seen, seed=7, told=(1.0,))
    theirs = evaluate(EncodedObjects(seen.latents, seen.labels, load().codec().server), net, trials=1, seed=7)
    assert ours.accuracy[1.0] == pytest.approx(theirs.accuracy_mean, abs=1e-12)


# What was measured


@pytest.mark.parametrize("name", selection_study.NAMES[:2])
def test_no_measured_network_exceeds_its_epsilon(name):
    table = rows(selection_study.RESULTS / f"{name}.json")
    assert all(row["epsilon_exact"] <= row["epsilon"] for row in table)
    assert all(len(row["runs"]) == 6 for row in table)


def test_where_the_papers_account_is_equal_the_truth_is_not():
    for row in rows(selection_study.RESULTS / "selection-paper.json"):
        assert (row["epsilon_exact"] > 40) == row["method"].startswith("2")


def test_a_gain_is_counted_run_by_run():
    mean, spread = selection_study.gain({"runs": [0.5, 0.7, 0.9]}, {"runs": [0.4, 0.6, 0.8]})
    assert mean == pytest.approx(0.1)
    assert spread == pytest.approx(0.0, abs=1e-12)


def test_figures_are_redrawn_from_their_tables(tmp_path):
    selection_study.main(["--figures", str(tmp_path)])
    for name in selection_study.NAMES:
        committed = selection_study.FIGURES / f"{name}.csv"
        assert (tmp_path / f"{name}.csv").read_text("utf-8") == committed.read_text("utf-8")
    for name in selection_study.NAMES[:2]:
        assert all((tmp_path / f"{name}.{ending}").stat().st_size > 1000 for ending in ("png", "svg"))
    about = json.loads((selection_study.RESULTS / "selection-study.json").read_text("utf-8"))
    # Run from docs before the studies had a folder of their own.
    assert about["command"] in ("python -m docs.selection_study --fresh", "python -m studies.selection_study --fresh")
