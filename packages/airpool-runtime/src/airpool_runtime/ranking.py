"""The ranking server of Scheme 2.2: it receives noisy scores and nothing else, and says who is selected."""

import asyncio

import numpy as np

from airpool.network import Network
from airpool.schemes.ranking import selected
from airpool_runtime.messages import DisconnectedError, RejectedError

WAIT_SECONDS = 2.0


class _Round:
    def __init__(self, expected: int) -> None:
        self.expected, self.scores, self.waiting = expected, dict[int, float](), 0
        self.complete = asyncio.Event()


class RankingServer:
    """Waits for the scores of an inference, and answers all of them at once.

    seconds: how long it waits; it must be shorter than a slot. Then it ranks those that have come, if they are at least
    the network's devices less its dropouts. Fewer: no answer.
    """

    def __init__(self, network: Network, *, seconds: float = WAIT_SECONDS) -> None:
        if not network.scheme.needs_ranking_server:
            raise ValueError(f"scheme.name={network.scheme.name!r} must be 2.2, the scheme that ranks devices")
        if not 0 < seconds <= 600:
            raise ValueError(f"seconds={seconds} must be > 0 and at most 600")
        self._count, self._fewest = network.devices.count, network.devices.count - network.dropouts
        self._num_selected, self._seconds = network.scheme.most_senders(network), seconds
        self._rounds: dict[str, _Round] = {}

    async def reachable(self) -> bool:
        return True

    async def selected(self, id: str, device: int, devices: int, noisy_score: float) -> bool:
        if not 0 <= device < self._count or not 0 < devices <= self._count or not np.isfinite(noisy_score):
            raise RejectedError(f"a score must be finite, of a device from 0 to {self._count - 1}")
        this = self._rounds.setdefault(id, _Round(devices))
        if device in this.scores or this.complete.is_set():
            raise RejectedError("sent twice, or late")
        this.scores[device] = noisy_score
        if len(this.scores) == this.expected:
            this.complete.set()
        this.waiting += 1
        try:
            await asyncio.wait_for(this.complete.wait(), self._seconds)
        except TimeoutError:
            this.complete.set()
        finally:
            this.waiting -= 1  # a device that hangs up leaves the others their round
            if (this.complete.is_set() or not this.waiting) and self._rounds.get(id) is this:
                del self._rounds[id]
        there = sorted(this.scores)
        if len(there) < self._fewest:
            raise DisconnectedError(f"{len(there)} scores have come, {self._fewest} are needed")
        chosen = selected(np.array([this.scores[k] for k in there]), min(self._num_selected, len(there)))
        return bool(chosen[there.index(device)])
