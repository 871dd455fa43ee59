"""The privacy report: ε of every device and of the object, with table, figure and JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.rounding import because, full, number, numbers, shown, shown_below, up
from airpool._support.table import TextTable, runs_of
from airpool._support.version import __version__
from airpool.account import assumptions as sentences
from airpool.account import theorem1, whatif
from airpool.account.at_least import at_least
from airpool.account.event import Event
from airpool.account.odds import REPORTED, Odds, in_words, odds_of
from airpool.account.views import Question
from airpool.network import Claim, Network, network_plugins
from airpool.privacy.leak import OverTime

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, repr=False)
class PrivacyReport:
    """Leakage of each device of a network, and its assumptions.

    epsilon: per device, proven: the noise of all honest devices protects one feature.
    epsilon_lower: per device, the lower end of the numerical bracket whose upper end is `epsilon`; they are equal where
        the law is exact. None where there is no bracket, as for a stream of inferences. It is no lower bound on the
        true ε where `epsilon` is itself a bound: see `epsilon_at_least`.
    epsilon_local: per device, with no other device trusted.
    epsilon_object: all views change at once; feature privacy does not protect the object.
    epsilon_eavesdropper: per device, against the antennas of `network.adversary`; None where it has none.
    event: ε of a stay of several inferences, where asked for.
    question: the network that transmits, and what every ε here rests on. leaks: by name, what each ε is computed from.
    What takes longer than all the rest is computed on first use; the report can be pickled.

    >>> from airpool import guarantee
    >>> report = guarantee(Network.uniform(num_devices=12, noise_std=0.05))
    >>> report
    PrivacyReport(12 devices: epsilon <= 1.910, delta=1e-05, zero-out, 1 inference(s))
    >>> report.epsilon.shape, round(report.worst, 4), len(report.epsilon_if_absent), report.epsilon_if_static
    ((12,), 1.9093, 3, None)
    >>> report.epsilon_if_selected, report.outages_if_selected
    (None, None)
    >>> bool(report.epsilon_at_least[0] <= report.worst <= report.over(100).worst), report.claimed_by
    (True, ())
    >>> [round(each.worst, 3) for each in report.odds], report.as_event.inferences, report.to_json()["scheme"]
    ([0.685, 0.07], 1, '1')
    >>> report.network.devices.count, report.claim.inferences, report.reasons, len(report.assumptions) > 5
    (12, 1, {}, True)
    >>> report.again(neighbours="replace").worst > report.worst, report.paper.epsilon.shape
    (True, (12,))
    >>> report.statement(per_day=10).title
    'What this network gives away: 12 devices'
    """

    question: Question
    leaks: Mapping[str, OverTime]
    epsilon: Floats
    epsilon_lower: Floats | None
    epsilon_local: Floats
    epsilon_object: float
    epsilon_eavesdropper: Floats | None = None
    event: Event | None = None

    @property
    def network(self) -> Network:
        """The network that transmits."""
        return self.question.network

    @property
    def claim(self) -> Claim:
        """What is claimed of it."""
        return self.question.claim

    @property
    def worst(self) -> float:
        """ε of the worst device."""
        return float(np.max(self.epsilon))

    @cached_property
    def paper(self) -> theorem1.PaperClaim:
        """What the paper's Theorem 1 claims for one inference of the same network."""
        return theorem1.paper_claim(self.question.accounted, self.claim.delta)

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """One sentence for each assumption, in the order of printing."""
        situation, carrier = self.question.situation, self.question.carrier
        lines = sentences.assumptions(situation)
        return lines if carrier is None else carrier.assumptions(self.network, lines)

    @cached_property
    def reasons(self) -> Mapping[str, str]:
        """Why each ε is infinite that is, by name."""
        found = {name: getattr(self, name, None) for name in self.leaks}
        return sentences.reasons(self.question.situation, self.leaks, found)

    @cached_property
    def epsilon_if_absent(self) -> tuple[float, ...]:
        """The worst device's ε if 0, 1, 2, ... others collude or drop out. Computed on first use."""
        return whatif.if_absent(self.question.situation, self.worst)

    @cached_property
    def epsilon_if_static(self) -> Floats | None:
        """ε of each device if the channel, redrawn in every inference, stays as it is instead. Computed on first use.

        None for one inference, where nothing of the channel is random, or where `epsilon` is that already.
        """
        return whatif.if_static(self.question.situation)

    @cached_property
    def _selected(self) -> tuple[Floats | None, int | None]:
        return whatif.if_selected(self.question.situation, self.epsilon)

    @property
    def epsilon_if_selected(self) -> Floats | None:
        """ε of each device if the server chooses its moments by the channel. Computed on first use.

        In every inference (every slot, where each has a channel of its own) the device itself is received and
        `outages_if_selected` others are not, whichever they are. Where gains are not known, or the server has several
        antennas: no draw is worse than one in a thousand. None where ε is no average over a draw of the channel.
        """
        return self._selected[0]

    @property
    def outages_if_selected(self) -> int | None:
        """How many outages among the other devices one inference exceeds with probability below 1e-3.

        0 where the others' noise does not count. None where `epsilon_if_selected` is, or is no matter of outages alone.
        """
        return self._selected[1]

    @cached_property
    def epsilon_at_least(self) -> Floats | None:
        """ε of each device from below, over a stream too; None where no lower end is known. Computed on first use."""
        carrier = self.question.carrier
        if carrier is not None and not carrier.exact:
            return None
        return at_least(self.question.situation, self.epsilon_lower)

    @cached_property
    def odds(self) -> tuple[Odds, ...]:
        """Odds of a yes-or-no question, and of one of 40 (docs/theory/guarantee.md §11). Computed on first use."""
        return odds_of(self.question, np.array(REPORTED))

    def over(self, inferences: int) -> "PrivacyReport":
        """The report of another number of inferences, all else equal."""
        return self if inferences == self.claim.inferences else self.again(inferences=inferences)

    def again(self, network: Network | None = None, **changes: Any) -> "PrivacyReport":
        """The report with these changes of its claim, or of another network, all else equal."""
        return import_module("airpool.account.guarantee").answered(self.question.about(network, **changes))

    def statement(self, *, per_day: float = 100, rate: str = "", source: str = "", digest: str = "") -> Any:
        """One page for non-experts, an `account.statement.Statement`: text by `str`, and `html`.

        per_day: inferences a day; rate: in words. source, digest: the network file's name and SHA-256.
        """
        page = import_module("airpool.account.statement")
        return page.statement(self, per_day=per_day, rate=rate, source=source, digest=digest)

    @property
    def as_event(self) -> Event:
        """One stay that all inferences of this report see."""
        values = self.epsilon, self.epsilon_local, self.epsilon_object
        return Event(self.claim.inferences, self.network.slots.count, *values, reasons=self.reasons)

    @property
    def claimed_by(self) -> tuple[str, ...]:
        """Names of the plug-ins that ε rests on."""
        return tuple(each.name for each in network_plugins(self.network))

    def __repr__(self) -> str:
        claim, count = self.claim, self.network.devices.count
        worst = f"epsilon <= {shown(self.worst)}, delta={full(claim.delta)}, {claim.neighbours}"
        return f"PrivacyReport({count} devices: {worst}, {claim.inferences} inference(s){_slots(self)})"

    def _repr_html_(self) -> str:
        from airpool._support import notebook

        table, notes = notebook.rows_of(_HEADER, _rows(self)), notebook.sentences(_notes(self, absent=False))
        drawn = compared(self.epsilon, self.epsilon_local, self.epsilon_object)
        return notebook.shown(_title(self), table, drawn, notes, notebook.points("Holds if:", _assumed(self)))

    def to_json(self, *, absent: bool = True) -> dict[str, Any]:
        """As plain data. absent: with `epsilon_if_absent`, else None in its place."""
        network, claim, paper = self.network, self.claim, self.paper

        def each(values: Floats | None) -> list[float | str] | None:
            return None if values is None else numbers(values)

        return {
            "epsilon": each(self.epsilon),
            "epsilon_lower": each(self.epsilon_lower),
            "epsilon_local": each(self.epsilon_local),
            "epsilon_object": number(self.epsilon_object),
            "epsilon_eavesdropper": each(self.epsilon_eavesdropper),
            "epsilon_if_static": each(self.epsilon_if_static),
            "epsilon_if_selected": each(self.epsilon_if_selected),
            "outages_if_selected": self.outages_if_selected,
            "epsilon_at_least": each(self.epsilon_at_least),
            "epsilon_if_absent": numbers(self.epsilon_if_absent) if absent else None,
            "reasons": dict(self.reasons),
            "event": None if self.event is None else self.event.to_json(),
            "odds": [guess.to_json() for guess in self.odds],
            **{name: getattr(claim, name) for name in ("delta", "neighbours", "inferences", "live")},
            **{name: getattr(network, name) for name in ("cover_noise", "colluders", "dropouts")},
            "slots": network.slots.count,
            "scheme": network.scheme.name,
            "assumptions": list(self.assumptions),
            "claimed_by": list(self.claimed_by),
            "paper": {
                "epsilon": numbers(paper.epsilon),
                "delta": numbers(paper.delta),
                "reason": paper.reason,
            },
            "version": __version__,
        }

    def plot(self, path: str) -> None:
        """Draws ε of each device, promised, local and claimed by the paper, and that of the object. Needs `plots`.

        >>> from tempfile import TemporaryDirectory
        >>> from airpool import guarantee
        >>> with TemporaryDirectory() as folder:
        ...     guarantee(Network.uniform(num_devices=3)).plot(f"{folder}/epsilon.png")
        """
        _draw(self, path)


