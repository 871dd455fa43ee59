"""The statement: what a network leaks, on one page, for non-experts.

plain_words.py has the numbers of one inference, a day and a year, and the sentences. The content is one list of
sections, shown as HTML (`html`) or as plain text that is Markdown too (`str`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from hashlib import sha256
from math import ceil
from typing import Any

import numpy as np

from airpool._support.page import Facts, Items, PageTable, Section, Text, page
from airpool._support.rounding import full
from airpool._support.version import __version__
from airpool.account import plain_words as words
from airpool.account.odds import REPORTED, percent
from airpool.account.plain_words import Period, lasting, limit, one_colluder_more, period
from airpool.account.report import PrivacyReport
from airpool.network import file as network_file

_DAYS = 366  # a leap year has the most
MOST_PER_DAY = 10**12 // _DAYS  # a network counts up to 10^12 inferences


@dataclass(frozen=True, eq=False, repr=False)
class Statement:
    """One page about a network.

    lasting: inferences that may show the same secret up to which it is protected, and weakly protected.
    source: the file's name. sha256: of its bytes, or of the network's own text. periods: ε and odds of one inference,
    a day and a year. rate: how often it infers, in words.

    >>> from airpool import Network, guarantee
    >>> page = guarantee(Network.uniform(num_devices=12, noise_std=0.3)).statement(per_day=200)
    >>> page.title, [part.title for part in page.sections][0]
    ('What this network gives away: 12 devices', 'In short')
    >>> page.lead[:10], len(page.footer), "<html" in page.html, "text" in page.to_json()
    ('For people', 2, True, True)
    """

    report: PrivacyReport
    periods: tuple[Period, ...]
    rate: str
    lasting: tuple[int, int]
    source: str
    sha256: str

    @property
    def title(self) -> str:
        """The heading."""
        count = self.report.network.devices.count
        return f"What this network gives away: {count} device{'s' * (count > 1)}"

    @property
    def lead(self) -> str:
        """The sentence below the heading: readers and content."""
        return (
            "For people who are near these devices, and for those who answer for them. It says what leaves a device, "
            "who gets it, what can be guessed from it, and what is not protected."
        )

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The content, in the order of reading."""
        report, periods = self.report, self.periods
        network, separate = report.network, report.network.channel.rules.separate
        return (
            Section(
                "In short",
                [
                    Facts([(percent(each.odds[0].worst), words.fact(each)) for each in periods]),
                    *map(Text, words.in_short(periods, self.lasting, separate=separate)),
                ],
            ),
            Section("What leaves a device, and to whom", [Items(words.leaves(network)), _who(report)]),
            Section(
                "How much, by time",
                [
                    Text(f"{self.rate} All inferences of a period are taken to show the same secret: they add up."),
                    *(_block(report, periods, group) for group in groups(report, periods)),
                    *map(Text, [*words.unmoved(periods), *words.selected(report, periods)]),
                    Text(words.reading(periods, separate=separate)),
                ],
            ),
            Section("What is not protected", [Items(words.unprotected(network, periods))]),
            Section("What the operator must do", [Items(words.duties(report, self.source))]),
            Section("Under which conditions the numbers hold", [Items(_conditions(report, periods))]),
            Section("The words", [Items(words.glossary(network, self.report.claim))]),
        )

    @property
    def footer(self) -> tuple[str, ...]:
        """The paper's claim, and the source of the page."""
        return (
            words.paper(self.report),
            f"{f'Network file: {self.source}' if self.source else 'The network as airpool writes it to a file'}. "
            f"SHA-256: {self.sha256}. Computed by airpool {__version__}. Numbers are rounded up.",
        )

    @property
    def html(self) -> str:
        """One page in one file: no script, nothing to fetch; the browser prints it. Needs the extra `plots`."""
        return page(self.title, lead=self.lead, sections=self.sections, footer=self.footer, template="statement.html")

    def __str__(self) -> str:
        parts = [f"# {self.title}", self.lead]
        for section in self.sections:
            parts += [f"## {section.title}", *("\n".join(_lines(part)) for part in section.parts)]
        return "\n\n".join([*parts, *self.footer]) + "\n"

    def __repr__(self) -> str:
        worst = ", ".join(f"{each.name}: {limit(each.worst)}" for each in self.periods)
        return f"Statement({self.report.network.devices.count} devices, ε of the worst: {worst})"

    def _repr_html_(self) -> str:
        from html import escape

        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:40rem;border:0"></iframe>'

    def to_json(self) -> dict[str, Any]:
        """As plain data, with the page as text."""
        return {
            "source": self.source,
            "sha256": self.sha256,
            "rate": self.rate,
            "protected_up_to": self.lasting[0],
            "weakly_protected_up_to": self.lasting[1],
            "periods": [each.to_json() for each in self.periods],
            "text": str(self),
            "version": __version__,
        }


