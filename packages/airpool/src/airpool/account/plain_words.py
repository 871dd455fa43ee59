"""Numbers and sentences of a statement: leakage by period, who reads what, and all of it in plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.rounding import full, number, numbers, shown
from airpool.account.assumptions import in_plain_words
from airpool.account.odds import REPORTED, Odds, percent
from airpool.account.report import PrivacyReport
from airpool.network import Claim, Network, NetworkError

# Odds of a yes-or-no guess up to which a secret is called protected, and weakly protected; above MOST it is neither.
PROTECTED, WEAKLY = 0.75, 0.95
MOST = 10.0  # ε


@dataclass(frozen=True, eq=False)
class Period:
    """Leakage of every device over one period, all of whose inferences show the same secret.

    epsilon, local: per device. odds: at the priors `REPORTED`. missing: why nothing is known, and every number the
    largest that there is; "" elsewhere. reasons: by name, of each ε that is infinite.
    static: ε of the worst device if a channel that is drawn anew each time stays as it is; None where that is no
    question. selected: the same if the server chooses its moments by the channel. assumptions: of the period's report.
    """

    name: str
    inferences: int
    epsilon: Floats
    local: Floats
    object: float
    odds: tuple[Odds, ...]
    missing: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    static: float | None = None
    selected: float | None = None
    assumptions: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """ε of the worst device."""
        return float(np.max(self.epsilon))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "inferences": self.inferences,
            "epsilon": numbers(self.epsilon),
            "epsilon_local": numbers(self.local),
            "epsilon_object": number(self.object),
            "epsilon_if_static": None if self.static is None else number(self.static),
            "epsilon_if_selected": None if self.selected is None else number(self.selected),
            "odds": {str(each.prior): each.device.tolist() for each in self.odds},
            "odds_local": {str(each.prior): each.local.tolist() for each in self.odds},
            "odds_object": {str(each.prior): each.object for each in self.odds},
            "missing": self.missing,
            "reasons": dict(self.reasons),
        }


def level(over: Period) -> str:
    """The word for the worst device's protection over a period."""
    return verdict(over.worst, over.odds[0].worst)


def verdict(epsilon: float, odds: float) -> str:
    """The word for a protection. odds: of a yes-or-no guess.

    >>> verdict(2.0, 0.693), verdict(6.0, 0.9), verdict(12.6, 0.94)
    ('protected', 'weakly protected', 'not protected')
    """
    if epsilon > MOST or odds > WEAKLY:
        return "not protected"
    return "protected" if odds <= PROTECTED else "weakly protected"


def period(report: PrivacyReport, name: str, inferences: int) -> Period:
    """One period. More inferences than can be composed, or than live noise serves, have no limit.

    name: "" where only the verdict is asked for, without `static` and `selected`.
    """
    try:
        found = report.over(inferences)
        odds = found.odds
        stays, chosen = (found.epsilon_if_static, found.epsilon_if_selected) if name else (None, None)
    except ValueError as error:
        if inferences == 1:
            raise
        none, sure = np.full_like(report.epsilon, inf), np.ones_like(report.epsilon)
        odds = tuple(Odds(prior, sure, sure, 1.0) for prior in REPORTED)
        return Period(name, inferences, none, none, inf, odds, missing=str(error))
    return Period(
        name,
        inferences,
        found.epsilon,
        found.epsilon_local,
        found.epsilon_object,
        odds,
        reasons=found.reasons,
        static=None if stays is None else float(np.max(stays)),
        selected=None if chosen is None else float(np.max(chosen)),
        assumptions=found.assumptions,
    )


