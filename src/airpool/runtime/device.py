"""The device: ready → announcement → charge → coin, score, feature → signal. It does not know which medium it uses.

Noise, clip norm, weight and participation come from its own network file, the budget from its own charge. What the
server asks for is compared with them (terms.py) before anything is charged; from the charge on the inference is spent.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from airpool._support.arrays import Floats
from airpool.network import Network, scheme_rules, scored
from airpool.privacy.noise import live_noise
from airpool.protocol import alone, live
from airpool.protocol.alone import Choice, Signal
from airpool.runtime import logs, seeded, terms
from airpool.runtime.air import require_runnable
from airpool.runtime.charge import Charge, Counted, Foreseen, NotSentError
from airpool.runtime.medium import Announcement, DevicePort, DisconnectedError, RankingPort
from airpool.schemes.scores import uncertainty


@dataclass(frozen=True, eq=False)
class Seen:
    """One view, encoded: the latent (r,), and the device's own posterior (L,) where scores choose."""

    latent: Floats
    posterior: Floats | None = None


_LONGEST_ID = 64
_RETRY_SECONDS = 1.0
Source = Callable[[int], Seen]  # of the inference's number, which only stored objects go by


@dataclass(frozen=True, eq=False)
class Device:
    """index: k. quick: the source takes no time worth a thread. seed: of a simulated run; None: live noise."""

    index: int
    network: Network
    source: Source
    charge: Charge = field(default_factory=Counted)
    ranking: RankingPort | None = None
    seed: int | None = None
    quick: bool = True

    def __post_init__(self) -> None:
        require_runnable(self.network)
        if not 0 <= self.index < self.network.devices.count:
            raise ValueError(f"device {self.index} must be from 0 to {self.network.devices.count - 1}")
        if scheme_rules(self.network.scheme).ranked and self.ranking is None:
            raise ValueError(f"scheme {self.network.scheme.name} needs a ranking server")
        seeded.require(self.seed)
        if self.seed is None:
            live.live_report(self.network)  # refuses what must not go on the air, before anything is announced
            live_noise(self.network.devices.column("noise_std")[self.index], 1)  # makes its table


async def run(device: Device, port: DevicePort) -> None:
    """Takes part in inferences until the medium is gone (DisconnectedError) or the task is cancelled."""
    while True:
        await _allowed(device)
        await port.ready()
        await answer(device, port, await port.announcement())


async def _allowed(device: Device) -> None:
    """Waits while the next inference would be refused: a device that is not ready costs no budget."""
    said = None
    while isinstance(device.charge, Foreseen) and (why := device.charge.refusal()) is not None:
        if why != said:
            logs.event("refused", device=device.index, reason=why)
            said = why
        await asyncio.sleep(_RETRY_SECONDS)


async def answer(device: Device, port: DevicePort, told: Announcement) -> None:
    """One inference: a signal, or a withdrawal where the device must not or cannot take part."""
    try:
        _check(device, told)
        _charge(device, told)
        sent = await _signal(device, told)
    except NotSentError as why:
        logs.event("refused", id=told.id[:_LONGEST_ID], device=device.index, reason=str(why))
        await port.withdraw(told.id)
    else:
        await port.transmit(told.id, sent.samples, sent.scale)


def _check(device: Device, told: Announcement) -> None:
    """Raises NotSentError where the device must not take part; nothing is charged then."""
    net = device.network
    if not 0 < len(told.id) <= _LONGEST_ID:
        raise NotSentError(f"the id of an inference must have 1 to {_LONGEST_ID} characters")
    if not 0 <= told.gain < math.inf:
        raise NotSentError(f"gain={told.gain} must be >= 0 and finite")
    if told.devices < net.devices.count - net.dropouts:
        raise NotSentError(f"announced to {told.devices} devices, fewer than this device's ε counts on")
    terms.require_same(net, told.asked)


def _charge(device: Device, told: Announcement) -> None:
    """Books the inference. A charge that fails means silence. An epoch that is none counts as a new one."""
    epoch = told.epoch if len(told.epoch) <= _LONGEST_ID and told.epoch.isprintable() else ""
    try:
        device.charge.charge(told.id, epoch)
    except NotSentError:
        raise
    except Exception as error:
        raise NotSentError(f"the charge failed: {type(error).__name__}") from None


async def _signal(device: Device, told: Announcement) -> Signal:
    net, k = device.network, device.index
    source = live.LIVE if device.seed is None else seeded.source(device.seed, told.number, k)
    seen = _seen(device, told.number) if device.quick else await asyncio.to_thread(_seen, device, told.number)
    score, classes = _score(net, seen)
    selected = None
    if scheme_rules(net.scheme).ranked:
        assert score is not None
        assert device.ranking is not None
        noisy = alone.noisy_score(score, net, source, num_classes=classes)
        try:
            selected, score = await device.ranking.selected(told.id, k, told.devices, noisy), None
        except DisconnectedError as why:
            raise NotSentError(f"no answer from the ranking server: {why}") from None
    choice = Choice(score, classes, selected)
    return alone.signal(seen.latent, net, source, device=k, gain=told.gain, choice=choice)


def _seen(device: Device, number: int) -> Seen:
    """The encoded view; nothing if the source fails: noise alone is sent, so the failure cannot be observed."""
    net = device.network
    nothing = Seen(np.full(net.dimension, np.nan), np.full(2, np.nan))
    try:
        seen = device.source(number)
        shape, own = np.shape(seen.latent), () if seen.posterior is None else np.shape(seen.posterior)
    except Exception as error:
        logs.event("source failed", device=device.index, reason=type(error).__name__)
        return nothing
    if shape != (net.dimension,) or not (not scheme_rules(net.scheme).scored or (len(own) == 1 and own[0] > 1)):
        what = f"a latent of shape {shape}" if shape != (net.dimension,) else f"a posterior of shape {own}, not (L,)"
        logs.event("source failed", device=device.index, reason=f"it gives {what}")
        return nothing
    return seen


def _score(network: Network, seen: Seen) -> tuple[float | None, int | None]:
    """The raw score in bits and the number of classes, where scores choose."""
    if not scheme_rules(network.scheme).scored:
        return None, None
    scheme = scored(network.scheme)
    assert seen.posterior is not None
    with np.errstate(all="ignore"):
        return float(uncertainty(np.asarray(seen.posterior, np.float64), scheme.score)), len(seen.posterior)
