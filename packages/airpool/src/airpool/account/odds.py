"""Odds of a network: how often a guess at a secret of one view, or of the object, is right (theory/guarantee.md §11).

Each of the three ε has its odds, and so has an eavesdropper. Which of them bounds an attack is decided by what the
attacker hears and by who shows the secret: what several views show is the object's (docs/proofs/odds.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.table import TextTable, runs_of
from airpool.account.received import aggregate
from airpool.account.views import Question, Situation, at_server, beside, elsewhere, of_object
from airpool.network import Claim, Neighbours, Network, require_claim, require_network
from airpool.privacy import odds as bounds

if TYPE_CHECKING:
    from rich.console import Group

# Priors in every report: a yes-or-no question, and one of 40.
REPORTED = (0.5, 0.025)


@dataclass(frozen=True)
class Odds:
    """Largest probability that a guess is right once the signals are seen, where the best one is right with `prior`.

    prior: of the best guess of an adversary who knows everything but the signals, the other views included.
    device: per device, from the sum: a secret that this device's view alone shows.
    local: per device, from its own signal, or with all others colluding.
    object: from the sum, a secret that several views show, such as the class. It is not protected.
    eavesdropper: per device, from the antennas of `network.adversary`; None where it has none.

    >>> from airpool import Network, odds
    >>> found = odds(Network.uniform(num_devices=12, noise_std=0.1), prior=0.1)
    >>> found.device.shape, found.worst < 0.2 < found.object, sorted(found.to_json())
    ((12,), True, ['device', 'eavesdropper', 'local', 'object', 'prior'])
    """

    prior: float
    device: Floats
    local: Floats
    object: float
    eavesdropper: Floats | None = None

    def __post_init__(self) -> None:
        for values in (self.device, self.local, self.eavesdropper):
            if values is not None:
                values.setflags(write=False)

    @property
    def worst(self) -> float:
        """Odds of the worst device."""
        return float(np.max(self.device))

    def _repr_html_(self) -> str:
        from airpool._support.notebook import Dot, dots, rows_of, sentences, shown

        title, header, rows, note = _content(self)
        worst = {
            "from the sum": self.worst,
            "from its own signal": float(np.max(self.local)),
            "the object": self.object,
        }
        drawn = [Dot(label, value, percent(value), mark=self.prior) for label, value in worst.items()]
        axis = "right guesses; the bar: without any signal"
        return shown(title, rows_of(header, rows), dots(drawn, ends=(0.0, 1.0), axis=axis), sentences([note]))

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        heard = self.eavesdropper
        return {
            "prior": self.prior,
            "device": self.device.tolist(),
            "local": self.local.tolist(),
            "object": self.object,
            "eavesdropper": None if heard is None else heard.tolist(),
        }


def percent(share: float) -> str:
    """A probability in per cent, rounded up: one decimal, and more where it is close to 0 or 1.

    >>> percent(0.60567), percent(0.0023849), percent(0.99935), percent(0.5), percent(1.0)
    ('60.6 %', '0.24 %', '99.94 %', '50 %', '100 %')
    """
    value, digits = 100 * share, 1
    if 0 < value < 1:
        digits = 1 + int(np.ceil(-np.log10(value)))
    elif 0 < 100 - value < 0.1:
        digits = min(int(np.ceil(-np.log10(100 - value))), 6)
    # Rounding in binary must not add a digit to a number that was round already.
    text = f"{np.ceil(value * 10**digits - 1e-9) / 10**digits:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.')} %"


def in_words(odds: Sequence[Odds]) -> list[str]:
    """Odds at the priors `REPORTED` as sentences: of one device, and of the object, which is not protected."""
    if not odds:
        return []
    even, rare = odds
    one, other = (f"instead of {percent(each.prior)}" for each in odds)
    local = " and ".join(percent(float(np.max(each.local))) for each in odds)
    most = f"right at most {percent(even.worst)} of the time {one}"
    heard = [float(np.max(each.eavesdropper)) for each in odds if each.eavesdropper is not None]
    elsewhere = f"From the eavesdropper's antennas: {' and '.join(map(percent, heard))}."
    return [
        f"A yes-or-no question about what this device alone sees: {most}; "
        f"one of {1 / rare.prior:.0f}: {percent(rare.worst)} {other}.",
        f"From its own signal, or with all others colluding: {local}.",
        *([elsewhere] if heard else []),
        "What several devices see, the class above all, is not protected: "
        f"{percent(even.object)} and {percent(rare.object)}.",
    ]


def _content(odds: Odds) -> tuple[str, tuple[str, ...], list[tuple[str, ...]], str]:
    """Title, headings, rows (equal devices share one) and the sentence below."""
    title = f"Odds: a guess that is right {percent(odds.prior)} of the time is right at most, once signals are seen"
    columns = {"from the sum": odds.device, "from its own signal": odds.local}
    if odds.eavesdropper is not None:
        columns["from the eavesdropper's antennas"] = odds.eavesdropper
    lines = [tuple(percent(float(values[k])) for values in columns.values()) for k in range(len(odds.device))]
    rows = [(label, *line) for label, line in runs_of(lines)]
    note = f"What several devices see, the class above all, is not protected: {percent(odds.object)}."
    return title, ("device", *columns), rows, f"The secret is one that this device's view alone shows. {note}"


def table(odds: Odds) -> "Group":
    """Odds of every device as text; equal devices share a row."""
    from rich.console import Group
    from rich.text import Text

    title, header, rows, note = _content(odds)
    return Group(Text(title, style="bold"), TextTable(header, rows), Text(f"\n{note}"))


@overload
def odds(network: Network, claim: Claim = ..., *, prior: float = 0.5) -> Odds: ...
@overload
def odds(network: Network, claim: Claim = ..., *, prior: Sequence[float]) -> tuple[Odds, ...]: ...


def odds(network: Network, claim: Claim = Claim(), *, prior: float | Sequence[float] = 0.5) -> Odds | tuple[Odds, ...]:
    """The largest probability that a guess is right, of every device and of the object; rounded up.

    prior: of the best guess without the signals, ½ for a yes-or-no question; several give several `Odds`.
    All inferences and slots show the same secret. Odds do not depend on the claim's neighbours, nor on its δ.

    >>> from airpool import calibrate
    >>> net = calibrate(Network.uniform(num_devices=12, clip_norm=1.0), epsilon=1.0)
    >>> found = odds(net, prior=0.5)
    >>> round(found.worst, 4), round(float(found.local[0]), 4), round(found.object, 4)
    (0.6057, 0.8234, 0.9994)
    """
    require_network(network)
    require_claim(claim)
    found = odds_of(Question(network, claim), bounds.priors(prior))
    return found[0] if np.ndim(prior) == 0 else found


def odds_of(question: Question, prior: Floats) -> tuple[Odds, ...]:
    """Odds at each prior: those of each view's leak, against a device whose feature is zeroed."""
    situation = guessing(question)
    device, local = (bounds.odds(view(situation), prior) for view in (at_server, beside))
    every, heard = bounds.odds(of_object(situation), prior), elsewhere(situation)
    there = None if heard is None else bounds.odds(heard, prior)
    return tuple(
        Odds(float(kappa), device[i], local[i], float(every[i, 0]), None if there is None else there[i])
        for i, kappa in enumerate(prior)
    )


def guessing(question: Question, *, rough: bool = False) -> Situation:
    """The situation of somebody who guesses: whatever neighbours ε is about, a feature is zeroed."""
    network, claim = question.accounted, question.claim
    if claim.neighbours is not Neighbours.ZERO_OUT:
        claim = replace(claim, neighbours=Neighbours.ZERO_OUT)
    same = not rough and question.claim.neighbours.keeps_noise
    here = question.situation.here if same else aggregate(network, claim, rough=rough)
    known = question.situation.kept if same and claim is question.claim else {}
    return Situation(network, claim, here, network.uses(claim), guess=True, kept=known)


def device_odds(question: Question, prior: Floats, *, rough: bool = False) -> Floats:
    """Odds (priors, devices) from the sum, without the rest."""
    return bounds.odds(at_server(guessing(question, rough=rough)), prior)