def statement(
    report: PrivacyReport, *, per_day: float = 100, rate: str = "", source: str = "", digest: str = ""
) -> Statement:
    """The page of one network. per_day: inferences a day; rate: in words. source, digest: the file's name and SHA-256.

    Edge cases: a period that cannot be accounted for has no limit, and says why.
    """
    if not 0 < per_day <= MOST_PER_DAY:
        raise ValueError(f"per_day={per_day:g} must be > 0 and <= {MOST_PER_DAY}")
    if report.claim.colluding:
        named_ones = ", ".join(map(str, report.claim.colluding))
        raise ValueError(
            f"colluding={named_ones}: a statement is about devices that may be honest; state the number of colluders "
            "in the network"
        )
    one = report.over(1)
    named = [("one inference", 1), ("one day", ceil(per_day)), ("one year", ceil(per_day * _DAYS))]
    own = report.claim.inferences
    if own > 1:
        named.insert(1, ("the file's own number", own))
    periods = tuple(period(report, name, count) for name, count in named)
    text = network_file.dump(report.network, report.claim)
    rate = rate or in_words(per_day)
    found = digest or sha256(text.encode()).hexdigest()
    return Statement(one, periods, rate, lasting(report, periods), source, found)


def in_words(per_day: float) -> str:
    """A rate, with all of its digits.

    >>> in_words(1234567.5)
    'At 1,234,567.5 inferences a day, every day of the year.'
    """
    return (
        f"At {Decimal(full(per_day)):,} {'inference' if per_day == 1 else 'inferences'} a day, every day of the year."
    )


def groups(report: PrivacyReport, periods: Sequence[Period]) -> list[list[int]]:
    """Devices of equal settings and equal leakage, together; the group that leaks most comes first."""
    d, found = report.network.devices, dict[Any, list[int]]()
    names = ("weight", "clip_norm", "noise_std", "participation", "power_dbm", "path_loss_db")
    columns = [d.column(name) for name in names]
    for k in range(d.count):
        leaks = tuple(_cells(period, k) for period in periods)
        found.setdefault((*(column[k] for column in columns), leaks), []).append(k)
    return sorted(found.values(), key=lambda group: -max(period.epsilon[group[0]] for period in periods))


def _cells(period: Period, device: int) -> tuple[str, ...]:
    even, rare = period.odds
    return (
        limit(period.epsilon[device]),
        percent(even.device[device]),
        percent(rare.device[device]),
        limit(period.local[device]),
        percent(even.local[device]),
    )


def _block(report: PrivacyReport, periods: Sequence[Period], group: Sequence[int]) -> PageTable:
    """Leakage of equal devices, a row for each period."""
    header = ("period", "inferences", "ε", "50 % becomes", "1 of 40 becomes", "ε, own signal", "50 % becomes, own")
    rows = [(each.name, f"{each.inferences:,}", *_cells(each, group[0])) for each in periods]
    return PageTable(words.settings(report.network, group), header, rows)


def _conditions(report: PrivacyReport, periods: Sequence[Period]) -> list[str]:
    """All assumptions: those of one inference, then what a longer period needs besides, but for what `unmoved` says."""
    longest = [each for each in periods if each.assumptions][-1]
    known = {*report.assumptions, f"ε covers {longest.inferences} inferences together."}
    besides = [each for each in longest.assumptions if each not in known]
    if words.unmoved(periods):
        besides = [each for each in besides if "epsilon_if_static" not in each]
    later = [f"Over {longest.name}: {each}" for each in besides]
    return [*report.assumptions, *later, words.noise(report)]


def bounds(report: PrivacyReport) -> list[tuple[words.Reader, float, float]]:
    """Each reader of one inference, with ε and yes-or-no odds of the worst device."""
    once, heard = report.odds[0], report.epsilon_eavesdropper
    local = float(np.max(report.epsilon_local)), float(np.max(once.local))
    guessed = once.eavesdropper
    found: dict[words.Bound, tuple[float, float]] = {
        "server": (report.worst, once.worst),
        "own": local,
        "antennas": local if heard is None or guessed is None else (float(np.max(heard)), float(np.max(guessed))),
        "nothing": (0.0, REPORTED[0]),
    }
    rows = words.readers(report.network, report.claim)
    if any(each.bound == "one colluder more" for each in rows):
        found["one colluder more"] = one_colluder_more(report)
    return [(each, *found[each.bound]) for each in rows]


def _who(report: PrivacyReport) -> PageTable:
    """Readers of the signals, and how much one inference tells them about one device."""
    rows = [
        (each.name, each.receives, each.knows, "0" if each.bound == "nothing" else limit(epsilon), percent(odds))
        for each, epsilon, odds in bounds(report)
    ]
    header = ("who", "receives", "knows besides", "ε", "50 % becomes")
    return PageTable("About the worst device, from one inference", header, rows)


def _lines(part: Any) -> list[str]:
    """A part as lines of Markdown that read well as plain text; a table's rows become items."""
    match part:
        case Text():
            return [part.paragraph]
        case Items():
            return [f"- {item}" for item in part.items]
        case Facts():
            return [f"- {value}: {meaning}" for value, meaning in part.facts]
        case PageTable():
            head = part.header[1:]
            rows = [
                f"- {row[0]}: " + "; ".join(f"{name} {cell}" for name, cell in zip(head, row[1:], strict=True))
                for row in part.rows
            ]
            return [part.caption, "", *rows]
        case _:
            raise TypeError(f"a statement has no {type(part).__name__}")
