"""Model cards: every number by a plain count, and a page that says them."""

import json
import random
import statistics
from typing import Any

import pytest
import torch

from airpool_lab.training import card as cards
from airpool_lab.training.card import card, markdown, measured, summary

CLASSES = ("bed", "chair", "lamp", "sofa")
DATA = {
    "file": "meshes.npz",
    "sha256": "ab" * 32,
    "objects": 900,
    "classes": 4,
    "limit": None,
    "what": cards.RENDERS.format("ModelNet40"),
    "licence": cards.MODELNET,
}
SPLIT = {"train": 600, "validation": 60, "test": 240, "how": "by lot"}


def told(count: int = 240, *, seed: int = 0, twins: int = 20):
    """What was found for objects of three of the four classes, their labels, and which are duplicates."""
    rng = random.Random(seed)
    labels = [rng.choice([0, 1, 3]) for _ in range(count)]
    found = [label if rng.random() < 0.7 else rng.randrange(4) for label in labels]
    return found, labels, sorted(rng.sample(range(count), twins))


def outcome(seed: int = 0) -> dict[str, Any]:
    found, labels, twins = told(seed=seed)
    return measured(torch.tensor(found), torch.tensor(labels), classes=CLASSES, duplicates=torch.tensor(twins))


def made(seeds: tuple[int, ...] = (0, 1, 2), *, test: bool = True, **more: Any) -> dict[str, Any]:
    runs = [
        {"seed": s, "weights": f"t-{s}.safetensors", "validation": (80 + s) / 100, "test": outcome(s) if test else None}
        for s in seeds
    ]
    recipe = {"epochs": 3, "seed": 0}
    return card(name="t", data=DATA, split=SPLIT, recipe=recipe, runs=runs, architecture={"head": "mlp"}, **more)


def test_accuracy_is_what_a_plain_count_gives():
    found, labels, twins = told()
    got = outcome()
    pairs = list(zip(found, labels, strict=True))
    rest = [pair for i, pair in enumerate(pairs) if i not in twins]
    for result, own in ((got, pairs), (got["without_duplicates"], rest)):
        assert result["objects"] == len(own)
        assert result["instance"] == pytest.approx(sum(f == y for f, y in own) / len(own))
        each = [[f == y for f, y in own if y == c] for c in (0, 1, 3)]
        assert result["class_mean"] == pytest.approx(statistics.fmean(sum(right) / len(right) for right in each))
    for c, name in enumerate(CLASSES):
        own = [f == c for f, y in pairs if y == c]
        assert got["per_class"][name]["objects"] == len(own)
        assert got["per_class"][name]["accuracy"] == (pytest.approx(sum(own) / len(own)) if own else None)
    for y in range(4):
        for f in range(4):
            assert got["confusion"][y][f] == pairs.count((f, y))


def test_a_class_without_objects_neither_helps_nor_hurts_the_mean():
    right = torch.tensor([0, 3])
    got = measured(right, right, classes=CLASSES, duplicates=torch.tensor([], dtype=torch.int64))
    assert got["class_mean"] == 1.0
    assert got["per_class"]["lamp"] == {"objects": 0, "accuracy": None}
    assert got["without_duplicates"]["objects"] == 2


def test_a_test_set_of_duplicates_alone_leaves_nothing():
    one = torch.tensor([1])
    got = measured(one, one, classes=CLASSES, duplicates=torch.tensor([0]))
    assert got["without_duplicates"] == {"objects": 0, "instance": None, "class_mean": None}


def test_labels_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match=r"found \(2,\) and labels \(3,\) must be"):
        measured(torch.zeros(2), torch.zeros(3), classes=CLASSES, duplicates=torch.tensor([0]))


def test_several_seeds_have_a_mean_and_a_sample_deviation():
    got = made()
    each = [outcome(s)["instance"] for s in range(3)]
    assert got["seeds"] == [0, 1, 2]
    assert got["test"]["instance"] == {
        "mean": pytest.approx(statistics.fmean(each)),
        "std": pytest.approx(statistics.stdev(each)),
        "each": each,
    }
    assert got["validation"]["mean"] == pytest.approx(0.81)
    assert got["validation"]["std"] == pytest.approx(0.01)
    assert got["test"]["objects"] == 240
    assert got["test"]["duplicates"] == 20
    beds = statistics.fmean(outcome(s)["per_class"]["bed"]["accuracy"] for s in range(3))
    assert got["test"]["per_class"]["bed"]["accuracy"] == pytest.approx(beds)


def test_one_seed_has_no_deviation_and_an_unread_test_set_no_numbers():
    got = made((4,), test=False)
    assert got["validation"] == {"mean": 0.84, "std": None, "each": [0.84]}
    assert got["test"] is None
    assert got["recipe"] == {"epochs": 3}
    page = markdown(got)
    assert "the test set was not read." in page
    assert "| validation | 0.8400 |" in page
    assert "Classes" not in page
    nothing = card(name="t", data=DATA, split=SPLIT, recipe={}, runs=[{"seed": 0, "weights": "t", "validation": None}])
    assert "| validation | – |" in markdown(nothing)


