"""The record of a run, as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airpool._support import files


def write(found: Mapping[str, Any], out: Path | None) -> None:
    """Writes it to a file, or prints it."""
    text = json.dumps(found, indent=1, ensure_ascii=False)
    if out is None:
        print(text)
    else:
        files.write(out, text + "\n")