# A lower end that is further from ε than this share is printed.
_APART = 0.05
_HEADER = ("device", "weight", "clip norm", "noise std", "participation", "ε device", "ε local", "paper's claim")


def _title(report: PrivacyReport) -> str:
    network, claim = report.network, report.claim
    times = f" over {claim.inferences} inferences" if claim.inferences > 1 else ""
    times += _slots(report)
    cover = ", cover noise" if network.cover_noise else ""
    access = f", {title}" if (title := network.channel.rules.title) else ""
    claimed = f", claimed by the plug-in {' and '.join(report.claimed_by)}" if report.claimed_by else ""
    about = f"{claim.neighbours} neighbours{access}{cover}, δ = {full(claim.delta)}{times}"
    return f"Privacy of each device: {about}{claimed}"


def _slots(report: PrivacyReport) -> str:
    """Words on the cap: ε is that of all slots, however early the server stops."""
    if (count := report.network.slots.count) == 1:
        return ""
    each = " each" if report.claim.inferences > 1 else ", one inference"
    return f"{each} of up to {count} slots"


def _rows(report: PrivacyReport) -> list[tuple[str, ...]]:
    """A row for each device, or for each run of equal ones."""
    d = report.network.devices
    columns = [d.column(name) for name in ("weight", "clip_norm", "noise_std", "participation")]
    epsilons = (report.epsilon, report.epsilon_local, report.paper.epsilon)
    lines = [
        (*(f"{column[k]:.4g}" for column in columns), *(shown(values[k]) for values in epsilons))
        for k in range(d.count)
    ]
    if report.paper.reason:
        lines = [(*line[:-1], "undefined") for line in lines]
    return [(label, *line) for label, line in runs_of(lines)]


