"""One inference at the server, slot after slot until it is sure: what its slots have brought, and what came of it.

The step that adds a slot up is the simulator's (`protocol.slots.Asking`).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from airpool._support.arrays import Array, Floats
from airpool.models.layers import softmax
from airpool.network import Network
from airpool.protocol import server as stations
from airpool.protocol.slots import Asked, Asking, SlotEstimate
from airpool.runtime.messages import Sum, Withheld
from airpool.runtime.results import InferenceResult, ServerCodec, Status

_ONE = np.zeros(1, dtype=np.int64)


class OneInference:
    """slots: number that were announced, or may have been. over: no further slot is asked for."""

    def __init__(self, network: Network, codec: ServerCodec, gamma: float) -> None:
        self._network, self._codec, self._gamma = network, codec, gamma
        self._nothing = np.zeros((1, network.dimension))
        self._asking = Asking(network.slots, self._decoded, self._nothing)
        self.slots, self.over = 0, False
        self._devices, self._withheld, self._stopped = list[int](), "", ""
        self._failed: tuple[Status, str] | None = None

    def take(self, got: Sum | Withheld, *, simulated: bool) -> None:
        """Takes what came of a slot."""
        if isinstance(got, Withheld) and not got.spent:
            self.slots -= 1
            self.stop("failed" if got.rejected else "below quorum", got.reason)
            return
        if isinstance(got, Withheld):
            self._withheld = got.reason
            self._add(self._nothing, heard=False)
        elif why := self._objection(got, simulated):
            self._fail(why)
            return
        else:
            self._devices.append(got.devices)
            self._add(stations.estimate(got.y, self._gamma)[None], heard=got.carrier)
        self.over |= self._asking.pending.shape[0] == 0

    def stop(self, status: Status, reason: str) -> None:
        """Ends the inference before the server is sure; the reason is given with an answer too."""
        self.over, self._stopped = True, reason
        if not self._devices:
            self._failed = ("withheld", f"{self._withheld}; {reason}") if self._withheld else (status, reason)

    def result(self, blank: InferenceResult) -> InferenceResult:
        """A blank result, filled in once the inference is over."""
        found: dict[str, Any] = {"slots": self.slots, "cap": self._network.slots.count, "spent": self.slots > 0}
        if self._failed is not None:
            return replace(blank, status=self._failed[0], reason=self._failed[1], **found)
        if not self._devices:
            return replace(blank, status="withheld", reason=self._withheld, **found)
        asked = self._asking.asked
        label = int(asked.labels(abstain=self._network.slots.abstain)[0])
        found |= {"sure": bool(asked.sure[0]), "probability": float(asked.probability[0]), "label": label}
        found |= {"devices": min(self._devices), "logits": tuple(asked.logits[0].tolist())}
        if label == stations.NO_ANSWER:
            return replace(blank, status="no answer", reason=self._without(asked), **found)
        found |= {"name": self._codec.classes[label], "probabilities": tuple(softmax(asked.logits[0]).tolist())}
        return replace(blank, status="answered", reason=self._stopped and f"not sure: {self._stopped}", **found)

    def _fail(self, reason: str) -> None:
        self.over = True
        self._failed = ("failed", reason)

    def _without(self, asked: Asked) -> str:
        """The reason why there is no answer."""
        if not asked.any_signal[0]:
            return "no device transmitted"
        return f"not sure: {self._stopped}" if self._stopped else "not sure"

    def _add(self, estimate: Floats, *, heard: bool) -> None:
        with np.errstate(all="ignore"):
            self._asking.take(_ONE, SlotEstimate(estimate, np.array([heard]), np.zeros(1)))
            logits = self._asking.asked.logits
        if not np.all(np.isfinite(logits)):
            self._fail("a sum that is too large or no number")

    def _decoded(self, mean: Array, slots: int, which: Array) -> Array:
        return self._codec.decoder(slots)(mean[0])[None]

    def _objection(self, got: Sum, simulated: bool) -> str | None:
        """The reason why a sum cannot be one of this network; None where it can."""
        if got.simulated != simulated:
            how = ("live", "simulated")
            return f"a {how[got.simulated]} air answered a {how[not got.simulated]} server"
        net, fewest, most = self._network, self._network.survivors, self._network.devices.count
        if not fewest <= got.devices <= most:
            return f"a sum of {got.devices} devices, must be of {fewest} to {most}: the air has another file"
        if got.y.shape != (net.dimension,):
            return f"a sum of {got.y.size} numbers, must be {net.dimension}: the air has another network file"
        return None
