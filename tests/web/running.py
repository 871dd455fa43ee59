"""A running page: `airpool ui` as a process of its own, on loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def started(*options, stderr, port=0):
    """The process and its address, once it listens. stderr: a file, where accidents are written."""
    command = [sys.executable, "-m", "airpool", "ui", "--listen", f"127.0.0.1:{port}", "--json", *map(str, options)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a shell's background job ignores it
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    if not said.strip():
        process.wait(60)
        raise AssertionError(f"the page did not start: status {process.returncode}")
    text = said
    while True:
        try:
            return process, json.loads(text)["url"]
        except json.JSONDecodeError:
            text += process.stdout.readline()
            assert len(text) < 10_000


def stopped(process):
    """Stops the process as Ctrl-C in its terminal does; the exit status."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    try:
        return process.wait(30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()


@contextmanager
def page(folder, *options, port=0):
    """The address of a page that runs meanwhile; its stderr is in folder/page.log."""
    log = folder / "page.log"
    with log.open("w") as stderr:
        process, url = started(*options, stderr=stderr, port=port)
        try:
            yield url
        finally:
            stopped(process)
    assert "Traceback" not in log.read_text("utf-8", "replace")