def _assumed(report: PrivacyReport) -> tuple[str, ...]:
    return report.assumptions if report.event is None else (*report.assumptions, *report.event.assumptions)


def _notes(report: PrivacyReport, *, absent: bool) -> list[str]:
    """Sentences below the rows: what they do not show, and the reason of what is infinite."""
    device, whole = (because(report.reasons, name) for name in ("epsilon", "epsilon_object"))
    notes = [
        f"Worst device: ε = {shown(report.worst)}{device}.  The object (all views change at once): ε = "
        f"{shown(report.epsilon_object)}{whole}."
    ]
    least = report.epsilon_at_least
    if least is not None and (at := float(least[np.argmax(report.epsilon)])) * (1 + _APART) < report.worst:
        notes.append(f"The worst device's ε lies between {shown_below(at)} and {shown(report.worst)}.")
    if "epsilon_local" in report.reasons:
        notes.append(f"The local ε is inf: {report.reasons['epsilon_local']}.")
    if report.event is not None:
        notes.append(report.event.words)
    stays = report.epsilon_if_static
    if stays is not None and shown(float(np.max(stays))) != shown(report.worst):
        uses = "inferences" if report.claim.inferences > 1 else "slots"
        notes.append(f"If the channel stays as it is over all {uses}: ε = {shown(float(np.max(stays)))}.")
    if report.epsilon_if_selected is not None:
        many, chosen = report.outages_if_selected, shown(float(np.max(report.epsilon_if_selected)))
        rare = f"up to {many} others too weak each time" if many else "it is received each time"
        rare = "no draw rarer than 1 in 1,000" if many is None else rare
        notes.append(f"If the server chooses its moments by the channel ({rare}): ε = {chosen}.")
    if report.epsilon_eavesdropper is not None:
        why = because(report.reasons, "epsilon_eavesdropper")
        antennas, worst = report.network.adversary.antennas, float(np.max(report.epsilon_eavesdropper))
        unknowing = "" if report.claim.knows_answer else ", which does not learn the answer"
        notes.append(
            f"An eavesdropper elsewhere with {antennas} antenna{'s' * (antennas > 1)}{unknowing}: "
            f"ε = {shown(worst)}{why}."
        )
    if absent and len(report.epsilon_if_absent) > 1:
        parts = ", ".join(f"{n}: {shown(e)}" for n, e in enumerate(report.epsilon_if_absent))
        notes.append(f"Worst device's ε by number of colluders or dropouts: {parts}.")
    notes.extend(in_words(report.odds))
    claim = report.paper
    what = claim.reason or f"at δ̃ = {up(float(np.max(claim.delta)), 3)}, for one inference; not a valid bound"
    notes.append(f"The paper's Theorem 1: {what}.")
    return notes


