"""Copies, exports and checks of a ledger, and what is left of its budgets, without the device's key.

A reader never writes to the file it reads.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from airpool._support.rounding import full, shown
from airpool.account import report
from airpool_runtime.ledger import chain, clock
from airpool_runtime.ledger import head as heads
from airpool_runtime.ledger.budget import Allowance, Booking, Budget, Tally, budgets_signed, most_covered, read_budgets
from airpool_runtime.ledger.chain import Origin, Row
from airpool_runtime.ledger.mechanism import Mechanism, parse
from airpool_runtime.ledger.refused import SpendingError, because
from airpool_runtime.ledger.spending import Use, total
from airpool_runtime.ledger.store import KINDS, Store

FORMAT = "airpool ledger export 3"
MOST = 2**20  # rows that are looked for in a budget
NO_BUDGET = "no budget set"
UNKNOWN = "budgets not known: this airpool's device has not opened the file"


@dataclass(frozen=True)
class Content:
    """All that a ledger says: who, which mechanisms (texts by digest), and every row.

    strange: what is wrong with its file, whatever the rows say. limits: texts of the budgets of the last start, and
    their signature; None where they were not written down, as in an export.
    """

    origin: Origin
    texts: Mapping[str, str]
    rows: tuple[Row, ...]
    strange: tuple[str, ...] = ()
    limits: tuple[str, str] | None = None

    @property
    def budgets(self) -> tuple[Budget, ...] | None:
        """The budgets of the device's last start; None where they are not known. Raises SpendingError if unreadable."""
        return None if self.limits is None else read_budgets(self.limits[0])

    @property
    def counts(self) -> dict[Mechanism, Use]:
        found = Tally(Budget(1.0))
        for row in self.rows:
            found.add(row)
        return {parse(self.texts[digest]): use for digest, use in found.used("", 0).items()}


def content(path: str | Path, *, after: int = 0) -> Content:
    """Content of a ledger's file after a row, unchecked (see `faults`): rows, and mechanisms that are new in them.

    Raises SpendingError if it cannot be read.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise SpendingError("missing", f"{path}: no such file")
        with closing(Store(path, readonly=True)) as store:
            strange = () if after else tuple(store.strange())
            return Content(store.origin(), store.mechanisms(after), tuple(store.rows(after)), strange, store.budgets())
    except (sqlite3.Error, OSError) as error:
        raise because(error, str(path)) from None


def faults(found: Content, *, head: Path | None = None, key: str | None = None) -> Iterator[str]:
    """Faults of a ledger, in words; none if all is well. key: the device's public key, hexadecimal.

    Without the head a cut-off end is not seen, and without the key a ledger that was written anew by another one.
    """
    if key is not None and found.origin.key != key:
        yield "the ledger belongs to another key"
    yield from found.strange
    if found.limits is not None and not budgets_signed(found.origin, *found.limits):
        yield "the budgets that are written down were changed"
    kept = None
    if head is not None:
        try:
            kept = heads.read(head)
        except SpendingError as error:
            yield str(error)
        if kept is None:
            yield f"{head} is missing or damaged: a cut-off end cannot be ruled out"
        elif kept.ledger != found.origin.hash:
            yield f"{head} belongs to another ledger"
            kept = None
    for digest, text in found.texts.items():
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            yield f"mechanism {digest[:12]} was changed"
    for digest in {row.mechanism for row in found.rows} - found.texts.keys():
        yield f"mechanism {digest[:12]} is missing"
    yield from chain.faults(found.origin, found.rows, head=kept and kept.tip)


def copy(path: str | Path, target: str | Path) -> None:
    """A consistent copy in a new file, also while a device is charging; restored, it is noticed as an old copy."""
    try:
        with closing(Store(Path(path), readonly=True)) as store:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            store.copy(Path(target))
    except FileExistsError:
        raise ValueError(f"{target} exists already: a backup is a new file") from None
    except (sqlite3.Error, OSError) as error:
        raise because(error, str(path)) from None


def exported(found: Content) -> Iterator[str]:
    """A ledger as lines of JSON: the origin, the mechanisms, the rows."""
    yield json.dumps({"format": FORMAT, **asdict(found.origin)})
    for digest, text in found.texts.items():
        yield json.dumps({"digest": digest, "text": text})
    for row in found.rows:
        yield json.dumps(row._asdict())


def imported(lines: Iterable[str]) -> Content:
    """Content of an export, unchecked (see `faults`). Raises ValueError if `exported` did not write it."""
    origin, texts, rows = None, {}, []
    for number, line in enumerate(lines, start=1):
        try:
            data: dict[str, Any] = json.loads(line)
            if number == 1:
                if data.pop("format") != FORMAT:
                    raise ValueError("another format")
                origin = Origin(**data)
                if not all(isinstance(value, str) for value in data.values()):
                    raise ValueError("a value of another type")
            elif "digest" in data:
                texts[str(data["digest"])] = str(data["text"])
            else:
                rows.append(_row(data))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"line {number} is not of {FORMAT!r}: {error}") from None
    if origin is None:
        raise ValueError(f"an empty file is not of {FORMAT!r}")
    return Content(origin, texts, tuple(rows))


def rebuilt(found: Content, path: str | Path) -> None:
    """A ledger's file from an export that is whole; the device goes on with it if it reaches up to its head."""
    for wrong in faults(found):
        raise ValueError(f"the export must be whole: {wrong}")
    if Path(path).exists():
        raise ValueError(f"{path} exists already: a ledger is rebuilt in a new file")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with closing(Store(Path(path), found.origin)) as store:
            store.append(found.rows, found.texts)
    except (sqlite3.Error, OSError) as error:
        raise because(error, str(path)) from None


