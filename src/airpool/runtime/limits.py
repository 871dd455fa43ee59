"""Token-bucket rate limiter."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Bucket:
    """Lets `per_second` calls through in the long run, and `burst` at once.

    >>> one = Bucket(per_second=1.0, burst=2, clock=lambda: 0.0)
    >>> [one.take() for _ in range(3)]
    [True, True, False]
    """

    per_second: float
    burst: int
    clock: Callable[[], float] = time.monotonic
    _left: float = field(init=False)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._left, self._last = float(self.burst), self.clock()

    def take(self) -> bool:
        """Whether one more call is allowed now."""
        now = self.clock()
        self._left = min(self.burst, self._left + (now - self._last) * self.per_second)
        self._last = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
