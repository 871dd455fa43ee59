"""A temporary folder that vanishes with its process, even with one that is killed: `airpool up` keeps keys in it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

# Ends when the pipe to it does, which the system closes whatever happens; roles may take a moment to end as well.
_CLEANER = """
import pathlib, shutil, sys, time
sys.stdin.buffer.read()
for _ in range(10):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.5)
    if not pathlib.Path(sys.argv[1]).exists():
        break
"""


@contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """A folder for this user alone, removed at the end of the block, or by a process of its own after a kill -9."""
    made = TemporaryDirectory(prefix=prefix)
    command, null = [sys.executable, "-I", "-S", "-c", _CLEANER, made.name], subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True) as cleaner:
        try:
            yield Path(made.name)
        finally:
            made.cleanup()
            cleaner.kill()
