"""Numbers on the page: rounded as the library rounds them, and sliders that reach every value."""

import json
import subprocess

import numpy as np
from tests.web.test_static import STATIC, node

from airpool._support.rounding import shown
from airpool.account.odds import percent
from airpool_web.knobs import KNOBS


def of_script(module, expression, given):
    """The value of an expression over the exports of a script, `m`, and what is given."""
    code = f"import * as m from {json.dumps((STATIC / 'js' / module).as_uri())};"
    code += f"const given = JSON.parse(process.argv[1]); console.log(JSON.stringify({expression}))"
    command = [node(), "--experimental-default-type=module", "--no-warnings", "--input-type=module", "-e", code]
    done = subprocess.run([*command, "--", json.dumps(given)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_an_epsilon_is_rounded_up_as_the_library_does():
    rng = np.random.default_rng(35)
    values = [*10.0 ** rng.uniform(-5, 5, 500), *rng.integers(0, 9_999, 200) / 1_000, 0.0, 2.0, 1 - 0.99]
    assert of_script("words.js", "given.map(m.epsilon)", values) == [shown(value) for value in values]
    assert of_script("words.js", 'm.epsilon("inf")', None) == "∞"
    huge = [4178977.3466443797, 1234111.0, 9999999.0, 1e6, *10.0 ** rng.uniform(6, 300, 200)]
    for text, value in zip(of_script("words.js", "given.map(m.epsilon)", huge), huge, strict=True):
        assert value * (1 - 1e-11) <= float(text) <= value * 1.002


def test_odds_in_per_cent_are_never_below_the_truth_nor_certain():
    values = [*np.random.default_rng(35).uniform(0, 1, 300), 0.5, 0.025, 0.999, 0.9999999]
    words = of_script("words.js", "given.map(m.percent)", values)
    assert all(float(text.removesuffix(" %")) / 100 >= value - 1e-12 for text, value in zip(words, values, strict=True))
    assert [text for text, value in zip(words, values, strict=True) if text == "100 %" and value < 0.99999] == []
    assert words[-4:-2] == [percent(0.5), percent(0.025)]


def test_a_slider_goes_from_end_to_end_and_back_to_every_value():
    knobs = {name: knob for name, knob in KNOBS.items() if knob.low is not None and knob.high is not None}
    assert len(knobs) >= 20
    given = [
        {"min": k.low, "max": k.high, "step": k.step, "scale": k.scale, "kind": k.kind, "default": k.default}
        for k in knobs.values()
    ]
    expression = """given.map((knob) => {
      const s = m.scaleOf(knob);
      const all = [...Array(m.POSITIONS + 1).keys()].map(s.value);
      return { ends: [all[0], all.at(-1)], rises: all.every((x, i) => !i || x >= all[i - 1]),
        back: all.every((x) => s.value(s.position(x)) === x) }; })"""
    for knob, found in zip(given, of_script("knobs/scale.js", expression, given), strict=True):
        assert found["ends"] == [knob["min"], knob["max"]], knob
        assert (found["rises"], found["back"]) == (True, True), knob