def table(report: PrivacyReport, *, absent: bool = True) -> "Group":
    """The report as text, as wide as there is room: equal devices share a row. absent: with `epsilon_if_absent`."""
    from rich.console import Group
    from rich.text import Text

    notes = _notes(report, absent=absent)
    text = Text("\n".join(["", *notes, "", "Holds if:", *(f"  - {line}" for line in _assumed(report))]))
    return Group(Text(_title(report), style="bold"), TextTable(_HEADER, _rows(report)), text)


_WIDEST = 56  # characters of a line of the legend


def _draw(report: PrivacyReport, path: str) -> None:
    """Writes the picture of a report's three ε and the paper's claim.

    An infinite ε is an arrow at the upper end of the axis, a 0 one at its lower end.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    from airpool._support.figures import BLUE, GREY, ORANGE, RED, figure

    claim, reasons, paper = report.claim, report.reasons, report.paper
    k, whole = np.arange(len(report.epsilon)), np.full_like(report.epsilon, report.epsilon_object)
    claimed, paper_name = paper.epsilon, "the paper's Theorem 1"
    if paper.reason:  # undefined is not infinite: nothing is drawn of it
        claimed, paper_name = np.full_like(claimed, np.nan), f"{paper_name}: undefined"
    series = [
        (whole, GREY, "D", "object: all views change", reasons.get("epsilon_object")),
        (report.epsilon_local, ORANGE, "s", "local: nobody else trusted", reasons.get("epsilon_local")),
        (claimed, RED, "x", paper_name, None),
        (report.epsilon, BLUE, "o", f"device: exact, {claim.neighbours}", reasons.get("epsilon")),
    ]
    low, high = _limits([values for values, *_ in series])
    with figure(path, height=4.4) as (_, axes):
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        for values, colour, marker, label, why in series:
            there = np.isfinite(values) & (values > 0)
            same = len(set(values[there].tolist())) == 1
            known = f"{label}: ε = {shown(float(values[there][0]))}" if same else label
            known += f"; ▲ infinite: {why}" if why else ""
            axes.plot(k[there], values[there], marker, color=colour, label=fill(known, _WIDEST), markersize=5)
            for end, at, arrow in ((np.isposinf(values), high, "^"), (values == 0, low, "v")):
                axes.plot(k[end], np.full(int(end.sum()), at), arrow, color=colour, clip_on=False, markersize=7)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("device")
        axes.set_ylabel(f"ε at δ = {full(claim.delta)}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=1)


def compared(device: Floats, local: Floats, whole: float) -> str:
    """A small drawing as HTML, without Matplotlib: ε of the worst device from the sum, local, and of the object."""
    from airpool._support.figures import BLUE, GREY, ORANGE
    from airpool._support.notebook import Dot, dots

    worst = (("device, in the sum", device, BLUE), ("device, alone (local)", local, ORANGE), ("object", whole, GREY))
    rows = [(label, float(np.max(values)), colour) for label, values, colour in worst]
    return dots([Dot(label, value, f"ε = {shown(value)}", colour=colour) for label, value, colour in rows], axis="ε")


def _limits(values: list[Floats]) -> tuple[float, float]:
    """Ends of the axis with every finite ε between them, and a margin."""
    all_values = np.concatenate(values)
    inside = all_values[np.isfinite(all_values) & (all_values > 0)]
    if not len(inside):
        return 0.1, 10.0
    return float(inside.min()) / 1.5, float(inside.max()) * 1.5
