"""A running page, `airpool ui` as a process of its own on loopback, for what measures it and for the tests."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit


class Page:
    """Starts the page; as a context manager it stops it at the end. folder: where its stderr goes, as page.log.

    port: 0 is any free one. A page that was stopped can be started again, at the same port.
    """

    def __init__(self, folder: Path, *options: object, port: int = 0) -> None:
        self.log, self._options, self._port = folder / "page.log", [str(each) for each in options], port
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.start()

    def start(self) -> None:
        """Starts the process, and waits until it says where it listens."""
        command = [sys.executable, "-m", "airpool", "ui", "--listen", f"127.0.0.1:{self._port}", "--json"]
        with self.log.open("a") as stderr:
            self._process = process = subprocess.Popen(
                [*command, *self._options],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a shell's job ignores it
            )
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            try:
                self.url = json.loads(said)["url"]
            except json.JSONDecodeError:
                continue
            break
        else:
            raise OSError(f"the page did not start: {self.log.read_text()}")
        self._port = self.address[1]

    def stop(self, sign: int = signal.SIGINT) -> int:
        """Stops it as Ctrl-C in its terminal does; the exit status."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        if process.poll() is None:
            os.killpg(process.pid, sign)
        try:
            return process.wait(30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
