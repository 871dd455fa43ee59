"""How long a newcomer's example takes: a backbone and data of one's own."""

import subprocess
import sys
from pathlib import Path

from . import Row
from .privacy import timed


def rows() -> list[Row]:
    script = Path(__file__).parent.parent / "examples" / "own_backbone.py"
    took, _ = timed(lambda: subprocess.run([sys.executable, script], check=True, capture_output=True))
    return [Row("example", "a backbone and data of one's own, examples/own_backbone.py", took, "s", limit=300.0)]
