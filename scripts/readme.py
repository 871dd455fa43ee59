"""Run what the README tells people to type, so that it stays true.

    .venv/bin/python scripts/readme.py [--readme FILE] [--list]

Every line of a ```sh or ```bash block is a command; where a block has `$ ` prompts, only the lines that have one
are, and the rest is output. Every ```python block is a script. All run in order, in a copy of the working tree.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
# CI clones, installs and runs make by itself; an editable install here would tie the environment to the copy.
SKIPPED = re.compile(r"(make|git clone|(python3? -m )?pip install)(\s|$)|cd airpool$")
TIME_LIMIT_S = 600


@dataclass(frozen=True)
class Step:
    line: int
    language: str
    text: str

    @property
    def title(self) -> str:
        return self.text if self.language == "sh" else "python block"

    @property
    def skipped(self) -> bool:
        return self.language == "sh" and SKIPPED.match(self.text) is not None


def steps(markdown: str) -> Iterator[Step]:
    """What a README tells people to run, in order."""
    for token in MarkdownIt().parse(markdown):
        language = token.info.split()[0] if token.type == "fence" and token.info else ""
        line = token.map[0] + 2 if token.map else 0  # lines count from 1, and the fence is one
        if language == "python":
            yield Step(line, "python", token.content)
        elif language in ("sh", "bash"):
            yield from commands(token.content, line)


def commands(block: str, line: int) -> Iterator[Step]:
    """The commands of one block; a backslash at the end of a line continues it."""
    prompted = re.search(r"^\$ ", block, re.MULTILINE) is not None
    for match in re.finditer(r"^(?:.*\\\n)*.*$", block, re.MULTILINE):
        text = match[0].strip()
        if not text or text.startswith("#") or (prompted and not text.startswith("$ ")):
            continue
        yield Step(line + block.count("\n", 0, match.start()), "sh", text.removeprefix("$ "))


def copy_working_tree(target: Path) -> None:
    """What a clone would hold, plus what is not committed yet, plus the environment."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():  # a deleted file is listed until the deletion is staged
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    (target / ".venv").symlink_to(sys.prefix)


def run(step: Step, folder: Path, scratch: Path) -> tuple[str | None, str]:
    """Run one step: what went wrong, if anything, and its output."""
    if step.language == "python":
        script = scratch / "block.py"
        script.write_text("\n" * (step.line - 1) + step.text)  # a traceback then gives the README's lines
        command = [sys.executable, str(script)]
    else:
        command = ["bash", "-o", "pipefail", "-c", step.text]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    output = scratch / "output"
    with output.open("w") as sink:  # a file, not a pipe: a child left behind cannot keep us waiting
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(TIME_LIMIT_S)
            problem = f"exit status {status}" if status else None
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            problem = f"not done after {TIME_LIMIT_S} s"
    return problem, output.read_text(errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(description="Run every command in the README.")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md", metavar="FILE")
    parser.add_argument("--list", action="store_true", help="print the commands without running them")
    options = parser.parse_args()
    readme: Path = options.readme
    if not readme.is_file():
        sys.exit(f"{readme} not found")
    todo = list(steps(readme.read_text()))
    if not todo:
        sys.exit(f"{readme.name}: no ```sh, ```bash or ```python block, so nothing was checked")

    with tempfile.TemporaryDirectory(prefix="airpool-readme-") as temporary:
        folder, scratch = Path(temporary, "airpool"), Path(temporary, "scratch")
        folder.mkdir()
        scratch.mkdir()
        if not options.list:
            copy_working_tree(folder)
        for step in todo:
            place = f"{readme.name}:{step.line}"
            print(f"{place}: {step.title}", end="", flush=True)
            if step.skipped:
                print("  (skipped: CI does this itself)")
            elif options.list:
                print()
            else:
                begin = time.monotonic()
                problem, output = run(step, folder, scratch)
                print(f"  ({time.monotonic() - begin:.1f} s)", flush=True)
                if problem:
                    sys.exit(f"{output}\n{place} failed ({problem}): {step.title}")


if __name__ == "__main__":
    main()
