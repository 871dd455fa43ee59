"""The examples, as a user would run them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.check
def test_a_backbone_and_data_of_ones_own_name_things_over_the_air():
    script = [sys.executable, str(EXAMPLES / "own_data.py")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(chance|no noise|over the air, ε = ([0-9.]+)).* (0\.\d{3})$", done.stdout, re.MULTILINE)
    (*_, chance), *over_the_air, (*_, without) = lines
    found = {float(epsilon): float(accuracy) for _, epsilon, accuracy in over_the_air}
    assert float(chance) == 0.038
    assert [0.99 < epsilon / budget <= 1 for epsilon, budget in zip(found, (1, 2, 10), strict=True)] == [True] * 3
    # Twenty-six objects and one seed: wide margins around 0.56, 0.80 and 0.83 of 0.85.
    strict, middle, loose = found.values()
    assert strict > 0.35
    assert middle > 0.6
    assert float(without) + 0.1 > loose > 0.7