def test_the_page_says_where_it_comes_from_and_what_it_is_not():
    page = markdown(made())
    for part in (
        "renders of the CAD models of ModelNet40",
        "ModelNet is provided for academic research",
        "ab" * 32,
        "meshes.npz, 900 objects in 4 classes",
        "train 600, validation 60, test 240 objects",
        "by lot",
        'head "mlp"',
        "epochs 3",
        "| seeds | 0, 1, 2 |",
        "t-0.safetensors, t-1.safetensors, t-2.safetensors",
        "without the 20 objects that also stand in the training set",
        "± ",
        "(3 seeds)",
        "the test set was read afterwards.",
    ):
        assert part in page
    assert summary(made()) in page
    assert "a trial" not in page
    assert "at most 7 objects" in markdown({**made(), "data": {**DATA, "limit": 7}})


def test_the_page_lists_the_ten_most_frequent_confusions_of_all_seeds():
    page = markdown(made())
    listed = page.partition("## Most frequent confusions")[2].strip().splitlines()[2:]
    assert len(listed) == 9  # three classes, each taken for three others
    total = torch.tensor([outcome(s)["confusion"] for s in range(3)]).sum(0)
    times = [int(line.split("|")[3]) for line in listed]
    assert times == sorted(times, reverse=True)
    first = [part.strip() for part in listed[0].split("|")[1:3]]
    assert total[CLASSES.index(first[0]), CLASSES.index(first[1])] == times[0]
    assert times[0] == (total - total.diag().diag()).max()


def test_no_confusion_is_said_to_be_none():
    right = torch.tensor([0, 1])
    test = measured(right, right, classes=CLASSES, duplicates=torch.tensor([0]))
    run = {"seed": 0, "weights": "t", "validation": 1.0, "test": test}
    assert markdown(card(name="t", data=DATA, split=SPLIT, recipe={}, runs=[run])).endswith("confusions\n\nNone.\n")


def test_the_calibration_of_a_local_head_stands_in_the_card():
    seen = {"objects": 60} | {
        key: [value, value + 0.1]
        for key, value in (("accuracy", 0.6), ("error_raw", 0.2), ("error", 0.02), ("error_by_chance", 0.01))
    }
    given = {"temperatures": [1.5, 2.0], "validation": seen, "test": None}
    page = markdown(made(test=False, calibration=given, trunk={"trunk.safetensors": "cd" * 32}))
    assert "| trunk | trunk.safetensors |" in page
    assert "| 0 | 1.500 | 0.6000 | 0.2000 | 0.0200 | 0.0100 |" in page
    assert "| mean |  | 0.6500 | 0.2500 | 0.0700 | 0.0600 |" in page
    assert "validation, mean over devices" in page
    assert "was not read" in page
    both = made(test=False, calibration={**given, "test": seen})
    assert "On test, 60 objects" in markdown(both)
    assert "read afterwards" in markdown(both)


def over_the_air(seed: int, *, test: bool) -> list[dict[str, Any]]:
    """What a run says of two networks, and of none."""
    rows: list[dict[str, Any]] = [
        {"accuracy_mean": 0.5 + 0.1 * i + 0.02 * seed, "accuracy_std": 0.01, "class_mean": 0.4 + 0.1 * i}
        for i in range(3)
    ]
    rows[-1]["accuracy_std"] = None
    return [{"validation": row, "test": row if test else None} for row in rows]


@pytest.mark.parametrize("test", [False, True])
def test_a_codecs_page_has_a_row_for_every_network_and_one_for_none(test):
    air = {
        "channel": "remove neighbours",
        "trials": 20,
        "networks": [{"epsilon": 0.99999, "noise_std": 0.08}, {"epsilon": 10.0, "noise_std": 0.0123456}],
    }
    runs = [{"seed": s, "weights": "c", "validation": 0.7, "air": over_the_air(s, test=test)} for s in range(2)]
    got = card(name="c", data=DATA, split=SPLIT, recipe={}, runs=runs[:1], air=air)
    page = markdown(got)
    assert "Over the air: remove neighbours. ε is exact, of the worst device; ± is over 20 draws of the noise." in page
    more, title = ("| 0.5000 ± 0.0100 | 0.4000 ", "| test | mean over classes ") if test else ("", "")
    assert f"| ε | σ | validation | mean over classes {title}|" in page
    assert f"| 1 | 0.08 | 0.5000 ± 0.0100 | 0.4000 {more}|" in page
    assert "| 10 | 0.01235 | 0.6000 ± 0.0100 | 0.5000 |" in page
    assert "| no noise, no radio |  | 0.7000 | 0.6000 |" in page
    assert ("read afterwards" if test else "was not read") in page
    # Of several seeds, the spread is theirs: 0.5 and 0.52.
    page = markdown(card(name="c", data=DATA, split=SPLIT, recipe={}, runs=runs, air=air))
    assert "± is over 2 seeds" in page
    assert "| 1 | 0.08 | 0.5100 ± 0.0141 | 0.4000 |" in page
    assert "| no noise, no radio |  | 0.7100 ± 0.0141 | 0.6000 |" in page


def test_both_files_are_written_and_the_json_holds_everything(tmp_path):
    got = made()
    files = cards.write(tmp_path / "name.with.dots", got)
    assert [file.name for file in files] == ["name.with.dots.json", "name.with.dots.md"]
    assert json.loads(files[0].read_text("utf-8")) == got
    assert json.loads(files[0].read_text("utf-8"))["runs"][1]["test"]["confusion"] == outcome(1)["confusion"]
    assert files[1].read_text("utf-8") == markdown(got)
    assert len(list(tmp_path.iterdir())) == 2
