"""The adversary of the page: bounds, games and pictures equal the library's, and mistakes get a sentence."""

import json
from functools import partial

import numpy as np
import pytest

from airpool.account.guarantee import guarantee
from airpool.evaluation.audit.adversary import audited
from airpool_lab.attacks.attackers import beliefs, named
from airpool_lab.attacks.positions import POSITIONS, bound
from airpool_web import adversary
from airpool_web.asked import AskedError
from airpool_web.settings import asked_network

from .asking import asked

SMALL = {"devices": "3", "epsilon": "4"}
MODEL = "modelnet40"


def told(job, *given):
    parts = []
    job(parts.append, *given)
    json.dumps(parts, allow_nan=False)
    return [part for part in parts if part["part"] != "progress"]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(adversary, "MOST_NUMBERS", 2**19)


def of_page(settings):
    asked_for = asked_network(settings, MODEL)
    return asked_for.network, asked_for.claim


# Bounds


@pytest.mark.parametrize("settings", [{}, {"antennas": "2", "inferences": "3"}, {"participation": "0.8"}])
def test_bounds_are_the_librarys(settings):
    network, claim = of_page(settings)
    found = adversary.bounds(settings, MODEL)
    names = [row["position"] for row in found["rows"]]
    assert set(names) >= {"sum", "link", "colluding"}
    assert ("antennas" in names, "repeated" in names) == ("antennas" in settings, "inferences" in settings)
    for row in found["rows"]:
        for of in ("view", "object"):
            for prior, value in zip(found["priors"], row[of], strict=True):
                assert value == bound(network, claim, POSITIONS[row["position"]], of, prior=prior)


def test_bounds_arrive_over_http():
    (answer,) = asked(("POST", "/api/bounds", {"json": {}}))
    assert json.loads(answer.text) == adversary.bounds({}, MODEL)


# The audit


@pytest.mark.parametrize("against", ["sum", "link", "antennas"])
def test_every_look_is_a_game_of_the_library_against_its_claim(against, quick):
    settings = SMALL | {"antennas": "2"}
    said, *looks, done = told(adversary.audit, settings, MODEL, against, 1, 7)
    network, claim = of_page(settings)
    report = guarantee(network, claim)
    claims = {"sum": report.epsilon, "link": report.epsilon_local, "antennas": report.epsilon_eavesdropper}
    assert said["epsilon"] == claims[against][1]
    assert said["target"] == "exact"
    assert [look["runs"] for look in looks] == said["runs"]
    how = {"elsewhere": against == "antennas", "alone": against == "link", "confidence": 1 - 0.05 / len(looks)}
    play = partial(audited, network, claim, 1, claimed_epsilon=said["epsilon"], **how)
    for look in looks:
        again = play(runs=look["runs"], seed=look["seed"])
        assert (look["lower"], look["misses"]) == (again.epsilon_lower, again.misses)
    assert done["best"] == max(look["lower"] for look in looks)
    assert not done["refuted"]


def test_the_papers_claim_is_refuted_on_its_own_network(monkeypatch):
    monkeypatch.setattr(adversary, "PAPER_CLAIM", 1.0)
    claim, *looks, done = told(adversary.audit, {}, MODEL, "paper", None, 0)
    assert claim["target"] == "paper"
    assert claim["paper"] == pytest.approx(1.0)
    assert claim["epsilon"] > claim["paper"]
    assert done["refuted"]
    assert looks[-1]["best"] > claim["paper"]
    assert done["best"] <= claim["epsilon"]


def test_work_is_bounded_for_any_network():
    for settings in ({}, {"devices": "120"}, {"codec": "q16"}):
        _, _, numbers = adversary._game(settings, MODEL, "sum", None)
        largest = adversary.sizes(numbers, most=adversary.MOST_NUMBERS)[-1]
        assert largest * numbers <= max(adversary.MOST_NUMBERS, 1000 * numbers)


def test_a_network_without_antennas_is_not_attacked_from_there():
    with pytest.raises(AskedError, match="nobody listens"):
        adversary.audit(lambda _: None, {}, MODEL, "antennas", None, 0)


WRONG = {
    "/api/audit": [{"against": "me"}, {"seed": "-1"}, {"seed": True}, {"epsilon": "none"}, {"nothing": "1"}],
    "/api/reconstruct": [
        {"object": "own"},
        {"model": "wearables"},
        {"codec": "q16"},
        {"device": "12"},
        {"scheme": "2.2"},
    ],
    "/api/bounds": [{"delta": "2"}],
    "/api/plan": [{"devices": "99"}, {"seed": "x"}, {"epsilon": "-1"}],
}


