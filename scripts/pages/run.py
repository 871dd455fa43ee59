"""Runs the blocks of one page in their order, in a copy of the working tree."""

import csv
import doctest
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from scripts.pages.blocks import DATA, ROOT, Block, Command, blocks, commands
from scripts.pages.session import Session

TIME_LIMIT_S, START_LIMIT_S, STOP_LIMIT_S = 600.0, 120.0, 40.0
INSTALLS = re.compile(r"(git clone|cd airpool$|\S*python3? -m (pip|venv)|\S*pip3? )")
SERVES = re.compile(
    r"airpool\s+(air|server|device|ranking|ui)(?!\S|.*--help)|airpool\s+up(?!\S|.*--inferences)", re.DOTALL
)
STARTED = re.compile(r" runs;|https?://|\bup\b", re.IGNORECASE)
PROGRESS = re.compile(r"^[\w ]+: \d+ of \d+, .*\bleft$\n?", re.MULTILINE)  # of slow commands, on slow machines
ADDRESS = re.compile(r"\b127\.0\.0\.1:([1-9]\d{3,4})\b")


class FailedError(Exception):
    """A block does not do what its page says."""


@dataclass
class Result:
    """What became of the blocks of a page."""

    blocks: int = 0
    run: int = 0
    doctests: int = 0
    not_run: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    failure: str | None = None


def copy_working_tree(target: Path) -> None:
    """What a clone would hold, plus what is not committed yet, the environment, and the data beside the checkout."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():  # a deleted file is listed until the deletion is staged
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    (target / ".venv").symlink_to(sys.prefix)
    if (ROOT.parent / "shared").is_dir():
        (target.parent / "shared").symlink_to(ROOT.parent / "shared")


def matches(shown: str, output: str) -> bool:
    """Whether an output is as shown; `...` stands for anything, white space does not count."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(shown + "\n", PROGRESS.sub("", output) + "\n", flags)


def missing(needed: str, folder: Path) -> bool:
    """Whether a path (one with a slash), a program or a module that a block needs is not there."""
    if "/" in needed:
        return not (folder / needed).exists()
    return shutil.which(needed) is None and importlib.util.find_spec(needed) is None


