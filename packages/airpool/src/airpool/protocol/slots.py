"""Slots until sure: one inference as a loop of device, medium and server, which ends when the server is sure.

    ẑ_n = (1/n) Σ_{i ≤ n} ẑ_i      noise of level σ/√n      stop at the first n ≤ N at which the best class is sure

In each slot every device on the air sends the same clipped latent with fresh noise. ε of an inference is the cap, that
of all N slots, whatever the server does (docs/proofs/privacy.md, "Slots of one inference"); what it saves by stopping
early is spending, not a guarantee.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from array_api_compat import array_namespace
from array_api_compat import device as device_of

from airpool._support.arrays import Array
from airpool.network import Slots
from airpool.protocol import server


class SlotEstimate(NamedTuple):
    """One slot of m inferences: estimates (m, r), whether any device transmitted (m,), energy of all devices (m,)."""

    estimate: Array
    any_signal: Array
    energy: Array


# Another slot of these inferences, by their indices (m′,).
Again = Callable[[Array], SlotEstimate]
# Logits (m′, L) of means over n slots, (m′, r), of these inferences: decode(mean, n, indices).
Decode = Callable[[Array, int, Array], Array]


@dataclass(frozen=True, eq=False)
class Asked:
    """m inferences when the server stopped, one value each; logits (m, L), the mean estimate (m, r).

    probability: of the answer, by the server's posterior. slots: number used. sure: whether it is `Slots.sure` or more.
    energy: of all devices in all slots used.
    """

    logits: Array
    estimate: Array
    probability: Array
    slots: Array
    sure: Array
    any_signal: Array
    energy: Array

    def labels(self, *, abstain: bool = False) -> Array:
        """The likeliest class; NO_ANSWER where no device transmitted, and with abstain where the server is not sure."""
        return server.labels(self.logits, self.any_signal & self.sure if abstain else self.any_signal)


class Asking:
    """m inferences under way: what their slots have brought so far, and of which ones the server is sure.

    The one accumulating step of simulators, which take a slot of many inferences at once, and of a running server,
    which takes one slot of one inference. Estimates are arrays as `like`, (m, r).
    """

    def __init__(self, slots: Slots, decode: Decode, like: Array) -> None:
        xp, count = array_namespace(like), like.shape[0]
        self._slots, self._decode = slots, decode
        self._every = xp.arange(count, device=device_of(like))
        self._heard, self._energy, self._used = (xp.zeros_like(like[:, 0]) for _ in range(3))
        self._sure = xp.zeros_like(self._heard, dtype=xp.bool)
        self._total: Array = None  # until the first slot
        self._logits: Array = None
        self._probability: Array = None

    @property
    def pending(self) -> Array:
        """Indices of the inferences that another slot is asked of: the server is not sure, and N are not spent."""
        return self._every[~self._sure & (self._used < self._slots.count)]

    def take(self, which: Array, got: SlotEstimate) -> None:
        """Adds a slot of these inferences, which have used equally many; the first is one of all.

        A slot in which no device transmits is spent and tells the server nothing.
        """
        xp, begins = array_namespace(self._heard), self._total is None
        at = slice(None) if which.shape[0] == self._every.shape[0] else which  # all of them: without copies
        carried = xp.astype(got.any_signal, self._heard.dtype)
        brought = got.estimate * carried[:, None]
        if begins:
            self._total = brought
        else:
            self._total[at] += brought
        self._heard[at] += carried
        self._energy[at] += got.energy
        self._used[at] += 1
        logits, posterior = _decoded(self._total[at], self._heard[at], self._decode, which)
        probability = xp.max(posterior, axis=-1)
        if begins:
            self._logits, self._probability = logits, probability
        else:
            self._logits[at], self._probability[at] = logits, probability
        self._sure[at] = (probability >= self._slots.sure) & (self._heard[at] > 0)

    @property
    def asked(self) -> Asked:
        """The inferences so far, of which each has used at least one slot."""
        mean = self._total / _at_least_one(self._heard)[:, None]
        found = self._logits, mean, self._probability, self._used, self._sure, self._heard > 0, self._energy
        return Asked(*found)


def until_sure(first: SlotEstimate, slots: Slots, again: Again, decode: Decode) -> Asked:
    """m inferences from their first slot on, each until the server is sure or N slots are spent."""
    asking = Asking(slots, decode, first.estimate)
    pending, got = asking.pending, first
    while True:
        asking.take(pending, got)
        pending = asking.pending
        if pending.shape[0] == 0:
            return asking.asked
        got = again(pending)


def _decoded(total: Array, heard: Array, decode: Decode, which: Array) -> tuple[Array, Array]:
    """Logits and posterior of the mean over the slots that were received, each by the decoder for that many."""
    xp = array_namespace(total)
    numbers = _at_least_one(heard)
    mean, (first, *more) = total / numbers[:, None], [int(n) for n in xp.unique_values(numbers)]
    # Nearly always all inferences have received as many slots: then one decoder serves all.
    logits = xp.asarray(decode(mean, first, which), copy=True)  # rows are written later
    for n in more:
        these = numbers == n
        logits[these] = decode(mean[these], n, which[these])
    shifted = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return logits, shifted / xp.sum(shifted, axis=-1, keepdims=True)


def _at_least_one(heard: Array) -> Array:
    return array_namespace(heard).where(heard > 0, heard, heard * 0 + 1)