def test_mistakes_are_told_in_a_sentence():
    every = [(path, body) for path, bodies in WRONG.items() for body in bodies]
    answers = asked(*(("POST", path, {"json": body}) for path, body in every))
    for (path, body), answer in zip(every, answers, strict=True):
        assert answer.status_code == 400, (path, body)
        assert len(answer.json()["error"]) > 10
        assert answer.json()["field"] in {*body, None}


@pytest.mark.check
def test_looks_arrive_over_http():
    (answer,) = asked(("POST", "/api/audit", {"json": {"against": "paper"}, "timeout": 120}))
    parts = [json.loads(line) for line in answer.text.splitlines()]
    assert (parts[0]["part"], parts[-1]["part"], parts[-1]["refuted"]) == ("claim", "done", True)


# Pictures


def seen(names):
    """Views and latents that no renderer has made: every shape has a direction and a brightness of its own."""
    found = {}
    for i, name in enumerate(names):
        rng = np.random.default_rng(i)
        z = rng.standard_normal((12, 40))
        latents = {codec: z / np.linalg.norm(z, axis=-1, keepdims=True) for codec in ("vote", "compact")}
        found[name] = adversary.SeenShape(rng.integers(0, 256, (12, 112, 112), dtype=np.uint8), latents)
    return found


KNOWN = seen(sorted({name for held in adversary.HELD for name in adversary.gallery_of("chair_2", held)[0]}))


def test_the_gallery_has_one_shape_of_every_kind():
    holds, at = adversary.gallery_of("chair_2", "holds")
    others, there = adversary.gallery_of("chair_2", "others")
    assert holds[at] == "chair_2"
    assert others[there] == "chair_0"
    assert at == there
    assert len({name.rpartition("_")[0] for name in holds}) == len(holds) == 26
    assert adversary.gallery_of("chair_0", "others")[0][at] == "chair_1"


@pytest.mark.parametrize("settings", [{}, {"devices": "5", "inferences": "2", "participation": "0.9"}])
def test_pictures_and_guesses_are_the_librarys(settings):
    found = adversary.painted(settings, MODEL, KNOWN, "chair_2", 1, 3)
    asked_for = asked_network(settings, MODEL)
    cams = adversary.cameras(asked_for.network.devices.count, 12)
    names, at = adversary.gallery_of("chair_2", "holds")
    latents = np.stack([KNOWN[name].latents["vote"][cams] for name in names])
    rows = {row["position"]: row for row in found["galleries"]["holds"]}
    assert ("repeated" in rows) == ("inferences" in settings)
    for key in ("link", "sum"):
        rng = np.random.default_rng(3)
        one = beliefs(asked_for.network, asked_for.claim, POSITIONS[key], latents[[at]], latents, rng=rng, device=1)
        assert rows[key]["belief"] == one.weight[0, 0, at]
        result = named(asked_for.network, asked_for.claim, POSITIONS[key], latents, seed=3, device=1)
        (guess,) = (each for each in found["guesses"] if each["position"] == key)
        assert (guess["success"], guess["bound"]) == (result.success, result.bound)
        assert not guess["exceeds"]
    assert rows["clean"]["belief"] == pytest.approx(1)
    assert rows["clean"]["ssim"] == pytest.approx(1)
    assert found["original"] == rows["clean"]["picture"]
    assert rows["none"]["belief"] == 1 / 26
    json.dumps(found, allow_nan=False)


def test_many_inferences_leave_the_other_pictures():
    rows = adversary.painted({"inferences": "1000000"}, MODEL, KNOWN, "chair_2", 0, 0)["galleries"]["holds"]
    assert [row["position"] for row in rows] == ["none", "clean", "link", "sum"]


def test_an_attacker_without_the_object_does_not_paint_it():
    found = adversary.painted({}, MODEL, KNOWN, "chair_2", 0, 0)["galleries"]["others"]
    assert all(row["ssim"] < 0.9 for row in found)


@pytest.mark.check
def test_real_shapes_are_seen_as_the_model_encodes_them():
    import torch

    from airpool.models.pretrained import load
    from airpool.models.vision.views import views
    from airpool_web.objects import shape

    parts = []
    adversary.see(parts.append, ["cup_1"], MODEL)
    (part,) = parts
    mesh = shape("cup_1")
    whole = load(MODEL).encode(views([(mesh.vertices, mesh.faces)], dtype=torch.uint8), codec="vote")
    assert part["shape"].latents["vote"] == pytest.approx(whole[0].numpy(), abs=0.02)  # maps in half precision