class Page:
    """A page under way: its folder, its Python, its services, and the ports that stand for those it names."""

    def __init__(self, path: Path, folder: Path, scratch: Path, *, verbose: bool = False) -> None:
        self.path, self.folder, self.scratch, self.verbose = path, folder, scratch, verbose
        bin_first = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        self.environment = {"COLUMNS": "80", **os.environ, "PATH": bin_first}
        self.session = Session(folder, scratch, self.environment)
        self.services: list[tuple[Command, subprocess.Popen[bytes], Path]] = []
        self.ports: dict[str, str] = {}
        self.printed = ""

    def run(self) -> Result:
        """Run all blocks, up to the first that fails."""
        result, begin = Result(), time.monotonic()
        try:
            for block in blocks(self.path.read_text("utf-8")):
                result.blocks += 1
                reason = self._reason(block)
                if block.doctest:
                    result.doctests += 1
                elif reason:
                    result.not_run[reason] += 1
                else:
                    result.run += 1
                    self._block(block)
            self._stop()
        except FailedError as error:
            result.failure = str(error)
        finally:
            self.session.close()
            for _, process, _ in self.services:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        result.seconds = time.monotonic() - begin
        return result

    def _reason(self, block: Block) -> str | None:
        if block.problem:
            return block.problem  # which a test reports (tests/test_pages.py)
        if "not run" in block.marks:
            return block.marks["not run"]
        if "needs" in block.marks and missing(block.marks["needs"], self.folder):
            return f"needs {block.marks['needs']}"
        if block.language == "sh" and all(INSTALLS.match(each.text) for each in commands(block)):
            return "install"
        return None

    def _place(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path.name}:{line}"

    def _block(self, block: Block) -> None:
        if "file" in block.marks:
            (self.folder / block.marks["file"]).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / block.marks["file"]).write_text(self._ported(block.text), "utf-8")
        kind = (
            Path(block.marks.get("file", "")).suffix.removeprefix(".") if block.language == "text" else block.language
        )
        if kind in (*DATA, "csv"):
            self._data(block, kind)
        elif block.language == "python":
            begin = time.monotonic()
            problem, self.printed = self.session.run(self.path.stem, block.line, block.text, TIME_LIMIT_S)
            self._say(block.line, "python", begin)
            if problem:
                raise FailedError(f"{self.printed}\n{self._place(block.line)}: python block: {problem}")
        elif block.language == "text" and "file" not in block.marks:
            if not matches(f"...{block.text.strip()}...", self.printed):
                raise FailedError(f"{self.printed}\n{self._place(block.line)}: this is not what was printed before")
        elif block.language in ("sh", "console"):
            self.printed = ""
            for command in commands(block):
                self._command(command)

    def _data(self, block: Block, kind: str) -> None:
        try:
            if kind == "toml":
                self._settings(block)
            elif kind == "json":
                json.loads(block.text)
            elif kind == "yaml":
                import yaml  # pyright: ignore[reportMissingModuleSource]

                yaml.safe_load(block.text)
            elif len({len(row) for row in csv.reader(io.StringIO(block.text))}) > 1:
                raise ValueError("rows of unequal length")
        except (ValueError, ImportError) as error:
            raise FailedError(f"{self._place(block.line)}: {error}") from None

    def _settings(self, block: Block) -> None:
        found = tomllib.loads(block.text)
        file = self.scratch / "block.toml"
        file.write_text(block.text, "utf-8")
        if "role" in found:
            from airpool_runtime import options

            options.read(file)
        elif "devices" in found:
            import airpool

            airpool.read_network(file)

    def _command(self, command: Command) -> None:
        begin, text = time.monotonic(), command.text
        if INSTALLS.match(text):
            return
        if re.match(r"make\b", text):
            text = text.replace("make", "make -n", 1)  # CI runs it: here it must only exist
        if SERVES.match(text):
            output = self._serve(command)
        else:
            problem, output = self._run(text)
            if problem:
                raise FailedError(f"{output}\n{self._place(command.line)}: {command.text}: {problem}")
        self._say(command.line, command.text, begin)
        if command.shown and not matches(command.shown, output):
            raise FailedError(f"{output}\n{self._place(command.line)}: {command.text}: the page shows\n{command.shown}")
        self.printed += output

    def _say(self, line: int, title: str, begin: float) -> None:
        if self.verbose:
            print(f"{self._place(line)}: {title}  ({time.monotonic() - begin:.1f} s)", flush=True)

    def _ported(self, text: str) -> str:
        """The text with free ports in the place of those that it names, the same ones all over the page."""
        for port in {*ADDRESS.findall(text)} - self.ports.keys():
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.ports[port] = str(probe.getsockname()[1])
        return ADDRESS.sub(lambda found: f"127.0.0.1:{self.ports[found[1]]}", text)

    def _start(self, text: str, output: Path) -> subprocess.Popen[bytes]:
        with output.open("w") as sink:  # a file, not a pipe: a child left behind cannot keep us waiting
            return subprocess.Popen(
                ["bash", "-o", "pipefail", "-c", self._ported(text)],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _run(self, text: str) -> tuple[str | None, str]:
        """Run a command to its end: what went wrong, if anything, and its output."""
        output = self.scratch / "output"
        process = self._start(text, output)
        try:
            status = process.wait(TIME_LIMIT_S)
            problem = f"exit status {status}" if status else None
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            problem = f"not done after {TIME_LIMIT_S:g} s"
        return problem, output.read_text("utf-8", errors="replace")

    def _serve(self, command: Command) -> str:
        """Start a command that serves, and wait until it says so."""
        output = self.scratch / f"service-{len(self.services)}.output"
        process = self._start(f"exec {command.text}", output)
        self.services.append((command, process, output))
        end = time.monotonic() + START_LIMIT_S
        while not STARTED.search(output.read_text("utf-8", errors="replace")):
            if process.poll() is not None or time.monotonic() > end:
                said = output.read_text("utf-8", errors="replace")
                raise FailedError(f"{said}\n{self._place(command.line)}: {command.text}: did not start")
            time.sleep(0.2)
        return output.read_text("utf-8", errors="replace")

    def _stop(self) -> None:
        """Stop what serves, as Ctrl-C does; it must end cleanly."""
        for _, process, _ in self.services:
            process.send_signal(signal.SIGINT)
        for command, process, output in self.services:
            try:
                status = process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                raise FailedError(f"{self._place(command.line)}: {command.text}: does not stop") from None
            if status not in (0, 130):
                said = output.read_text("utf-8", errors="replace")
                raise FailedError(f"{said}\n{self._place(command.line)}: {command.text}: exit status {status}")
