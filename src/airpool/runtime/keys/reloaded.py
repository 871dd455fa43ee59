"""Values that are read from files, and again when these change: keys and rosters, renewed without a restart."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

_Value = TypeVar("_Value")
_CHECK_SECONDS = 1.0


class Reloaded(Generic[_Value]):
    """The value of `load()`, loaded again once a file has changed, looked at once a second at most.

    The last good value stays where loading fails, as in the middle of a copy; `report` gets the reason, once as long as
    it is the same, and loading is tried again at the next look. The first load raises.
    """

    def __init__(
        self, load: Callable[[], _Value], paths: Sequence[Path], *, report: Callable[[str], None] = lambda _: None
    ) -> None:
        self._load, self._paths, self._report = load, tuple(paths), report
        self._stamp, self._reported = self._stamped(), ""
        self._value = load()
        self._looked = time.monotonic()

    def __call__(self) -> _Value:
        now = time.monotonic()
        if now - self._looked >= _CHECK_SECONDS:
            self._looked = now
            self._look()
        return self._value

    def _look(self) -> None:
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        try:
            self._value, self._stamp, self._reported = self._load(), stamp, ""
        except (OSError, ValueError) as error:
            if str(error) != self._reported:
                self._reported = str(error)
                self._report(self._reported)

    def _stamped(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(path) for path in self._paths)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Inode, size and time of a file; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
