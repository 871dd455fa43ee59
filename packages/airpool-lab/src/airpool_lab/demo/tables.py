"""The demo's numbers as text, the same on the terminal and on the page. Every ε is rounded up."""

from collections.abc import Sequence
from math import isinf
from typing import Any

from airpool._support.page import PageTable
from airpool._support.rounding import full, spread, up
from airpool.account.report import shown
from airpool_lab.demo.claim import CheckedClaim
from airpool_lab.demo.comparison import Curve, Name, Spending
from airpool_lab.demo.one_object import REPEATS, Sent

_CAPTIONS: dict[Name, str] = {
    "paper": "The paper's network: q = 16 (r = 784), p = 0.9, ideal channel; the noise for which Theorem 1 claims ε",
    "ours": "Ours: the vote (r = 40), p = 1, Rician fading, receiver noise; the least noise whose exact ε is at most ε",
}
_TRUTHS = {
    "zero-out": "zero-out: its feature becomes zero",
    "replace": "replace: its feature becomes another one",
    "remove": "remove: the device is removed with its noise (the paper's definition)",
    "zero-out, cover noise": "zero-out, silent devices still send noise",
    "replace, cover noise": "replace, silent devices still send noise",
    "remove, cover noise": "remove, silent devices still send noise",
    "local": "zero-out, no other device's noise trusted (local)",
    "object": "all twelve features at once (the object itself)",
}


def plain(value: float) -> str:
    """A small number as people write it.

    >>> plain(1e-5), plain(0.01)
    ('1e-5', '0.01')
    """
    return f"{value:g}".replace("e-0", "e-")


def compared(curve: Curve) -> PageTable:
    """One network at every budget; the ε that its noise was scaled to comes first."""
    first, second = ("claimed", "device") if curve.name == "paper" else ("device", "claimed")
    names = (second, "remove", "local", "object")

    def cells(row: dict[str, Any]) -> list[str]:
        epsilons = [shown(row[f"epsilon_{name}"]) for name in names]
        interval = f"{row['accuracy_low']:.3f} – {row['accuracy_high']:.3f}"
        accuracy = _with_std(row["accuracy_mean"], row["accuracy_std"])
        return [
            _budget(row),
            *epsilons,
            accuracy,
            interval,
            _with_std(row["paper_accuracy"], row["paper_accuracy_std"]),
        ]

    header = [*(f"ε {name}" for name in (first, *names)), "accuracy ± std", "95 % interval", "paper printed"]
    return PageTable(_CAPTIONS[curve.name], header, [cells(row) for row in curve.rows()])


def voted(*curves: Curve) -> PageTable | None:
    """Each trained codec against the vote of its trunk on the same noise; None where no vote ships."""

    def cells(row: dict[str, Any]) -> list[str]:
        error = "" if row["against_vote_error"] is None else f" ± {spread(row['against_vote_error'])}"
        accuracies = (f"{row[name]:.4f}" for name in ("accuracy_mean", "vote_accuracy"))
        return [row["network"], row["codec"], _budget(row), *accuracies, f"{row['against_vote']:+z.4f}{error}"]

    rows = [row for curve in curves for row in curve.rows() if row["vote_accuracy"] is not None]
    header = ("network", "codec", "ε", "accuracy", "the vote's", "difference ± error")
    caption = "Each trained codec against the vote of its trunk, in the same network and on the same noise"
    return PageTable(caption, header, [cells(row) for row in rows]) if rows else None


def _budget(row: dict[str, Any]) -> str:
    return "no\u00a0noise" if isinf(row["epsilon"]) else full(row["epsilon"])


def _with_std(mean: float | None, std: float | None) -> str:
    return " ± ".join(f"{value:.4f}" for value in (mean, std) if value is not None)


def asked(spent: Sequence[Spending]) -> PageTable:
    """Promises and figures of each way of asking, side by side; every ε is rounded up."""

    def cells(row: dict[str, Any]) -> list[str]:
        sure = "" if row["sure"] is None else f", sure {row['sure']:g}"
        means = f"{row['mean_slots']:.2f}", shown(row["mean_epsilon"])
        return [
            f"{row['slots']}{sure}",
            shown(row["cap_epsilon"]),
            f"{row['inferences_at_least']}",
            _with_std(row["accuracy_mean"], row["accuracy_std"]),
            *means,
            f"{row['inferences_on_average']:.0f}",
        ]

    budget = f"ε\u00a0=\u00a0{full(spent[0].life.epsilon)}"
    promised = "cap ε", f"{budget} lasts, at least"
    figures = "accuracy ± std", "mean slots, figure", "mean ε, figure", "lasts, figure"
    caption = (
        "Ours, in one slot and in up to sixteen: cap and 'at least' are promised, figures are means, promised to nobody"
    )
    return PageTable(caption, ("slots", *promised, *figures), [cells(each.row()) for each in spent])


def labels(sent: Sent) -> PageTable:
    """The likeliest classes, with the answer and the true class marked; the true class is always among them."""
    rows = sent.top()
    rows += [row for row in sent.top(len(sent.classes)) if row[0] == sent.shape.label and row not in rows]

    def mark(name: str) -> str:
        if name == sent.label:
            return "answer: right" if sent.is_right else "answer: WRONG"
        return "true class" if name == sent.shape.label else ""

    return PageTable(
        f"The server's classes, and how often it names each in {REPEATS:,} further transmissions of the object",
        ("class", "probability", "named", "verdict"),
        [(name, f"{probability:.4f}", f"{frequency:.1%}", mark(name)) for name, probability, frequency in rows],
    )


def devices(sent: Sent) -> PageTable:
    """Table of the devices: whether each transmitted, its channel gain, and its ε."""
    rows: list[tuple[str, ...]] = []
    for k, device in enumerate(sent.devices):
        silence = "silent: channel too weak" if device["took_part"] else "silent: did not take part"
        state = "yes" if device["on_the_air"] else silence
        epsilons = (shown(float(device[name])) for name in ("epsilon", "epsilon_local"))
        rows.append((str(k), f"{sent.step_deg * k:.0f}°", f"{device['gain']:.3f}", state, *epsilons))
    caption = (
        f"The twelve devices; ε is over the draw of participation and outage (δ = {plain(sent.out.report.claim.delta)})"
    )
    return PageTable(caption, ("camera", "angle", "channel gain |h|", "transmitted", "ε device", "ε local"), rows)


def claims(found: CheckedClaim) -> PageTable:
    """Table of the claims of Theorem 1, one for each of its forms; a claim is false where the true δ is larger."""

    def row(epsilon: float, delta: float, true_delta: float | None, reason: str | None) -> tuple[str, ...]:
        if true_delta is None:
            return "", up(delta, 2), "", reason or "undefined"
        ratio = true_delta / delta
        verdict = f"false: the true δ is {ratio:.0f} times larger" if ratio > 1 else "not false here"
        return shown(epsilon), up(delta, 2), up(true_delta, 3), verdict

    header = ("form of its slack t", "ε", "δ claimed", "true δ", "the claim is")
    return PageTable("What Theorem 1 claims", header, [(tail, *row(**claim)) for tail, claim in found.claims.items()])


def truths(found: CheckedClaim) -> PageTable:
    rows = [(_TRUTHS[name], shown(value)) for name, value in found.truths.items()]
    return PageTable("The exact ε of the worst device", ("what changes", "ε"), rows)