def lasting(report: PrivacyReport, periods: Sequence[Period]) -> tuple[int, int]:
    """Inferences of one secret that keep the worst device protected and weakly protected, up to the longest period's.

    Each is searched for between what is known to keep it and what is known not to, the periods among it.
    """
    words = {each.inferences: level(each) for each in periods}

    def most(*kept: str) -> int:
        bad = min((n for n, word in words.items() if word not in kept), default=None)
        good = max((n for n in words if bad is None or n < bad), default=0)
        while good and bad is not None and bad - good > 1:
            middle = min(2 * good, (good + bad) // 2)
            words[middle] = level(period(report, "", middle))
            good, bad = (middle, bad) if words[middle] in kept else (good, middle)
        return good

    return most("protected"), most("protected", "weakly protected")


def one_colluder_more(report: PrivacyReport) -> tuple[float, float]:
    """ε and yes-or-no odds of the worst device against one device more that tells its noise; never below the server's.

    Own noise alone counts where no other device is left, or where a secure sum refuses so many colluders.
    """
    once = report.odds[0]
    try:
        more = report.again(replace(report.network, colluders=report.network.colluders + 1))
        found = more.worst, more.odds[0].worst
    except NetworkError:
        found = float(np.max(report.epsilon_local)), float(np.max(once.local))
    return max(found[0], report.worst), max(found[1], once.worst)


Bound = Literal["server", "one colluder more", "antennas", "own", "nothing"]
_RARE = 1e-3  # δ above this is no rare exception


def limit(value: float) -> str:
    """ε as text, rounded up; whole numbers from 100 on.

    >>> limit(1.99999), limit(395347.2), limit(float("inf"))
    ('2.000', '395,348', 'no limit')
    """
    return "no limit" if np.isinf(value) else f"{int(shown(value, 0)):,}" if value >= 100 else shown(value)


def fact(period: Period) -> str:
    """The meaning of a period's odds."""
    many = "" if period.inferences == 1 else f" ({period.inferences:,} inferences that show the same)"
    return f"of yes-or-no guesses are right at most after {period.name}{many}, instead of 50 %: {level(period)}"


def in_short(periods: Sequence[Period], lasting: tuple[int, int], *, separate: bool = False) -> list[str]:
    """The verdict: what one device alone sees over each period, why ε has no limit, what several devices see.

    lasting: inferences up to which the worst device is protected, and weakly protected. separate: the server receives
    each device by itself.
    """
    once = periods[0]
    lines = [
        "Guesses at a secret that one device alone sees, such as whether a person stands at its side of the room, by "
        "someone who receives what the server does; the numbers are those of the device that is protected least."
    ]
    even, own = (percent(float(np.max(values))) for values in (once.odds[0].device, once.odds[0].local))
    if own != even:
        lines[0] += (
            f" Counting only inferences in which the device sends, up to {own} are right after one."
            if separate
            else f" Someone who gets one device's signal by itself is right up to {own} after one inference."
        )
    for each in periods:
        if np.isinf(each.worst):
            why = in_plain_words(each.reasons.get("epsilon", ""))
            reason = f"it is not accounted for ({each.missing})" if each.missing else why
            lines.append(f"Over {each.name} ε has no limit: not protected, because {reason}.")
            break
        if each.worst > MOST and each.odds[0].worst <= WEAKLY:
            much = f"Over {each.name} ε is {limit(each.worst)}"
            lines.append(f"{much}: not called protected, because in rare cases much more can be learnt.")
    if lasting[1]:
        protected, weakly = (f"{each:,} inference{'s' * (each != 1)}" for each in lasting)
        lines.append(
            f"It is protected as long as it shows in at most {protected}, and weakly protected up to {weakly}."
            if 0 < lasting[0] < lasting[1]
            else f"It is protected as long as it shows in at most {protected}."
            if lasting[0]
            else f"It is weakly protected as long as it shows in at most {weakly}."
        )
    lines.append("What several devices see, above all what the object is, is not protected: to name it is the purpose.")
    return lines


def leaves(network: Network) -> list[str]:
    """Everything that leaves a device, for the network's access, scheme and slots."""
    access, scheme = network.channel.rules, network.scheme
    slots = network.slots.count
    times = f"up to {slots} times, each time with fresh noise" if slots > 1 else "once"
    silent = [k for k, std in enumerate(network.devices.column("noise_std")) if not std]
    noisy = "with random noise added on the device before anything is sent"
    if len(silent) == network.devices.count:
        noisy = "without any noise"
    elif silent:
        noisy += f" (but not by {_listed(silent)})"
    lines = [
        f"No picture or recording. For each inference a device sends {network.dimension} numbers, {times}: a summary "
        f"of what it sees, limited in size, {noisy}.",
    ]
    if not access.radio:
        lines.append(
            "There is no radio: the numbers go over an ordinary network, encrypted and masked, so that the server can "
            f"open only the sum of {network.survivors} devices or more."
        )
    elif access.separate:
        lines.append("Each device sends by itself, over radio, and the server receives every device by itself.")
    else:
        lines.append(
            "All devices send over radio at the same moment. The signals add up in the air, and the server receives "
            "the sum. Radio can be received by anybody near enough."
        )
    if scheme.needs_ranking_server:
        lines.append(
            "Before that, each device sends a noisy score of how sure it is to a ranking server, which chooses."
        )
    elif not scheme.independent:
        lines.append("Whether a device sends depends on how sure it is of what it sees, by a score with noise.")
    if any(p < 1 for p in network.devices.column("participation")) and scheme.independent:
        lines.append("Whether a device takes part is drawn by lot, and does not depend on what it sees.")
    return lines


@dataclass(frozen=True)
class Reader:
    """Someone who receives something of one inference, and what they know besides (docs/howto/security.md).

    bound: the number that holds for them: the server's, that of one colluder more, of the eavesdropper's antennas, of
    one device's own noise, or nothing. knows_answer: they know the answer, which is made of what the server receives.
    own_noise: they have a device, and know its noise. hears_slots: they know how many slots it took, of several.
    """

    name: str
    receives: str
    bound: Bound
    knows_answer: bool
    own_noise: bool
    hears_slots: bool

    @property
    def knows(self) -> str:
        """Knowledge besides the signals, in words."""
        told = {"the answer": self.knows_answer, "own noise": self.own_noise, "number of slots": self.hears_slots}
        return ", ".join(name for name, known in told.items() if known) or "nothing"


def readers(network: Network, claim: Claim) -> list[Reader]:
    """Everyone who receives something, and the bound of each.

    Own noise covers whatever else is known: all that anyone receives of a device is made of its noisy signal.
    """
    access, antennas, count = network.channel.rules, network.adversary.antennas, network.devices.count
    several, scored = network.slots.count > 1, not network.scheme.independent
    rows: list[Reader] = []

    def row(name: str, receives: str, bound: Bound, *, answer: bool = True, noise: bool = False) -> None:
        rows.append(Reader(name, receives, bound, answer, noise, several))

    if not access.radio:
        # Who sends, and how many slots there are, can be seen from outside and may depend on what was seen.
        shows = scored or several or not claim.neighbours.keeps_noise
        row("the server", f"the sum, of {network.survivors} or more of {count} devices", "server")
        row("the server, with more devices than assumed on its side", "a device's own noisy numbers", "own", noise=True)
        row(
            "another device, by itself",
            "masks and keys, no numbers; no answer",
            "one colluder more" if shows else "nothing",
            answer=False,
            noise=True,
        )
        row("another device that is told the answer", "the same, and the answer", "one colluder more", noise=True)
        row(
            "somebody on the network",
            "encrypted messages: when, from whom, how long; no answer",
            "server" if shows else "nothing",
            answer=False,
        )
    elif access.separate:
        row("the server", "every device's noisy signal by itself", "server")
        row("somebody with a radio receiver", "the same, counted only where the device sends", "own")
    else:
        row("the server", "the sum of all signals, noise included", "server")
        row("somebody with a receiver near one device", "perhaps this device's signal by itself", "own")
        if antennas:
            where = f"somebody elsewhere with {antennas} antenna{'s' * (antennas > 1)}"
            if claim.knows_answer:
                row(where, "a mixture of all signals, and perhaps the answer", "antennas")
            else:
                row(f"{where}, never told the answer", "a mixture of all signals", "antennas", answer=False)
    if access.radio:
        row("another device, or whoever controls one", "what a radio receiver at its place does", "own", noise=True)
    if network.scheme.needs_ranking_server:
        row("the ranking server", "all noisy scores; counted in ε", "server")
    row("whoever reads the answer, without a device", "what is made from what the server receives", "server")
    return rows


def settings(network: Network, group: Sequence[int]) -> str:
    """The caption of a block: which devices, and their settings."""
    d, k = network.devices, group[0]
    weight, clip, noise, p = (d.column(name)[k] for name in ("weight", "clip_norm", "noise_std", "participation"))
    who = f"Device{'s' * (len(group) > 1)} {_listed(group)}"
    if len(group) == d.count > 1:
        who = f"All {d.count} devices alike"
    takes = f", takes part {percent(p)} of the time" if network.scheme.independent else ""
    return f"{who}: weight {weight:.4g}, size limit {clip:g}, noise {noise:.4g} on each number{takes}."


def _listed(group: Sequence[int]) -> str:
    """Indices in words, runs shortened.

    >>> _listed([0, 1, 2, 5, 7, 8])
    '0 to 2, 5, 7, 8'
    """
    runs: list[list[int]] = []
    for k in group:
        if runs and runs[-1][-1] == k - 1:
            runs[-1].append(k)
        else:
            runs.append([k])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def reading(periods: Sequence[Period], *, separate: bool = False) -> str:
    """One row of the tables, read aloud. separate: the server receives each device by itself."""
    one = periods[0]
    own = (
        "if only inferences in which the device sends are counted"
        if separate
        else "if they receive that device alone, or if all other devices work with them"
    )
    even, rare = (each.worst for each in one.odds)
    return (
        "How to read it: someone who would have guessed right 50 % of the time is right at most "
        f"{percent(even)} of the time after one inference; of forty equally likely answers, {percent(rare)} instead of "
        f"2.5 %. “Own signal”: {own}. A secret that shows in one inference only has the first row, however many others "
        "follow."
    )


def unmoved(periods: Sequence[Period]) -> list[str]:
    """ε if a channel that is drawn anew stays as it is, in words; nothing where it is no more than the tables say."""
    more = [(each.name, each.static, each.worst) for each in periods if each.static is not None]
    told = [f"{limit(stays)} over {name}" for name, stays, anew in more if stays > anew and limit(stays) != limit(anew)]
    if not told:
        return []
    return [
        "The rows of several inferences count on radio channels that change from one to the next. If nothing moves and "
        f"they stay as they are, ε of the worst device is up to {', '.join(told)}."
    ]


def selected(report: PrivacyReport, periods: Sequence[Period]) -> list[str]:
    """ε if the server chooses its moments by the channel, in words; nothing where ε does not depend on that."""
    told = [f"{limit(each.selected)} over {each.name}" for each in periods if each.selected is not None]
    if not told:
        return []
    many = report.outages_if_selected
    short = "to arrive in full" if report.network.channel.power_rule == "backoff" else "to be heard"
    bad = f"until {many} other device{'s are' if many != 1 else ' is'} too weak {short}"
    if not many:
        bad = "for moments as bad as one in a thousand" if many is None else "until the device is heard"
    return [
        "The rows count on a server that does not choose its moments by the radio channels. If it waits each time "
        f"{bad}, ε of the worst device is up to {', '.join(told)}."
    ]


def unprotected(network: Network, periods: Sequence[Period]) -> list[str]:
    """Everything that ε does not cover, as sentences."""
    access = network.channel.rules
    each = [f"{limit(one.object)} over {one.name} (50 % becomes {percent(one.odds[0].object)})" for one in periods]
    once = periods[0].reasons.get("epsilon_object")
    why = "" if once is None else f" It has no limit: {in_plain_words(once)}."
    lines = [f"What several devices see, such as what the object is. Its ε: {', '.join(each)}.{why}"]
    hidden = network.cover_noise and network.scheme.independent
    took_part = (
        "In the sum, noise hides who of the devices took part; a receiver near a device may see it."
        if hidden and access.radio
        else ("Which devices are there and send can be seen by anybody who receives.")
    )
    where = "where a transmitter stands, " if access.radio else "between which addresses, "
    lines += [
        f"That there is such a network, when it is used, {where}and how often. {took_part}",
        "The answer itself, and what its owner does with it.",
        "Anything that shows in many inferences: they add up, as the rows for a day and a year say.",
        "The device itself: its pictures and its noise, to whoever opens it, breaks into it or measures its power, "
        "heat or timing.",
    ]
    if network.colluders:
        lines.append(
            f"Devices in the hands of the adversary, up to {network.colluders} of them: they show what they see."
        )
    if access.superposes:
        lines.append("A receiver close to one device: then the numbers under “own signal” hold.")
    return lines


def duties(report: PrivacyReport, source: str) -> list[str]:
    """Everything an operator must do for the numbers to hold."""
    network = report.network
    access, count, least = network.channel.rules, network.devices.count, network.survivors
    lines = [
        "Run this file and no other (checksum below). Devices compare it with what the server asks for, and refuse "
        "what differs.",
        "Noise: let every device draw its own, from the operating system (airpool device); never with --simulate.",
        "Rate: give each device a ledger with a budget (--ledger, --budget-epsilon, or --day-epsilon for any 24 "
        "hours). It then falls silent instead of leaking more. Keep ledger and head; never restore an old copy.",
        "Keys: one set for each device (airpool keys), kept on it, revoked when a device is lost.",
    ]
    if not access.separate:
        lines += [
            f"Quorum: release no sum of fewer than {least} of the {count} devices"
            + (f"; ε already does without {network.dropouts}." if network.dropouts else ": ε counts on all of them."),
            (
                f"Honesty: at most {network.colluders} other device{'s' * (network.colluders > 1)} may work with the "
                "server or tell others their noise."
                if network.colluders
                else "Honesty: no device may work with the server or tell others its noise: all others would lose."
            ),
        ]
    if not access.radio:
        lines.append("Identities: the server's owner must not issue those of the devices.")
    elif access.superposes:
        lines.append(
            "Clocks and channels: signals must arrive at the same moment and aligned; errors no larger than the file "
            "says. Where they do not, “own signal” holds."
        )
        lines.append(
            "If a program stands in for the radio (airpool air), it sees every signal: the server's owner must not run "
            "it."
        )
    if report.epsilon_if_selected is not None:
        lines.append(
            "Moments: ask by a clock or an event, never by a program that knows which radio channels are good just now."
        )
    if network.cover_noise and access.radio:
        lines.append("Cover noise: devices that are not chosen must still send noise.")
    lines.append(f"Check: airpool audit --network {source or 'FILE'} attacks the code that transmits.")
    return lines


def noise(report: PrivacyReport) -> str:
    """Whether ε is of noise as it is drawn."""
    if report.claim.live:
        return "Numbers are for noise as running devices draw it."
    return (
        "Numbers are for ideal noise. Running devices draw theirs on a grid, which costs a little where ε is small, "
        "and leaves a large ε without limit: --live says how much."
    )


def glossary(network: Network, claim: Claim) -> list[str]:
    """The three numbers and the other words of the page."""
    large = ", which is so large that even an ε of 0 promises little: go by the odds" if claim.delta > _RARE else ""
    noise, own = (
        ("its own noise", "the same if only inferences in which the device sends are counted.")
        if network.channel.rules.separate
        else (
            "the noise of all devices",
            "the same if only the device's own noise counts: someone receives it alone, or nobody else can be trusted.",
        )
    )
    return [
        f"ε (epsilon), of one device: how well {noise} hides what one device sees. 0: nothing can be "
        "learnt. Up to about 1: little. Above 10: next to no protection. It grows with every inference.",
        f"ε, own signal: {own}",
        "ε, object: for what all devices see together. It is large by design.",
        f"δ = {full(claim.delta)}: ε may fail with about this probability{large}. “50 % becomes” needs no such "
        "exception: it is the most that any method of guessing reaches, whatever it knows beforehand.",
        f"Protected, on this page: a yes-or-no guess is right at most {percent(PROTECTED)} of the time; weakly: at "
        f"most {percent(WEAKLY)}; not protected: above, or ε is above {MOST:g}.",
        f"Compared are two cases: {claim.neighbours.words}",
        "Inference: one question to the network, with one answer"
        + (f", in up to {network.slots.count} slots. ε counts all slots." if network.slots.count > 1 else "."),
    ]


def paper(report: PrivacyReport) -> str:
    """The formula of the paper, and what makes ours another number."""
    claim, worst, network = report.paper, report.worst, report.network
    one = "inference" if network.slots.count == 1 else "slot"
    what = f"For one {one} the paper behind this method (Seif, Nie, Goldsmith, Poor; arXiv 2410.19917, Theorem 1)"
    if claim.reason:
        return f"{what} has no number here: {claim.reason}. Ours is proven."
    claimed, least = float(np.max(claim.epsilon)), report.epsilon_at_least
    told, ours = (f"ε = {limit(each)}" for each in (claimed, worst))
    sharp = least is not None and limit(float(least[np.argmax(report.epsilon)])) == limit(worst)
    by = f"{'the exact value' if sharp else 'a proven bound'}, {ours}"
    if network.slots.count > 1:
        by = f"{by}, of all slots"
    if report.claim.neighbours.keeps_noise:
        return (
            f"{what} says {told}. That is about another question, whether a device is there at all, and does not "
            f"always hold; this page goes by {by}, for the two cases above."
        )
    if told == ours:
        return f"{what} says {told}, as this page does."
    differs = "too little" if claimed < worst else "more than is needed"
    return f"{what} says {told}{f', which is {differs}' if one == 'inference' else ''}; this page goes by {by}."
