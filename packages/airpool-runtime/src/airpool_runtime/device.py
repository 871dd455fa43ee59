"""The device: ready → announcements → charge → coin, score, feature → signals. It does not know which medium it uses.

Of an inference of several slots it charges each one before it sends it, always of the same view; it begins one only if
its budget covers all slots (under_way.py).

Noise, clip norm, weight and participation come from its own network file, the budget from its own charge. The terms of
an announcement are compared with its own (terms.py) before anything is charged; from the charge on the inference is
spent. A device that had to refuse is not ready for a while: every inference it refuses spends the others' budgets.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from airpool.network import Claim, Network, scored
from airpool.privacy.noise import live_noise
from airpool.protocol import alone, live
from airpool.protocol.alone import Choice
from airpool.protocol.device import Randomness
from airpool.schemes.scores import uncertainty
from airpool_runtime import logs, seeded, seeing, terms
from airpool_runtime.charge import Charge, Counted, NotSentError, not_covered
from airpool_runtime.medium import DevicePort, Line, RankingPort, medium_of
from airpool_runtime.messages import (
    LONGEST_ID,
    Announcement,
    Balance,
    DisconnectedError,
    SlotSignal,
    StatedTerms,
    Turn,
    WithdrawalReason,
)
from airpool_runtime.seeing import Condition, Source
from airpool_runtime.under_way import PLENTY, Going, Noted, Seen, UnderWay, slot_name

_SHORTEST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_TURN = 8
_MANY_CLASSES = 2**64  # where nothing is seen: its score is then the bound itself, of whoever knows least


@dataclass(eq=False)
class Device:
    """index: k. quick: the source takes no time worth a thread. seed: of a simulated run; None: live noise.

    claim: of its own file; where live noise does not support it, the device does not start. waits: the reason why it is
    not ready; unspecified: nothing keeps it.
    """

    index: int
    network: Network
    source: Source
    charge: Charge = field(default_factory=Counted)
    ranking: RankingPort | None = None
    seed: int | None = None
    quick: bool = True
    claim: Claim = field(default_factory=Claim)
    under_way: UnderWay = field(init=False)
    condition: Condition = field(init=False)
    waits: WithdrawalReason = field(init=False, default=WithdrawalReason.UNSPECIFIED)

    def __post_init__(self) -> None:
        medium_of(self.network)  # refuses a network that cannot run as processes
        self.under_way, self.condition = UnderWay(self.network.slots), Condition(self.index)
        if not 0 <= self.index < self.network.devices.count:
            raise ValueError(f"device {self.index} must be from 0 to {self.network.devices.count - 1}")
        if self.network.scheme.needs_ranking_server and self.ranking is None:
            raise ValueError(f"scheme {self.network.scheme.name} needs a ranking server")
        seeded.require(self.seed)
        if self.seed is None:
            live.live_report(
                self.network, self.claim
            )  # refuses what must not go on the air, before anything is announced
            live_noise(self.network.devices.column("noise_std")[self.index], 1)  # makes its table


async def run(device: Device, port: DevicePort) -> None:
    """Takes part in inferences until the medium is gone (DisconnectedError) or the task is cancelled."""
    wait, refused = _SHORTEST_WAIT, False
    while True:
        await port.ready(*await _allowed(device, probe=refused))
        turn = await port.announcements()
        refused = not turn or not await answer(device, port, turn)
        if refused:
            await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT) if refused else _SHORTEST_WAIT


async def _allowed(device: Device, *, probe: bool) -> tuple[int, ...]:
    """The most slots of the next turn, and those that the budget covers where an inference has several.

    Waits while there would be none: not to be ready costs no budget.
    """
    said, wait = None, _SHORTEST_WAIT
    while True:
        if device.ranking is not None and not await device.ranking.reachable():
            why = NotSentError("the ranking server cannot be reached", WithdrawalReason.RANKING)
        elif found := _covered(device, probe=probe):
            device.waits = WithdrawalReason.UNSPECIFIED
            return found
        else:
            why = not_covered(device.charge, probe=True)
        device.waits = why.reason
        if str(why) != said:
            logs.event("refused", device=device.index, reason=str(why))
            said = str(why)
        await asyncio.sleep(wait)
        wait, probe = min(2 * wait, _LONGEST_WAIT), True


def _covered(device: Device, *, probe: bool) -> tuple[int, ...]:
    """The numbers of `_allowed`, from what the charge foresees to cover; none if no inference could begin or go on.

    More than one slot in a turn where views take no time: a slow view would hold up all others of its turn.
    """
    if probe and device.charge.refusal(probe=True) is not None:
        return ()
    under_way, most = device.under_way, _TURN if device.quick else 1
    if device.network.slots.count == 1:
        found = device.charge.covered(most)
        return (found,) if found else ()
    asked = under_way.reserved + most * under_way.cap
    left = device.charge.covered(asked)
    goes_on = len(under_way) > 0 and (left > 0 or under_way.reserved == 0)
    return (most, PLENTY if left >= asked else left) if goes_on or left >= under_way.cap else ()


async def answer(device: Device, port: DevicePort, turn: Turn) -> bool:
    """Answers a turn: a signal each, or a withdrawal where the device must not or cannot take part.

    True if nothing was refused.
    """
    began = time.perf_counter()
    refused, accepted, noted = dict[str, NotSentError](), list[Announcement](), dict[str, Noted | None]()
    for inference in (each for told in turn for each in told.ended):
        device.under_way.end(inference)
    for told in turn:
        try:
            _check(device, told)
            await port.accept(told)
            noted[told.id] = _note(device, told, unpaid=len(_paid(device, accepted)))
            accepted.append(told)
        except NotSentError as why:
            refused[told.id] = why
    refused |= _charge(device, accepted)
    charged = round(time.perf_counter() - began, 6)
    for told in reversed(accepted):
        if told.id in refused and (note := noted[told.id]) is not None:
            device.under_way.undo(note)
    sent = [(told, noted[told.id]) for told in accepted if told.id not in refused]
    made = await asyncio.gather(*(_signal(device, told, note and note.going) for told, note in sent))
    signals = [replace(each, charged=charged) for each in made if isinstance(each, SlotSignal)]
    refused |= dict(each for each in made if not isinstance(each, SlotSignal))
    if signals:
        await port.transmit(signals)
    for told in accepted:
        if told.slot == device.network.slots.count:
            device.under_way.end(told.inference)
    for id, why in refused.items():
        logs.event("refused", id=id[:LONGEST_ID], device=device.index, reason=str(why))
        await port.withdraw(id, why.reason)
    return not refused


def _check(device: Device, told: Announcement) -> None:
    """Raises NotSentError where the device must not take part; nothing is charged then."""
    net, inference = device.network, told.inference or told.id
    if not 0 < len(inference) <= LONGEST_ID:
        raise NotSentError(f"the id of an inference must have 1 to {LONGEST_ID} characters", WithdrawalReason.TERMS)
    if not 1 <= told.slot <= net.slots.count or told.id != slot_name(inference, told.slot, net.slots):
        why = f"slot {told.slot} of an inference of at most {net.slots.count}, or an id that is not its own"
        raise NotSentError(why, WithdrawalReason.TERMS)
    if not 0 <= told.gain < math.inf or (told.gain != 1 and not net.channel.rules.radio):
        # Without a radio nothing is inverted: another gain would take this device's noise out of the others' sum.
        allowed = "must be >= 0 and finite" if net.channel.rules.radio else "must be 1: there is no radio"
        raise NotSentError(f"gain={told.gain} {allowed}", WithdrawalReason.TERMS)
    if told.devices < net.devices.count - net.dropouts:
        raise NotSentError(
            f"announced to {told.devices} devices, fewer than this device's ε counts on", WithdrawalReason.TERMS
        )
    why = terms.difference(net, StatedTerms(told.digest), they="the server asks for", own_side="this device is set to")
    if why:
        raise NotSentError(why, WithdrawalReason.TERMS)


def _note(device: Device, told: Announcement, *, unpaid: int) -> Noted | None:
    """Notes a slot of an inference of several. unpaid: slots of this turn that are yet to be charged.

    Raises NotSentError where an inference must not begin, or cannot go on.
    """
    under_way, slots = device.under_way, device.network.slots
    if slots.count == 1:
        return None
    going = under_way.get(told.inference)
    if told.slot > 1 and not slots.redrawn and (going is None or going.drawn is None or told.slot <= going.slot):
        why = "a slot of an inference whose draw this device does not have, or one that was before"
        raise NotSentError(why, WithdrawalReason.ROUND)
    needed = under_way.needed(told.slot) + unpaid
    if going is None and device.charge.covered(needed) < needed:
        raise not_covered(device.charge)
    return under_way.note(told.inference, told.slot)


def _charge(device: Device, turn: Sequence[Announcement]) -> dict[str, NotSentError]:
    """Books the slots; those that could not be, by id. A charge that fails means silence.

    Where one draw serves all slots of an inference, the first one pays for all. An epoch that is none counts as a new
    one.
    """
    paid = [(told.id, told.epoch) for told in _paid(device, turn)]
    booked = [(id, epoch if len(epoch) <= LONGEST_ID and epoch.isprintable() else "") for id, epoch in paid]
    if len(booked) > 1 and _tried(device.charge, booked) is None:
        return {}
    found = {one[0]: _tried(device.charge, [one]) for one in booked}
    return {id: why for id, why in found.items() if why is not None}


def _paid(device: Device, turn: Sequence[Announcement]) -> list[Announcement]:
    """The slots of a turn that are booked: where one draw serves all slots of an inference, its first."""
    return [told for told in turn if told.slot == 1 or device.network.slots.redrawn]


def _tried(charge: Charge, booked: Sequence[tuple[str, str]]) -> NotSentError | None:
    try:
        charge.charge_all(booked)
    except NotSentError as why:
        return why
    except Exception as error:
        reason = WithdrawalReason.DISK if isinstance(error, OSError) else WithdrawalReason.INTERNAL
        return NotSentError(f"the charge failed: {type(error).__name__}", reason)
    return None


async def _signal(device: Device, told: Announcement, going: Going | None) -> SlotSignal | tuple[str, NotSentError]:
    """The signal of a slot that was charged; its id and the reason where there is none."""
    net, k = device.network, device.index
    source = live.LIVE
    if device.seed is not None:
        source = seeded.source(device.seed, told.number, k, slot=told.slot, devices=net.devices.count)
    seen = None if going is None else going.seen
    if seen is None:
        look = partial(seeing.seen, device.source, told, net, device.condition)
        seen = look() if device.quick else await asyncio.to_thread(look)
    if going is not None and going.drawn is not None:
        choice, gain = Choice(takes_part=going.drawn[0]), going.drawn[1]
    else:
        try:
            choice, gain = await _choice(device, told, seen, source), told.gain
        except DisconnectedError as why:
            return told.id, NotSentError(f"no answer from the ranking server: {why}", WithdrawalReason.RANKING)
        if going is not None and not net.slots.redrawn:
            choice = Choice(takes_part=alone.takes_part(net, source, device=k, choice=choice))
            going.drawn = choice.takes_part is True, gain
    if going is not None:
        going.seen = seen
    sent = alone.signal(seen.latent, net, source, device.claim, device=k, gain=gain, choice=choice)
    return SlotSignal(told.id, sent.samples, sent.scale)


async def _choice(device: Device, told: Announcement, seen: Seen, source: Randomness) -> Choice:
    """The input of a scheme that goes by scores; in Scheme 2.2 the ranking server's answer."""
    net, (score, classes) = device.network, _score(device.network, seen)
    if not net.scheme.needs_ranking_server:
        return Choice(score, classes)
    assert score is not None
    assert device.ranking is not None
    noisy = alone.noisy_score(score, net, source, device.claim, num_classes=classes)
    return Choice(None, classes, await device.ranking.selected(told.id, device.index, told.devices, noisy))


