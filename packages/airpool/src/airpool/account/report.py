"""The privacy report: ε of every device and of the object, with table, figure and JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.rounding import full, shown, shown_below, up
from airpool._support.text_table import TextTable, runs_of
from airpool._support.version import __version__
from airpool.account.event import Event
from airpool.account.guesses import Odds, in_words
from airpool.account.words import because, number, numbers
from airpool.network import Network, network_plugins
from airpool.paper.formulas import theorem1

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
    paper: what the paper's Theorem 1 claims for one inference of the same network.
    absent: computes `epsilon_if_absent`, which may take longer than all the rest.
    static, selected, least, guesses: compute `epsilon_if_static`, `epsilon_if_selected`, `epsilon_at_least`, `odds`.
    reasons: by name, of each ε that is infinite: why it is. event: ε of a stay of several inferences, where asked for.
    live: whether ε accounts for noise that is really drawn, with what its grid costs, or for a mathematical Gaussian.
    again: the report with other settings of the network, by name, all else equal; of a waveform, of inferences alone.
        What computes can be pickled, as the report can.
    colluding: devices known to collude, by index.

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
    >>> report.statement(per_day=10).title
    'What this network gives away: 12 devices'
    """

    network: Network
    epsilon: Floats
    epsilon_lower: Floats | None
    epsilon_local: Floats
    epsilon_object: float
    paper: theorem1.Claim
    assumptions: tuple[str, ...]
    absent: Callable[[], tuple[float, ...]]
    static: Callable[[], Floats | None]
    selected: Callable[[], tuple[Floats, int | None] | None]
    least: Callable[[], Floats | None]
    guesses: Callable[[], tuple[Odds, ...]]
    epsilon_eavesdropper: Floats | None = None
    live: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)
    event: Event | None = None
    again: Callable[..., "PrivacyReport"] | None = None
    colluding: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for values in (self.epsilon, self.epsilon_lower, self.epsilon_local, self.epsilon_eavesdropper):
            if values is not None:
                values.setflags(write=False)  # reports are shared

    @property
    def worst(self) -> float:
        """ε of the worst device."""
        return float(np.max(self.epsilon))

    @cached_property
    def epsilon_if_absent(self) -> tuple[float, ...]:
        """The worst device's ε if 0, 1, 2, ... others collude or drop out. Computed on first use."""
        return self.absent()

    @cached_property
    def epsilon_if_static(self) -> Floats | None:
        """ε of each device if the channel, redrawn in every inference, stays as it is instead. Computed on first use.

        None for one inference, where nothing of the channel is random, or where `epsilon` is that already.
        """
        return self.static()

    @cached_property
    def _selected(self) -> tuple[Floats | None, int | None]:
        return self.selected() or (None, None)

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
        return self.least()

    @cached_property
    def odds(self) -> tuple[Odds, ...]:
        """Odds of a yes-or-no question, and of one of 40 (docs/theory/guarantee.md §11). Computed on first use."""
        return self.guesses()

    def over(self, inferences: int) -> "PrivacyReport":
        """The report of another number of inferences, all else equal."""
        if inferences == self.network.inferences:
            return self
        if self.again is None:
            raise ValueError(f"inferences={inferences} must be {self.network.inferences}: no other one is known")
        return self.again(inferences=inferences)

    def statement(self, *, per_day: float = 100, **about: str) -> Any:
        """One page for non-experts, an `account.statement.Statement`: text by `str`, and `html`.

        per_day: inferences a day. about: rate, source and digest, as of `account.statement.statement`.
        """
        return import_module("airpool.account.statement").statement(self, per_day=per_day, **about)

    @property
    def as_event(self) -> Event:
        """One stay that all inferences of this report see."""
        net, values = self.network, (self.epsilon, self.epsilon_local, self.epsilon_object)
        return Event(net.inferences, net.slots.count, *values, reasons=self.reasons)

    @property
    def claimed_by(self) -> tuple[str, ...]:
        """Names of the plug-ins that ε rests on."""
        return tuple(each.name for each in network_plugins(self.network))

    def __repr__(self) -> str:
        net = self.network
        worst = f"epsilon <= {shown(self.worst)}, delta={full(net.delta)}, {net.neighbours}"
        return f"PrivacyReport({net.devices.count} devices: {worst}, {net.inferences} inference(s){_slots(net)})"

    def _repr_html_(self) -> str:
        from airpool._support import notebook
        from airpool.account.picture import compared

        table, notes = notebook.rows_of(_HEADER, _rows(self)), notebook.sentences(_notes(self, absent=False))
        drawn = compared(self.epsilon, self.epsilon_local, self.epsilon_object)
        return notebook.shown(_title(self), table, drawn, notes, notebook.points("Holds if:", _assumed(self)))

    def to_json(self, *, absent: bool = True) -> dict[str, Any]:
        """As plain data. absent: with `epsilon_if_absent`, else None in its place."""
        network, paper = self.network, self.paper
        shared = ("delta", "neighbours", "cover_noise", "colluders", "dropouts", "inferences")
        return {
            "epsilon": numbers(self.epsilon),
            "epsilon_lower": None if self.epsilon_lower is None else numbers(self.epsilon_lower),
            "epsilon_local": numbers(self.epsilon_local),
            "epsilon_object": number(self.epsilon_object),
            "epsilon_eavesdropper": None if self.epsilon_eavesdropper is None else numbers(self.epsilon_eavesdropper),
            "epsilon_if_static": None if self.epsilon_if_static is None else numbers(self.epsilon_if_static),
            "epsilon_if_selected": None if self.epsilon_if_selected is None else numbers(self.epsilon_if_selected),
            "outages_if_selected": self.outages_if_selected,
            "epsilon_at_least": None if self.epsilon_at_least is None else numbers(self.epsilon_at_least),
            "epsilon_if_absent": numbers(self.epsilon_if_absent) if absent else None,
            "reasons": dict(self.reasons),
            "event": None if self.event is None else self.event.to_json(),
            "odds": [each.to_json() for each in self.odds],
            **{name: getattr(network, name) for name in shared},
            "slots": network.slots.count,
            "scheme": network.scheme.name,
            "live": self.live,
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
        from airpool.account.picture import draw

        names = ("epsilon", "epsilon_local", "epsilon_object")
        draw(path, self.network, {name: getattr(self, name) for name in names}, self.reasons, self.paper)


# A lower end that is further from ε than this share is printed.
_APART = 0.05
_HEADER = ("device", "weight", "clip norm", "noise std", "participation", "ε device", "ε local", "paper's claim")


def _title(report: PrivacyReport) -> str:
    network = report.network
    times = f" over {network.inferences} inferences" if network.inferences > 1 else ""
    times += _slots(network)
    cover = ", cover noise" if network.cover_noise else ""
    access = f", {title}" if (title := network.channel.rules.title) else ""
    claimed = f", claimed by the plug-in {' and '.join(report.claimed_by)}" if report.claimed_by else ""
    about = f"{network.neighbours} neighbours{access}{cover}, δ = {full(network.delta)}{times}"
    return f"Privacy of each device: {about}{claimed}"


def _slots(network: Network) -> str:
    """Words on the cap: ε is that of all slots, however early the server stops."""
    if network.slots.count == 1:
        return ""
    each = " each" if network.inferences > 1 else ", one inference"
    return f"{each} of up to {network.slots.count} slots"


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
        uses = "inferences" if report.network.inferences > 1 else "slots"
        notes.append(f"If the channel stays as it is over all {uses}: ε = {shown(float(np.max(stays)))}.")
    if report.epsilon_if_selected is not None:
        many, chosen = report.outages_if_selected, shown(float(np.max(report.epsilon_if_selected)))
        rare = f"up to {many} others too weak each time" if many else "it is received each time"
        rare = "no draw rarer than 1 in 1,000" if many is None else rare
        notes.append(f"If the server chooses its moments by the channel ({rare}): ε = {chosen}.")
    if report.epsilon_eavesdropper is not None:
        why = because(report.reasons, "epsilon_eavesdropper")
        antennas, worst = report.network.adversary.antennas, float(np.max(report.epsilon_eavesdropper))
        unknowing = "" if report.network.adversary.knows_answer else ", which does not learn the answer"
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
