"""The Python of a page: one process, which runs block after block in one namespace."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

# `__main__` is the namespace and the block's file its `__file__`, so that worker processes find what a block defines.
LOOP = """
import json, os, sys, traceback
asked, said = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for line in asked:
    block = json.loads(line)
    sink = os.open(block["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(sink, 1), os.dup2(sink, 2), os.close(sink)
    status = 0
    try:
        __file__ = block["file"]
        exec(compile(open(__file__, encoding="utf-8").read(), __file__, "exec"))
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush(), sys.stderr.flush()
    print(status, file=said, flush=True)
"""


class Session:
    """Starts with the first block. scratch: folder of the blocks' files and outputs."""

    def __init__(self, folder: Path, scratch: Path, environment: dict[str, str]) -> None:
        self.folder, self.scratch, self.environment = folder, scratch, environment
        self.process: subprocess.Popen[str] | None = None

    def run(self, name: str, line: int, text: str, limit_s: float) -> tuple[str | None, str]:
        """Run one block: what went wrong, if anything, and its output. A traceback has the page's lines."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", LOOP],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        file, output = self.scratch / f"{name}.py", self.scratch / "python.output"
        file.write_text("\n" * (line - 1) + text, "utf-8")
        asked, said = self.process.stdin, self.process.stdout
        assert asked is not None
        assert said is not None
        asked.write(json.dumps({"file": str(file), "output": str(output)}) + "\n")
        asked.flush()
        ready, _, _ = select.select([said], [], [], limit_s)
        status = said.readline().strip() if ready else ""
        problem = None if status == "0" else "an exception" if status else f"not done after {limit_s:g} s, or ended"
        return problem, output.read_text("utf-8", errors="replace") if output.exists() else ""

    def close(self) -> None:
        """End the process and what it has started."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
