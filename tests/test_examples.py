"""The examples, as a user would run them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.check
def test_a_backbone_and_data_of_ones_own_name_things_over_the_air():
    script = [sys.executable, str(EXAMPLES / "own_backbone.py")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(chance|no noise|over the air, ε = ([0-9.]+)).* (0\.\d{3})$", done.stdout, re.MULTILINE)
    (*_, chance), *over_the_air, (*_, without) = lines
    found = {float(epsilon): float(accuracy) for _, epsilon, accuracy in over_the_air}
    assert float(chance) == 0.038
    assert [0.99 < epsilon / budget <= 1 for epsilon, budget in zip(found, (1, 2, 10), strict=True)] == [True] * 3
    # Twenty-six objects and one seed: wide margins around 0.55, 0.80 and 0.85 of 0.88.
    strict, middle, loose = found.values()
    assert strict > 0.35
    assert middle > 0.6
    assert float(without) + 0.1 > loose > 0.7


@pytest.mark.check
def test_twenty_lines_get_digits_seen_in_quadrants_to_a_private_accuracy(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn brings the digits")
    script = EXAMPLES / "own_data.py"
    assert sum(bool(line.strip()) for line in script.read_text().split('"""')[2].splitlines()) < 20
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [(float(e), float(a)) for e, a in re.findall(r"ε = ([0-9.]+)  accuracy ([0-9.]+)", done.stdout)]
    assert [0.99 < epsilon / budget <= 1 for (epsilon, _), budget in zip(found, (2, 4, 8), strict=True)] == [True] * 3
    assert found[2][1] > 0.85
    assert (tmp_path / "digits.safetensors").exists()


@pytest.mark.check
def test_segments_as_slots_are_more_accurate_than_one_and_spend_less():
    script = [sys.executable, str(EXAMPLES / "wearables_stream.py")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(.*?)\s+(\d)\s+([0-9.]+)\s+[0-9.]+\s+([0-9.]+)$", done.stdout, re.MULTILINE)
    found = {(kind, cap): (float(accuracy), float(spent)) for kind, cap, accuracy, spent in rows}
    (once, one_slot), (often, stream) = found["one slot", "8"], found["segments as slots", "8"]
    # 95 scenes, 40 draws each: .949 and .907, .85 and 2.78 with the shipped model.
    assert often > once
    assert stream < one_slot / 2
