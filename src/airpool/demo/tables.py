"""The demo's numbers as text, the same on the terminal and on the page. An ε is rounded up, never down."""

from airpool.account.report import shown
from airpool.demo.claim import Claim, Row
from airpool.demo.comparison import Curve, Name, Point
from airpool.demo.one_object import REPEATS, STEP_DEG, Sent
from airpool.evaluate import Evaluation
from airpool.page import Table

NAMES: dict[Name, str] = {"paper": "The paper's network", "ours": "Ours"}
WHAT: dict[Name, str] = {
    "paper": "q = 16 (r = 784), p = 0.9, ideal channel; the noise that Theorem 1 claims ε for",
    "ours": "r = 40, p = 1, Rician fading and receiver noise; the least noise whose exact ε is at most ε",
}

_TRUTHS = {
    "zero-out": "zero-out: its feature becomes zero",
    "replace": "replace: its feature becomes another one",
    "remove": "remove: the device vanishes, noise and all (the paper's definition)",
    "zero-out, cover noise": "zero-out, silent devices still send noise",
    "replace, cover noise": "replace, silent devices still send noise",
    "remove, cover noise": "remove, silent devices still send noise",
    "local": "zero-out, nobody else's noise trusted (local)",
    "object": "all twelve features at once (the object itself)",
}


def plain(value: float) -> str:
    """A small number as people write it.

    >>> plain(1e-5), plain(0.01)
    ('1e-5', '0.01')
    """
    return f"{value:g}".replace("e-0", "e-")


def accuracy(found: Evaluation) -> str:
    return f"{found.accuracy_mean:.4f}" + ("" if found.accuracy_std is None else f" ± {found.accuracy_std:.4f}")


def interval(found: Evaluation) -> str:
    low, high = found.accuracy_ci
    return f"{low:.3f} – {high:.3f}"


def compared(curve: Curve) -> Table:
    """One curve: what its noise was scaled to comes first."""
    by_claim = curve.name == "paper"
    first, second = ("ε claimed", "ε device") if by_claim else ("ε device", "ε claimed")

    def row(point: Point) -> list[str]:
        other = point.device if by_claim else point.claimed
        epsilons = [shown(value) for value in (other, point.removal, point.local, point.object)]
        told = "" if point.printed is None else f"{point.printed.mean:.4f} ± {point.printed.std:.4f}"
        return [f"{point.epsilon:g}", *epsilons, accuracy(point.evaluation), interval(point.evaluation), told]

    quiet = ["no\u00a0noise", *4 * ["inf"], accuracy(curve.without_noise), interval(curve.without_noise), ""]
    return Table(
        f"{NAMES[curve.name]}: {WHAT[curve.name]}",
        (first, second, "ε remove", "ε local", "ε object", "accuracy ± std", "95 % interval", "paper printed"),
        [*(row(point) for point in curve.points), quiet],
    )


def labels(sent: Sent) -> Table:
    return Table(
        f"What the server makes of it, and how often it says so when the object is sent {REPEATS:,} times more",
        ("class", "probability", "named"),
        [(name, f"{probability:.4f}", f"{frequency:.1%}") for name, probability, frequency in sent.top()],
    )


def devices(sent: Sent) -> Table:
    """Who took part, how well each was connected, and what each leaks."""
    report = sent.out.report
    return Table(
        f"The twelve devices; ε is promised before anybody knows who will be silent (δ = {plain(sent.network.delta)})",
        ("camera", "angle", "channel gain |h|", "on the air", "ε device", "ε local"),
        [
            (
                str(k),
                f"{STEP_DEG * k:.0f}°",
                f"{sent.gain[k]:.3f}",
                "yes" if sent.on_the_air[k] else _silent(sent.took_part[k]),
                shown(report.epsilon[k]),
                shown(report.epsilon_local[k]),
            )
            for k in range(len(sent.views))
        ],
    )


def _silent(took_part: bool) -> str:
    return "silent: channel too weak" if took_part else "silent: did not take part"


def claims(found: Claim) -> Table:
    """What Theorem 1 claims in each of its forms; a claim is false where the true δ is larger."""

    def row(tail: str, claimed: Row) -> tuple[str, ...]:
        if claimed.true_delta is None:
            return tail, "", f"{claimed.delta:.1e}", "", claimed.reason or "undefined"
        larger = claimed.true_delta / claimed.delta
        verdict = f"false: the true δ is {larger:.0f} times larger" if larger > 1 else "not false here"
        return tail, shown(claimed.epsilon), f"{claimed.delta:.1e}", f"{claimed.true_delta:.2e}", verdict

    header = ("form of its slack t", "ε", "δ claimed", "true δ", "the claim is")
    return Table("What Theorem 1 claims", header, [row(tail, claimed) for tail, claimed in found.claims.items()])


def truths(found: Claim) -> Table:
    return Table(
        "What is true, for the worst device",
        ("what changes", "ε"),
        [(_TRUTHS[name], shown(value)) for name, value in found.truths.items()],
    )