def _row(data: dict[str, Any]) -> Row:
    row = Row(**data)
    if any(type(value) is not kind for value, kind in zip(row, KINDS, strict=True)):
        raise ValueError("a value of another type")
    return row


class Left(NamedTuple):
    """One budget. spent: ε that counts against it now. more: further rows like the last that it covers, at most 2^20;
    None where there is no row to go by. each: rows of one inference, all of its slots."""

    budget: Budget
    spent: float
    more: int | None
    each: int | None

    @property
    def inferences(self) -> int | None:
        """Whole inferences that are covered; None where it is not known how many slots they have."""
        return None if self.more is None or self.each is None else self.more // self.each

    @property
    def words(self) -> str:
        """As one line: "7.54 of 20 for all inferences, about 38 more inferences"."""
        # Rounding up must not show more than the budget where no more was spent.
        digits = next((k for k in (2, 3, 4) if float(shown(self.spent, k)) <= self.budget.epsilon), 5)
        line = f"{shown(self.spent, digits)} of {full(self.budget.epsilon)} for {self.budget.covers}"
        if self.more is None:
            return line
        what = "slot" if self.inferences is None else "inference"
        least = self.more if self.inferences is None else self.inferences
        if not least:
            return f"{line}, nothing left" + (" now" if self.budget.window_s is not None else "")
        if self.more >= MOST:
            return (
                f"{line}, no end in sight" if self.budget.event is None else f"{line}, which any further one keeps to"
            )
        now = " now" if self.budget.window_s is not None else ""
        return f"{line}, about {least} more {what}{'s' * (least > 1)}{now}"

    def to_json(self) -> dict[str, Any]:
        budget = self.budget
        return {
            "covers": budget.covers,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "neighbours": str(budget.neighbours),
            "spent": report.number(self.spent),
            "more_slots": self.more,
            "more_inferences": self.inferences,
        }


def left(found: Content, *, each: int | None = None) -> list[Left] | None:
    """Every budget of the last start with what is left of it; None where they were not written down.

    each: rows of one inference, where known; by default 1 where no row is a slot of several.
    """
    if found.budgets is None:
        return None
    mechanisms = {digest: parse(text) for digest, text in found.texts.items()}
    if each is None and not any("/" in row.inference for row in found.rows):
        each = 1
    return [_left(budget, found.rows, mechanisms, each) for budget in found.budgets]


def _left(budget: Budget, rows: Sequence[Row], mechanisms: dict[str, Mechanism], each: int | None) -> Left:
    tally = Tally(budget)
    for row in rows:
        tally.add(row)
    if not rows:
        return Left(budget, 0.0, None, each)
    last = rows[-1]
    now = clock.now(last.moment)  # on the machine of the last row in the same start; elsewhere that row's time
    elapsed = now.elapsed if now.boot == last.boot else last.elapsed
    spent = {mechanisms[digest]: use for digest, use in tally.used(last.scene, elapsed).items()}
    again = Booking(last.inference, mechanisms[last.mechanism], last.scene, last.epoch)
    allowance = Allowance(budget.epsilon, budget.delta, budget.neighbours)
    more, most = 0, 1
    while most <= MOST and more == most // 2:  # twice as many, until they do not fit
        more, most = most_covered(tally, allowance, again, mechanisms, elapsed, most=most), 2 * most
    return Left(budget, total(spent, budget.delta, budget.neighbours), more, each)


def spending_lines(spending: Sequence[Left] | None) -> list[str]:
    """A line for each budget; one that says so where there is none, or none is known."""
    if spending is None:
        return [UNKNOWN]
    return [each.words for each in spending] or [NO_BUDGET]
