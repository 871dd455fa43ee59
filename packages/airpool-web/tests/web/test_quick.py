"""The short answer of a slider that moves."""

import json

from tests.web.asking import asked

WANTED = {"way": "noise", "noise_std": "0.07"}


def test_a_quick_answer_ends_with_every_epsilon_and_has_the_same_numbers():
    short, whole = asked(("POST", "/api/answer?quick", {"json": WANTED}), ("POST", "/api/answer", {"json": WANTED}))
    parts = [json.loads(line) for line in short.text.splitlines()]
    assert [part["part"] for part in parts] == ["network", "leakage"]
    assert parts == [json.loads(line) for line in whole.text.splitlines()[:2]]
