"""Spending against the budgets of a ledger: ε spent, rounded up, and the further inferences that each still covers."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from airpool._support.rounding import full, shown
from airpool.account.words import number
from airpool.runtime.ledger import clock
from airpool.runtime.ledger.backup import Content
from airpool.runtime.ledger.booking import Booking
from airpool.runtime.ledger.budget import Allowance, Budget, Tally, most_covered
from airpool.runtime.ledger.chain import Row
from airpool.runtime.ledger.mechanism import Mechanism, parse
from airpool.runtime.ledger.spending import total

MOST = 2**20
NO_BUDGET = "no budget set"
UNKNOWN = "budgets not known: this airpool's device has not opened the file"


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
            "spent": number(self.spent),
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
    tally = _tallied(budget, rows)
    if not rows:
        return Left(budget, 0.0, None, each)
    last, elapsed = rows[-1], _elapsed(rows[-1])
    spent = {mechanisms[digest]: use for digest, use in tally.used(last.scene, elapsed).items()}
    again = Booking(last.inference, mechanisms[last.mechanism], last.scene, last.epoch)
    allowance = Allowance(budget.epsilon, budget.delta, budget.neighbours)
    more, most = 0, 1
    while most <= MOST and more == most // 2:  # twice as many, until they do not fit
        more, most = most_covered(tally, allowance, again, mechanisms, elapsed, most=most), 2 * most
    return Left(budget, total(spent, budget.delta, budget.neighbours), more, each)


def _tallied(budget: Budget, rows: Iterable[Row]) -> Tally:
    tally = Tally(budget)
    for row in rows:
        tally.add(row)
    return tally


def _elapsed(last: Row) -> int:
    """The ledger's time now, on the machine of the last row in the same start; elsewhere that of the last row."""
    now = clock.now(last.moment)
    return now.elapsed if now.boot == last.boot else last.elapsed


def spending_lines(spending: Sequence[Left] | None) -> list[str]:
    """A line for each budget; one that says so where there is none, or none is known."""
    if spending is None:
        return [UNKNOWN]
    return [each.words for each in spending] or [NO_BUDGET]
