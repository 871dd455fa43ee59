"""The part "leakage" of an answer: every ε beside the paper's claim, odds in words, what is protected and what not."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from airpool._support.rounding import full, shown, up
from airpool.account.guarantee import PrivacyReport, guarantee
from airpool.account.guesses import Odds, in_words, percent
from airpool.account.periods import verdict
from airpool.account.plain_words import limit
from airpool.account.reasons import in_plain_words
from airpool.account.words import number
from airpool.network import Adversary, Network, scheme_rules

report_of = lru_cache(maxsize=256)(guarantee)


def leakage(network: Network) -> dict[str, Any]:
    """The part, from the report of `guarantee`. An infinite number is the text "inf"."""
    report = report_of(network)
    elsewhere = report.epsilon_eavesdropper
    return {
        "part": "leakage",
        "delta": network.delta,
        "inferences": network.inferences,
        "slots": network.slots.count,
        "neighbours": str(network.neighbours),
        "epsilon": number(report.worst),
        "epsilon_local": number(_worst(report.epsilon_local)),
        "epsilon_object": number(report.epsilon_object),
        "epsilon_eavesdropper": None if elsewhere is None else number(_worst(elsewhere)),
        "shown": _shown(report),
        "infinite": {name: in_plain_words(why) for name, why in report.reasons.items()},
        "paper": {"epsilon": number(_worst(report.paper.epsilon)), "sentence": _claim(report)},
        "devices": _devices(report),
        "odds": _odds(report.odds),
        "protects": _protects(report),
        "does_not": _does_not(report),
        "assumptions": list(report.assumptions),
        "pending": [],
    }


def first_leakage(network: Network) -> dict[str, Any] | None:
    """The same without the eavesdropper, whose ε takes a second; None where there is none."""
    if not network.adversary.antennas:
        return None
    return leakage(replace(network, adversary=Adversary())) | {"pending": ["epsilon_eavesdropper"]}


def _worst(values: Any) -> float:
    return float(np.max(values))


def _shown(report: PrivacyReport) -> dict[str, str]:
    """The worst ε of each kind as text, rounded up."""
    found = {"epsilon": report.worst, "epsilon_local": _worst(report.epsilon_local)}
    found |= {"epsilon_object": report.epsilon_object, "paper": _worst(report.paper.epsilon)}
    if report.epsilon_eavesdropper is not None:
        found["epsilon_eavesdropper"] = _worst(report.epsilon_eavesdropper)
    return {name: shown(value) for name, value in found.items()}


def _claim(report: PrivacyReport) -> str:
    claim, network = report.paper, report.network
    if claim.reason:
        return f"The paper's Theorem 1 claims nothing here: {claim.reason}."
    beyond = " It says nothing of scores." if scheme_rules(network.scheme).scored else ""
    return (
        f"The paper's Theorem 1 claims ε = {shown(_worst(claim.epsilon))} at δ = {up(_worst(claim.delta), 3)}, for one "
        f"inference and one slot; it is no valid bound.{beyond}"
    )


def _devices(report: PrivacyReport) -> list[dict[str, Any]]:
    d, elsewhere = report.network.devices, report.epsilon_eavesdropper
    return [
        {
            "device": k,
            "epsilon": number(report.epsilon[k]),
            "epsilon_local": number(report.epsilon_local[k]),
            "epsilon_paper": number(report.paper.epsilon[k]),
            "epsilon_eavesdropper": None if elsewhere is None else number(elsewhere[k]),
            "noise_std": d.column("noise_std")[k],
            "participation": d.column("participation")[k],
            "weight": d.column("weight")[k],
            "clip_norm": d.column("clip_norm")[k],
        }
        for k in range(d.count)
    ]


def _odds(odds: Sequence[Odds]) -> dict[str, Any]:
    """Sentences, and the worst device's odds at both priors, as numbers and in per cent."""
    even, rare = (
        {
            "prior": each.prior,
            "device": each.worst,
            "local": _worst(each.local),
            "object": each.object,
            "eavesdropper": None if each.eavesdropper is None else _worst(each.eavesdropper),
        }
        for each in odds
    )
    words = {
        which: {name: percent(value) for name, value in each.items() if value is not None}
        for which, each in (("even", even), ("rare", rare))
    }
    return {"sentences": in_words(odds), "even": even, "rare": rare, "words": words}


def _protects(report: PrivacyReport) -> str:
    """One sentence of what this setting hides."""
    network, even, elsewhere = report.network, report.odds[0].worst, report.epsilon_eavesdropper
    if np.isinf(report.worst):
        why = in_plain_words(report.reasons.get("epsilon", ""))
        return f"Nothing is promised for what one device sees: {why}."
    word = verdict(report.worst, even).capitalize()
    over = "" if network.inferences == 1 else f" in all of {network.inferences:,} inferences together"
    heard = ""
    if elsewhere is not None and (guessed := report.odds[0].eavesdropper) is not None:
        heard = f" An eavesdropper elsewhere (antennas: {network.adversary.antennas}): at most "
        heard += f"{percent(_worst(guessed))} (ε = {limit(_worst(elsewhere))})."
    return (
        f"{word} is what one device alone sees: whoever receives what the server does guesses a yes-or-no question "
        f"about it right at most {percent(even)} of the time{over}, instead of 50 % (ε = {limit(report.worst)}, "
        f"δ = {full(network.delta)}).{heard}"
    )


def _does_not(report: PrivacyReport) -> str:
    """One sentence of what it does not hide."""
    network, even = report.network, report.odds[0]
    near = percent(_worst(even.local))
    parts = [
        f"what several devices see, the class above all, which the answer is meant to tell ({percent(even.object)})"
    ]
    if network.channel.rules.superposes:
        parts.append(f"a device whose signal somebody receives by itself ({near})")
    elif not network.channel.rules.radio:
        parts.append(f"a device whose group is mostly in the adversary's hands ({near})")
    parts.append("that there is such a network, when it is used, and the answer itself")
    return f"Not protected: {'; '.join(parts)}."
