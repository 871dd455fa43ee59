"""The air as a medium, a stand-in for the radio: fading, Σ h x, receiver noise. Trusted to be no more than physics.

A signal is judged by form and by the declared scale, never by the realised norm, which would tell a full feature from
an empty one. A device whose signal is rejected counts as missing, as one that crashed.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from airpool._support import draws
from airpool._support.arrays import Floats
from airpool.network import Network
from airpool.protocol import medium as stations
from airpool.radio.fading import sample_gains
from airpool.radio.link import link_of
from airpool.radio.power import Misalignment
from airpool_runtime import seeded
from airpool_runtime.medium import DevicePort, HubSetup, Line, PortOptions, Round
from airpool_runtime.messages import RejectedError, RoundMessage, SlotSignal
from airpool_runtime.under_way import MOST_KEPT, parts

_Drawn = tuple[Floats, Misalignment | None]  # gains (1, 1, K), and what devices do not know of them
_ROUNDING = 1e-9
_TURN = 8
_SHORTEST_GRACE = 0.1


class RadioMedium:
    """Rules of the radio: devices need nothing but their line."""

    def hub(self, setup: HubSetup) -> "RadioHub":
        return RadioHub(setup.network, setup.seed)

    def slot_seconds(self, network: Network) -> float:
        return 5.0

    def ports(
        self, network: Network, devices: Sequence[int], options: PortOptions
    ) -> Callable[[Line, int], DevicePort]:
        return lambda line, _: line


class RadioHub:
    """Draws the channel of every slot, or of every inference; a channel that stands still is drawn once."""

    def __init__(self, network: Network, seed: int | None) -> None:
        self.inferences = _TURN
        self._network, self._seed = network, seed
        self._link, self._rng = link_of(network), np.random.default_rng()
        self._still: _Drawn | None = None
        self._of_inference: OrderedDict[str, _Drawn] = OrderedDict()  # where one draw serves all slots
        # Gains that stand still do so until this hub ends: the next one draws anew, and says so.
        self.epoch = "" if network.channel.redrawn or seed is not None else secrets.token_hex(8)

    def admit(self, device: int, advert: bytes | None, others: Sequence[bytes]) -> None:
        if advert is not None:
            raise RejectedError("this network takes signals, not a secure sum")

    def among(self, ids: Sequence[str], ready: Sequence[int]) -> list[int]:
        return list(ready)

    def opened(self, id: str, number: int, adverts: Mapping[int, bytes]) -> Round:
        (inference, slot), count = parts(id, self._network.slots), self._network.devices.count
        rng = self._rng if self._seed is None else seeded.of_air(self._seed, number, slot=slot, devices=count)
        drawn = self._of_inference.pop(inference, None) or self._drawn(rng)
        if not self._network.slots.redrawn:
            self._of_inference[inference] = drawn
            while len(self._of_inference) > MOST_KEPT:
                self._of_inference.popitem(last=False)
        return Slot(adverts, self._network, self._link.transmitters.reach, rng, drawn)

    def end(self, inference: str) -> None:
        self._of_inference.pop(inference, None)

    def _drawn(self, rng: draws.Generator) -> _Drawn:
        """Gains and errors of a slot: fresh ones, or those of the first slot where the channel stands still."""
        if self._still is not None:
            return self._still
        gain = sample_gains(self._link.fading, (1, 1, self._network.devices.count), rng, dtype=np.float64)
        drawn = gain, stations.misalignment(gain, self._network.channel, rng)
        if not self._network.channel.redrawn and self._seed is None:
            self._still = drawn
        return drawn


class Slot:
    """One slot: what has arrived of the devices that it was announced to. reach: largest scale of each device."""

    def __init__(
        self, devices: Iterable[int], network: Network, reach: Floats, rng: draws.Generator, drawn: _Drawn
    ) -> None:
        self._awaited, self.carrier, self.dropped = set(devices), False, ""
        self.blamed: Mapping[int, str] = {}
        self.doubted: Mapping[int, str] = {}
        self._network, self._limit, self._rng = network, reach * (1 + _ROUNDING), rng
        self._gain, self._off = drawn
        self._known: Floats = (self._gain if self._off is None else self._off.estimate)[0, 0]
        self._signals = np.zeros((network.devices.count, network.coordinates))
        self._arrived: set[int] = set()
        self._fewest = network.devices.count - network.dropouts
        self._enough, self._end = asyncio.Event(), asyncio.Event()

    @property
    def awaited(self) -> set[int]:
        return self._awaited

    @property
    def arrived(self) -> set[int]:
        return self._arrived

    def gain(self, device: int) -> float:
        return float(self._known[device])

    def start(self) -> None:
        """Nothing follows an announcement: signals come."""

    def take(self, device: int, sent: SlotSignal | RoundMessage) -> None:
        if isinstance(sent, RoundMessage):
            raise RejectedError("this network takes signals, not a secure sum")
        if device in self._arrived:
            raise RejectedError("sent twice")
        if device not in self._awaited:
            raise RejectedError("late, or of another slot")
        try:
            if sent.samples.shape != self._signals.shape[1:]:
                raise RejectedError("wrong length")
            if not np.all(np.isfinite(sent.samples)):
                raise RejectedError("not finite")
            if not 0 <= sent.scale <= self._limit[device]:
                raise RejectedError("declared scale beyond the power limit")
        except RejectedError:
            self.lose(device)
            raise
        self._signals[device] = sent.samples
        self._arrived.add(device)
        self.carrier |= sent.scale > 0
        if len(self._arrived) >= self._fewest:
            self._enough.set()
        self.lose(device)

    def lose(self, device: int) -> None:
        self._awaited.discard(device)
        if not self._awaited:
            self._enough.set()
            self._end.set()

    async def ended(self, seconds: float) -> None:
        """Waits for all; once as many have come as ε counts on, for as long again as these took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._enough.wait()
                grace = max(_SHORTEST_GRACE, loop.time() - began)
                await asyncio.wait_for(self._end.wait(), grace)

    def received(self) -> Floats:
        """y = Σ h x + m of what has arrived."""
        return stations.received(
            self._signals[None, None],
            self._network,
            gain=self._gain,
            off=self._off,
            rng=self._rng,
            transmitting=np.ones_like(self._gain, dtype=np.bool_),
        )[0, 0]

    def close(self) -> None:
        """No device waits for anything."""


RADIO = RadioMedium()