def _score(network: Network, seen: Seen) -> tuple[float | None, int | None]:
    """The raw score in bits and the number of classes, where scores choose."""
    if not network.scheme.needs_posteriors:
        return None, None
    scheme = scored(network.scheme)
    assert seen.posterior is not None
    with np.errstate(all="ignore"):
        bits = float(uncertainty(np.asarray(seen.posterior, np.float64), scheme.score))
    return bits, len(seen.posterior) if math.isfinite(bits) else _MANY_CLASSES


_LOOK_SECONDS, _SHARE = 1.0, 0.02  # between looks at the ledger: at least this, and at most this share of the time


@asynccontextmanager
async def told(device: Device, line: Line) -> AsyncIterator[None]:
    """Tells the hub of a device's balance while the block runs, whenever it has changed."""
    task = asyncio.create_task(_telling(device, line))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # a line that is gone is the block's own error


async def _telling(device: Device, line: Line) -> None:
    said, found, next_look = None, Balance(), 0.0
    while True:
        if (began := time.monotonic()) >= next_look:
            spent = await asyncio.to_thread(device.charge.spending)
            took = time.monotonic() - began
            next_look = began + max(_LOOK_SECONDS, took / _SHARE)
            found = spent or found
        if (now := replace(found, waits=device.waits)) != said:
            await line.tell(now)
            said = now
        await asyncio.sleep(_LOOK_SECONDS / 2)
