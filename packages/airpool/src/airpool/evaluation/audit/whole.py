"""The whole audit of a network: every claim against its own adversary, and all of them at one level of confidence.

    ε          a distinguishing game in which the adversary hears the sum (audit.adversary)
    local ε    the same game where it also knows what all others have sent
    the cap    games over all slots of an inference, where it has several (audit.adaptive), at a confidence of their own
    σ, C, p    what both rest on, measured device by device, with exact limits (audit.claims)

Of the probability of a false alarm, 1 − confidence, the games share 49 parts of 50 equally, the measurements one part:
they are sharp enough to do with little, and games are not (union bound).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.brief import Brief
from airpool._support.extras import load
from airpool._support.progress import Progress, automatic
from airpool._support.rounding import shown_below
from airpool._support.threads import single_thread
from airpool.account.guarantee import guarantee
from airpool.account.report import PrivacyReport, shown
from airpool.evaluation.audit.adversary import End, audited
from airpool.evaluation.audit.bound import AuditReport
from airpool.evaluation.audit.claims import Evidence, enough, measure
from airpool.evaluation.audit.path import Path
from airpool.network import Claim, Network

# Of the probability of a false alarm, what the measurements get.
MEASURED = 1 / 50


class CapAudit(Protocol):
    """Audit of the cap of several slots, by games over all of them (airpool_lab.audit.adaptive)."""

    @property
    def violated(self) -> bool: ...
    def lines(self) -> list[str]: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, eq=False, repr=False)
class Examination(Brief):
    """Results of the games and the measurements; all hold together with the stated confidence.

    games: against the ε of each device attacked, by device. alone: against its local ε. outcomes: of all devices.
    measured_runs: of each of the two worlds that were measured. cap: of inferences of several slots, else None; its
    bounds hold with its own confidence. claimed: the report that was audited.

    >>> found = examined(Network.uniform(num_devices=3, noise_std=0.1), runs=2000)
    >>> found.violated, found.contradicted, found.implied()
    (False, [], None)
    >>> found.lines()[0][-17:], sorted(found.to_json())[:3]
    ('none contradicted', ['confidence', 'devices', 'measurements'])
    """

    network: Network
    claimed: PrivacyReport
    games: dict[int, AuditReport]
    alone: dict[int, AuditReport]
    outcomes: list[Evidence]
    confidence: float
    measured_runs: int
    cap: CapAudit | None = None

    @property
    def contradicted(self) -> list[Evidence]:
        """Measurements that contradict what ε rests on."""
        return [outcome for outcome in self.outcomes if outcome.contradicted]

    @property
    def violated(self) -> bool:
        """Whether a game refutes an ε or a measurement contradicts what it rests on."""
        games = [*self.games.values(), *self.alone.values(), *([self.cap] if self.cap else [])]
        return any(game.violated for game in games) or bool(self.contradicted)

    def implied(self) -> tuple[Floats, Floats] | None:
        """ε and local ε of each device, from the most noise that was measured; None where noise is as claimed."""
        net, d = self.claimed.network, self.network.devices
        lacking = [outcome for outcome in self.contradicted if outcome.claim == "own noise"]
        if not lacking:
            return None
        std = tuple(min([s, *(o.high for o in lacking if o.device == k)]) for k, s in enumerate(d.column("noise_std")))
        found = guarantee(replace(net, devices=replace(d, noise_std=std)), self.claimed.claim)
        return found.epsilon, found.epsilon_local

    def lines(self) -> list[str]:
        """Lines of text: the measurements, and the claims that they contradict."""
        bad, total = self.contradicted, len(self.outcomes)
        text = [
            f"{total} measurements of noise, clip, participation and sum in 2 × {self.measured_runs} runs: "
            f"{f'{len(bad)} CONTRADICTED' if bad else 'none contradicted'}",
            *(f"  {outcome}" for outcome in bad),
        ]
        if (implied := self.implied()) is not None:
            local = self.claimed.epsilon_local
            worst = int(np.argmax(np.where(np.isfinite(local), implied[1] - np.nan_to_num(local), -np.inf)))
            sums, locals_ = (float(values[worst]) for values in implied)
            text.append(
                f"  with no more noise than that, device {worst} has ε {shown_below(sums)} (claimed "
                f"{shown(float(self.claimed.epsilon[worst]))}) and local ε {shown_below(locals_)} (claimed "
                f"{shown(float(self.claimed.epsilon_local[worst]))})"
            )
        number = len(self.games) + len(self.alone)
        text.append(
            f"all {number} games and {total} measurements hold together with {self.confidence:g} confidence (union "
            f"bound: {1 - MEASURED:.0%} of the error is shared by the games, {MEASURED:.0%} by the measurements)"
        )
        return text

    def _repr_html_(self) -> str:
        from airpool._support import notebook

        games = [(k, "the sum", game) for k, game in self.games.items()]
        games += [(k, "its own signal", game) for k, game in self.alone.items()]
        header = ("device", "heard", "claimed ε", "shown: at least", "")
        rows = [(str(k), heard, *game.verdict) for k, heard, game in games]
        drawn = [
            notebook.Dot(f"device {k}, {heard}", game.epsilon_lower, f"≥ {game.verdict[1]}", mark=game.claimed_epsilon)
            for k, heard, game in games
        ]
        title = f"Audit of {self.network.devices.count} devices: {'VIOLATED' if self.violated else 'no claim refuted'}"
        drawing = notebook.dots(drawn, axis="ε shown; the bar: ε claimed")
        named = [str(outcome) for outcome in self.contradicted]
        lines = [line.strip() for line in self.lines() + (self.cap.lines() if self.cap else [])]
        rest = notebook.sentences(line for line in lines if line not in named)
        contradicted = notebook.points("Contradicted:", named, folded=True)
        return notebook.shown(title, notebook.rows_of(header, rows), drawing, rest, contradicted)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        measured = [outcome.to_json() for outcome in self.contradicted]
        return {
            "confidence": self.confidence,
            "violated": self.violated,
            "devices": [
                game.to_json() | {"device": k, "local": self.alone[k].to_json()} for k, game in self.games.items()
            ],
            "measurements": {
                "number": len(self.outcomes),
                "runs": self.measured_runs,
                "contradicted": measured,
                "outcomes": [outcome.to_json() for outcome in self.outcomes],
            },
            **({} if self.cap is None else {"cap": self.cap.to_json()}),
        }


@single_thread()
def examined(
    network: Network,
    claim: Claim = Claim(),
    devices: int | Sequence[int] | None = None,
    *,
    runs: int = 100_000,
    seed: int = 0,
    confidence: float = 0.95,
    score: End = "high",
    played: Path | None = None,
    progress: Progress = automatic,
) -> Examination:
    """Two games against each of these devices (by default the one with the largest ε), and measurements of all devices.

    The ε are those of one slot; where an inference has several, its cap is audited beside them. With antennas elsewhere
    the first game is theirs. No device drops out, which makes the first game weaker than the claim allows; in the
    second no other device counts.

    claim: what is asked of the network. devices: by index. runs: of each side of each game; the measurements need
    fewer.
    score: which end of the score's range goes with the feature (Schemes 2.1, 2.2), high or low.
    played: the path to measure, by default the network's. confidence: of all bounds together.
    progress: left out, shown where there is a terminal or a notebook.

    >>> found = examined(Network.uniform(num_devices=3, noise_std=0.1), devices=1, runs=2000)
    >>> found.violated, bool(found.games[1].epsilon_lower <= found.claimed.epsilon[1])
    (False, True)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence:g} must be > 0 and < 1")
    if claim.credit_channel_noise:
        raise ValueError("credit_channel_noise=True must be False here: the games leave the receiver's noise out")
    whole, network = network, network.one_slot
    claimed = guarantee(network, replace(claim, inferences=1, per_event=None))
    elsewhere = claimed.epsilon_eavesdropper is not None
    epsilon = claimed.epsilon if claimed.epsilon_eavesdropper is None else claimed.epsilon_eavesdropper
    if devices is None:
        devices = int(np.argmax(epsilon))
    chosen = [devices] if isinstance(devices, int) else list(dict.fromkeys(devices))
    each = partial(
        audited,
        network,
        claim,
        runs=runs,
        seed=seed,
        score=score,
        together=2 * len(chosen),
        confidence=1 - (1 - MEASURED) * (1 - confidence),
    )
    games: dict[int, AuditReport] = {}
    alone: dict[int, AuditReport] = {}
    for number, k in enumerate(chosen, start=1):
        which = f"auditing device {k} ({number} of {len(chosen)})" if len(chosen) > 1 else "auditing"
        with progress(which, 4 * runs) as advance:
            games[k] = each(k, claimed_epsilon=float(epsilon[k]), elsewhere=elsewhere, on_batch=advance)
            alone[k] = each(k, claimed_epsilon=float(claimed.epsilon_local[k]), alone=True, on_batch=advance)
    number = enough(network, runs)
    with progress("measuring", 2 * number) as advance:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 2)))
        outcomes = measure(
            network, runs=number, rng=rng, confidence=1 - MEASURED * (1 - confidence), played=played, on_batch=advance
        )
    attacked = max(chosen, key=lambda k: epsilon[k])
    cap = None
    if whole.slots.count > 1:
        adaptive = load("airpool_lab.audit.adaptive", "the audit of inferences of several slots")
        cap = adaptive.capped(whole, claim, attacked, runs=runs, seed=seed, progress=progress)
    return Examination(network, claimed, games, alone, outcomes, confidence, number, cap)
