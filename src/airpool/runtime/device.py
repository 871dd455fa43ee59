"""The device: ready → announcements → charge → coin, score, feature → signals. It does not know which medium it uses.

Noise, clip norm, weight and participation come from its own network file, the budget from its own charge. The terms of
an announcement are compared with its own (terms.py) before anything is charged; from the charge on the inference is
spent. A device that had to refuse is not ready for a while: every inference it refuses spends the others' budgets.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from airpool._support.arrays import Floats
from airpool.network import Network, scheme_rules, scored
from airpool.privacy.noise import live_noise
from airpool.protocol import alone, live
from airpool.protocol.alone import Choice
from airpool.runtime import logs, seeded, terms
from airpool.runtime.charge import Batched, Charge, Counted, Foreseen, NotSentError
from airpool.runtime.medium import (
    LONGEST_ID,
    Announcement,
    DevicePort,
    DisconnectedError,
    RankingPort,
    SlotSignal,
    StatedTerms,
    Turn,
    WithdrawalReason,
    medium_of,
)
from airpool.schemes.scores import uncertainty


@dataclass(frozen=True, eq=False)
class Seen:
    """One view, encoded: the latent (r,), and the device's own posterior (L,) where scores choose."""

    latent: Floats
    posterior: Floats | None = None


_SHORTEST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_TURN = 8
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
        medium_of(self.network)  # refuses a network that cannot run as processes
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
    wait, refused = _SHORTEST_WAIT, False
    while True:
        await port.ready(await _allowed(device, probe=refused))
        turn = await port.announcements()
        refused = not turn or not await answer(device, port, turn)
        if refused:
            await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT) if refused else _SHORTEST_WAIT


async def _allowed(device: Device, *, probe: bool) -> int:
    """The most inferences of the next turn. Waits while there would be none: not to be ready costs no budget."""
    said, wait = None, _SHORTEST_WAIT
    while True:
        why = None
        if device.ranking is not None and not await device.ranking.reachable():
            why = "the ranking server cannot be reached"
        elif most := _covered(device, probe=probe):
            return most
        elif isinstance(device.charge, Foreseen):
            why = device.charge.refusal(probe=True)
        if why is not None and why != said:
            logs.event("refused", device=device.index, reason=why)
            said = why
        await asyncio.sleep(wait)
        wait, probe = min(2 * wait, _LONGEST_WAIT), True


def _covered(device: Device, *, probe: bool) -> int:
    """The number of inferences that the charge foresees to cover, as many as one turn may have.

    More than one where views take no time: a slow view would hold up all others of its turn.
    """
    if probe and isinstance(device.charge, Foreseen) and device.charge.refusal(probe=True) is not None:
        return 0
    if isinstance(device.charge, Batched):
        return device.charge.covered(_TURN if device.quick else 1)
    return 1 if not isinstance(device.charge, Foreseen) or device.charge.refusal() is None else 0


async def answer(device: Device, port: DevicePort, turn: Turn) -> bool:
    """Answers a turn: a signal each, or a withdrawal where the device must not or cannot take part.

    True if nothing was refused.
    """
    refused, accepted = dict[str, NotSentError](), list[Announcement]()
    for told in turn:
        try:
            _check(device, told)
            await port.accept(told)
            accepted.append(told)
        except NotSentError as why:
            refused[told.id] = why
    refused |= _charge(device, accepted)
    made = await asyncio.gather(*(_signal(device, told) for told in accepted if told.id not in refused))
    signals = [each for each in made if isinstance(each, SlotSignal)]
    refused |= dict(each for each in made if not isinstance(each, SlotSignal))
    if signals:
        await port.transmit(signals)
    for id, why in refused.items():
        logs.event("refused", id=id[:LONGEST_ID], device=device.index, reason=str(why))
        await port.withdraw(id, why.reason)
    return not refused


def _check(device: Device, told: Announcement) -> None:
    """Raises NotSentError where the device must not take part; nothing is charged then."""
    net = device.network
    if not 0 < len(told.id) <= LONGEST_ID:
        raise NotSentError(f"the id of an inference must have 1 to {LONGEST_ID} characters", WithdrawalReason.TERMS)
    if not 0 <= told.gain < math.inf:
        raise NotSentError(f"gain={told.gain} must be >= 0 and finite", WithdrawalReason.TERMS)
    if told.devices < net.devices.count - net.dropouts:
        raise NotSentError(
            f"announced to {told.devices} devices, fewer than this device's ε counts on", WithdrawalReason.TERMS
        )
    words = {"they": "the server asks for", "own_side": "this device is set to"}
    if why := terms.difference(net, StatedTerms(told.digest), **words):
        raise NotSentError(why, WithdrawalReason.TERMS)


def _charge(device: Device, turn: Sequence[Announcement]) -> dict[str, NotSentError]:
    """Books the inferences; those that could not be, by id. A charge that fails means silence.

    An epoch that is none counts as a new one.
    """
    booked = [(told.id, told.epoch if _is_name(told.epoch) else "") for told in turn]
    if len(booked) > 1 and isinstance(device.charge, Batched):
        batch = device.charge
        if _tried(lambda: batch.charge_all(booked)) is None:
            return {}
    found = {id: _tried(lambda id=id, epoch=epoch: device.charge.charge(id, epoch)) for id, epoch in booked}
    return {id: why for id, why in found.items() if why is not None}


def _is_name(text: str) -> bool:
    return len(text) <= LONGEST_ID and text.isprintable()


def _tried(charge: Callable[[], None]) -> NotSentError | None:
    try:
        charge()
    except NotSentError as why:
        return why
    except Exception as error:
        reason = WithdrawalReason.DISK if isinstance(error, OSError) else WithdrawalReason.INTERNAL
        return NotSentError(f"the charge failed: {type(error).__name__}", reason)
    return None


async def _signal(device: Device, told: Announcement) -> SlotSignal | tuple[str, NotSentError]:
    """The signal of an inference that was charged; its id and the reason where there is none."""
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
            return told.id, NotSentError(f"no answer from the ranking server: {why}", WithdrawalReason.RANKING)
    choice = Choice(score, classes, selected)
    sent = alone.signal(seen.latent, net, source, device=k, gain=told.gain, choice=choice)
    return SlotSignal(told.id, sent.samples, sent.scale)


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
