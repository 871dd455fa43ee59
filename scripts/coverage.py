"""Coverage by folder of the package, as a Markdown table: python scripts/coverage.py [--out FILE].

Reads what `make coverage` has left in .coverage (or COVERAGE_FILE).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

COUNTED = ("num_statements", "missing_lines", "num_branches", "missing_branches")


def by_folder(files: dict[str, dict[str, dict[str, int]]]) -> dict[str, Counter[str]]:
    """Statements and branches, and those that were missed, of each folder of the packages."""
    found: dict[str, Counter[str]] = {}
    for name, file in files.items():
        package, *rooms = Path(name.partition("/src/")[2]).parts[:-1]
        folder = rooms[0] if package == "airpool" and rooms else "/".join([package, *rooms[:1]])
        found.setdefault(folder, Counter()).update({key: file["summary"][key] for key in COUNTED})
    return found


def table(folders: dict[str, Counter[str]]) -> str:
    """A row for each folder, the whole package last."""
    whole: Counter[str] = sum(folders.values(), Counter())
    rows = [
        f"| {name} | {c[COUNTED[0]]} | {c[COUNTED[1]]} | {c[COUNTED[2]]} | {c[COUNTED[3]]} | {share(c):.1f} % |"
        for name, c in [*sorted(folders.items()), ("**all**", whole)]
    ]
    head = "| folder | statements | missed | branches | missed | covered |"
    return "\n".join([head, "| --- | ---: | ---: | ---: | ---: | ---: |", *rows])


def share(counted: Counter[str]) -> float:
    """Per cent of statements and branches that were run."""
    of, missed = (counted[a] + counted[b] for a, b in (COUNTED[::2], COUNTED[1::2]))
    return 100 * (1 - missed / of) if of else 100.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the table there")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", path], check=True)
        text = table(by_folder(json.loads(path.read_text("utf-8"))["files"]))
    print(text)
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
