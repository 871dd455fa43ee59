"""The air: a stand-in for the radio, and trusted to be no more than physics. The same for every medium.

It draws the fading, tells each device its own gain, adds up what is sent in a slot, adds the receiver's noise and hands
over the sum. What it rejects is judged by form and by the declared scale, never by the realised norm, which would tell
a full feature from an empty one. A device whose signal is rejected counts as missing, as one that crashed.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from airpool._support import draws
from airpool._support.arrays import Floats
from airpool.network import ACCESSES, Network, NetworkError
from airpool.protocol import medium
from airpool.radio.csi import Misalignment
from airpool.radio.fading import sample_gains
from airpool.radio.link import Link, link_of
from airpool.runtime import logs, seeded
from airpool.runtime.medium import Announcement, RejectedError, Sum, Withheld

if TYPE_CHECKING:
    from airpool.runtime.secure_slot import SecureSlot

_Drawn = tuple[Floats, Misalignment | None]  # gains (1, 1, K), and what devices do not know of them
SLOT_SECONDS = 5.0
PATIENCE_SECONDS = 1.0
_ROUNDING = 1e-9


class Air:
    """Devices 0 to K − 1 of one network, one slot at a time.

    quorum: how many must be ready before a slot is held, from K − dropouts to K. dropouts: the network's own; more
    missing than these, and the sum is withheld. So the network's ε, which counts on K − dropouts devices, holds.
    slot_seconds: how long a slot waits for its signals. patience: how long it waits for devices to be ready.
    seed: of a simulated run.
    """

    def __init__(
        self,
        network: Network,
        *,
        quorum: int | None = None,
        slot_seconds: float = SLOT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        seed: int | None = None,
    ) -> None:
        require_runnable(network)
        count, fewest = network.devices.count, network.devices.count - network.dropouts
        self.network, self.seed = network, seed
        self.quorum = count if quorum is None else quorum
        if not fewest <= self.quorum <= count:
            raise ValueError(
                f"quorum={quorum} must be from {fewest} to {count}: the network's ε counts on {count} devices less its "
                f"dropouts={network.dropouts}"
            )
        seeded.require(seed)
        for name, seconds in (("slot_seconds", slot_seconds), ("patience", patience)):
            if not 0 < seconds <= 600:
                raise ValueError(f"{name}={seconds} must be > 0 and at most 600")
        self._slot_seconds, self._patience, self._fewest = slot_seconds, patience, fewest
        self._link = link_of(network)
        self._rng = np.random.default_rng()
        self._deliver: dict[int, Callable[[Announcement | bytes], None]] = {}
        self._ready: set[int] = set()
        self._adverts: dict[int, bytes] = {}
        self._stalled: set[int] = set()
        self._slot: Slot | SecureSlot | None = None
        self._still: _Drawn | None = None
        # Gains that stand still do so until this air ends: the next one draws anew, and says so.
        self._epoch = "" if network.channel.redrawn or seed is not None else secrets.token_hex(8)
        self._secure: type[SecureSlot] | None = None
        if network.channel.rules.medium == "secure sum":
            from airpool.runtime import secure_slot  # needs cryptography, which other networks do without

            self._secure = secure_slot.SecureSlot
        self._one_at_a_time = asyncio.Lock()
        self._change = asyncio.Event()

    # What devices do

    def connect(self, device: int, deliver: Callable[[Announcement | bytes], None], *, simulated: bool) -> None:
        """Connects a device. deliver: takes each announcement and each message of a secure round; must not block."""
        if not 0 <= device < self.network.devices.count:
            raise RejectedError(f"device {device} must be from 0 to {self.network.devices.count - 1}")
        if device in self._deliver:
            raise RejectedError(f"device {device} is connected already")
        if simulated != (self.seed is not None):
            how = ("live", "simulated")
            raise RejectedError(f"a {how[simulated]} device cannot take part over a {how[not simulated]} air")
        self._deliver[device] = deliver
        logs.event("connected", device=device, connected=len(self._deliver))

    def disconnect(self, device: int) -> None:
        self._deliver.pop(device, None)
        self._ready.discard(device)
        self._stalled.discard(device)
        if self._slot is not None:
            self._slot.lose(device)
        self._change.set()
        logs.event("disconnected", device=device, connected=len(self._deliver))

    def ready(self, device: int, advert: bytes = b"") -> None:
        """Marks a device as ready. advert: its own, under secure access; raises RejectedError if it is invalid."""
        if device in self._deliver:
            if self._secure is not None:
                self._secure.check(advert, [self._adverts[k] for k in self._ready - {device}])
            self._adverts[device] = advert
            self._ready.add(device)
            self._stalled.discard(device)
            self._change.set()

    def transmit(self, device: int, id: str, samples: Floats, scale: float) -> None:
        """Puts a signal into the slot, or raises RejectedError."""
        try:
            if self._slot is None or self._slot.id != id:
                raise RejectedError("late, or of another slot")
            self._slot.put(device, samples, scale)
        except RejectedError as why:
            logs.event("rejected", device=device, reason=str(why))
            raise

    def answer(self, device: int, id: str, content: bytes) -> None:
        """Takes a device's answer to a message of a secure round, or raises RejectedError."""
        try:
            if self._slot is None or self._slot.id != id:
                raise RejectedError("late, or of another slot")
            self._slot.answer(device, content)
        except RejectedError as why:
            logs.event("rejected", device=device, reason=str(why))
            raise

    def withdraw(self, device: int, id: str) -> None:
        if self._slot is not None and self._slot.id == id:
            self._slot.lose(device)

    # What the server does

    @property
    def num_ready(self) -> int:
        return len(self._ready)

    async def hold(self, id: str, number: int, asked: str) -> Sum | Withheld:
        """One slot: announced to all that are ready, if these are enough. If it is cancelled, the slot ends at once."""
        async with self._one_at_a_time:
            await self._gathered()
            if len(self._ready) < self.quorum:
                few = f"{len(self._ready)} devices are ready, {self.quorum} are needed"
                return Withheld(f"below quorum: {few}", spent=False)
            there = sorted(self._ready)
            rng = self._rng if self.seed is None else seeded.child(self.seed, number, 0)
            slot = self._slot = self._opened(id, there, rng)
            self._ready.clear()
            try:
                for k in there:
                    group = slot.group(k)
                    self._deliver[k](
                        Announcement(id, number, float(slot.known[k]), asked, len(there), group, self._epoch)
                    )
                await slot.ended(self._slot_seconds)
            finally:
                self._slot = None
            self._stalled |= slot.awaited & set(self._deliver)
            missing = self.network.devices.count - slot.num_arrived
            logs.event("slot", id=id, devices=slot.num_arrived, missing=missing)
            if slot.dropped:
                return Withheld(f"withheld: {slot.dropped}", spent=True)
            if slot.num_arrived < self._fewest:
                why = f"{missing} of {self.network.devices.count} devices are missing, {self.network.dropouts} may be"
                return Withheld(f"withheld: {why}", spent=True)
            return Sum(slot.received(), slot.num_arrived, slot.carrier, simulated=self.seed is not None)

    def _opened(self, id: str, there: list[int], rng: draws.Generator) -> "Slot | SecureSlot":
        if self._secure is None:
            return Slot(id, there, self.network, self._link, rng, self._drawn(rng))
        adverts = {k: self._adverts.pop(k) for k in there}
        return self._secure(id, adverts, self.network, self.quorum, self._say)

    def _drawn(self, rng: draws.Generator) -> _Drawn:
        """Gains and errors of a slot: fresh ones, or those of the first slot where the channel stands still."""
        if self._still is not None:
            return self._still
        gain = sample_gains(self._link.fading, (1, 1, self.network.devices.count), rng, dtype=np.float64)
        drawn = gain, medium.misalignment(gain, self.network.channel, rng)
        if not self.network.channel.redrawn and self.seed is None:
            self._still = drawn
        return drawn

    def _say(self, device: int, message: bytes) -> None:
        if device in self._deliver:
            self._deliver[device](message)

    async def _gathered(self) -> None:
        """Waits until all that are connected are ready again, and enough for a quorum; not longer than the patience."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        while (left := until - loop.time()) > 0:
            awaited = self._deliver.keys() - self._stalled
            if len(self._ready) >= self.quorum and awaited <= self._ready:
                return
            self._change.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._change.wait(), left)
        self._stalled |= self._deliver.keys() - self._ready  # not waited for again, until they are ready


class Slot:
    """One slot: what has arrived of the devices that it was announced to.

    known: the gain of each device as the device knows it.
    """

    def __init__(
        self, id: str, devices: list[int], network: Network, link: Link, rng: draws.Generator, drawn: _Drawn
    ) -> None:
        self.id, self.awaited, self.carrier, self.dropped = id, set(devices), False, ""
        self._network, self._limit, self._rng = network, link.transmitters.reach * (1 + _ROUNDING), rng
        self._gain, self._off = drawn
        self.known: Floats = (self._gain if self._off is None else self._off.estimate)[0, 0]
        self._signals = np.zeros((network.devices.count, network.coordinates))
        self._arrived: set[int] = set()
        self._end = asyncio.Event()

    @property
    def num_arrived(self) -> int:
        return len(self._arrived)

    def group(self, device: int) -> bytes:
        return b""

    def answer(self, device: int, content: bytes) -> None:
        raise RejectedError("this network takes signals, not a secure sum")

    def put(self, device: int, samples: Floats, scale: float) -> None:
        if device in self._arrived:
            raise RejectedError("sent twice")
        if device not in self.awaited:
            raise RejectedError("late, or of another slot")
        try:
            if samples.shape != self._signals.shape[1:]:
                raise RejectedError("wrong length")
            if not np.all(np.isfinite(samples)):
                raise RejectedError("not finite")
            if not 0 <= scale <= self._limit[device]:
                raise RejectedError("declared scale beyond the power limit")
        except RejectedError:
            self.lose(device)
            raise
        self._signals[device] = samples
        self._arrived.add(device)
        self.carrier |= scale > 0
        self.lose(device)

    def lose(self, device: int) -> None:
        """Stops waiting for this device."""
        self.awaited.discard(device)
        if not self.awaited:
            self._end.set()

    async def ended(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._end.wait(), seconds)

    def received(self) -> Floats:
        """y = Σ h x + m of what has arrived."""
        return medium.received(
            self._signals[None, None],
            self._network,
            gain=self._gain,
            off=self._off,
            rng=self._rng,
            transmitting=np.ones_like(self._gain, dtype=np.bool_),
        )[0, 0]


def require_runnable(network: Network) -> None:
    """Raises an error if a network cannot run as processes."""
    channel = network.channel
    if channel.rules.medium is None:
        runs = " or ".join(name for name, rules in ACCESSES.items() if rules.medium is not None)
        raise NetworkError(f"channel.access={channel.access!r} must be {runs}: the server gets the sum alone")
    if channel.power_rule not in ("truncate", "backoff"):
        raise NetworkError(
            f"channel.power_rule={channel.power_rule!r} must be truncate or backoff: else the scale tells of the noise"
        )
