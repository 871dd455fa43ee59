"""The next turn of a hub: which of the slots that wait are announced together, and to whom."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airpool.runtime.course import Stopwatch
from airpool.runtime.messages import Sum, Withheld
from airpool.runtime.standing import Connection
from airpool.runtime.under_way import UnderWay


@dataclass(eq=False)
class Request:
    """A slot that the server has asked for. asked: its network file. running: its round, once announced.

    watch: takes its times.
    """

    id: str
    number: int
    asked: str
    inference: str
    slot: int
    done: "asyncio.Future[Sum | Withheld]"
    running: "asyncio.Task[None] | None" = None
    watch: Stopwatch = field(default_factory=Stopwatch)


def next_turn(
    waiting: Iterable[Request], ready: Mapping[int, Connection], most: int, under_way: UnderWay
) -> tuple[list[Request], list[int]]:
    """Requests of the next turn, at most `most`, and the devices that it is announced to.

    Later slots go before first ones. A first slot is announced to devices whose budgets cover all slots of its
    inference beside what is left of those under way.
    """
    later = [each for each in waiting if each.slot > 1]
    first = [each for each in waiting if each.slot == 1]
    if not later:
        ready = _covering(ready, under_way.needed())
    most = min([most, *(it.inferences for it in ready.values())])
    left = [it.left - under_way.reserved for it in ready.values() if it.left is not None]
    begin = min([len(first), *(number // under_way.cap for number in left)])
    return (later + first[: max(begin, 0)])[:most], sorted(ready)


def held_back(waiting: Iterable[Request], ready: Mapping[int, Connection], quorum: int, under_way: UnderWay) -> bool:
    """Whether first slots wait, and would have their quorum but for what is reserved for inferences under way."""
    if not under_way.reserved or any(each.slot > 1 for each in waiting):
        return False
    return len(_covering(ready, under_way.needed())) < quorum <= len(_covering(ready, under_way.cap))


def _covering(ready: Mapping[int, Connection], rows: int) -> dict[int, Connection]:
    """Devices whose budgets cover so many rows, or say nothing of them."""
    return {k: it for k, it in ready.items() if it.left is None or it.left >= rows}


def finish(requests: Iterable[Request], outcome: Sum | Withheld) -> None:
    for each in requests:
        if not each.done.done():
            each.done.set_result(outcome)
