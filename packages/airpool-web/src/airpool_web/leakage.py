"""The part "leakage" of an answer: every ε beside the paper's claim, odds in words, what is protected and what not."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from airpool._support.rounding import full, number, shown, up
from airpool.account.assumptions import in_plain_words
from airpool.account.guarantee import PrivacyReport, guarantee
from airpool.account.odds import Odds, in_words, percent
from airpool.account.plain_words import limit, verdict
from airpool.network import Adversary, Claim, Network

report_of = lru_cache(maxsize=256)(guarantee)


def leakage(network: Network, claim: Claim) -> dict[str, Any]:
    """The part, from the report of `guarantee`. An infinite number is the text "inf"."""
    report = report_of(network, claim)
    elsewhere = report.epsilon_eavesdropper
    return {
        "part": "leakage",
        "delta": claim.delta,
        "inferences": claim.inferences,
        "slots": network.slots.count,
        "neighbours": str(claim.neighbours),
        "epsilon": number(report.worst),
        "epsilon_local": number(_worst(report.epsilon_local)),
        "epsilon_object": number(report.epsilon_object),
        "epsilon_eavesdropper": None if elsewhere is None else number(_worst(elsewhere)),
        "shown": _shown(report),
        "infinite": {name: in_plain_words(why) for name, why in report.reasons.items()},
        "paper": {"epsilon": number(_worst(report.paper.epsilon)), "sentence": _paper(report)},
        "devices": _devices(report),
        "odds": _odds(report.odds),
        "protects": _protects(report),
        "does_not": _does_not(report),
        "assumptions": list(report.assumptions),
        "pending": [],
    }


def first_leakage(network: Network, claim: Claim) -> dict[str, Any] | None:
    """The same without the eavesdropper, whose ε takes a second; None where there is none."""
    if not network.adversary.antennas:
        return None
    return leakage(replace(network, adversary=Adversary()), claim) | {"pending": ["epsilon_eavesdropper"]}


def _worst(values: Any) -> float:
    return float(np.max(values))


def _shown(report: PrivacyReport) -> dict[str, str]:
    """The worst ε of each kind as text, rounded up."""
    found = {"epsilon": report.worst, "epsilon_local": _worst(report.epsilon_local)}
    found |= {"epsilon_object": report.epsilon_object, "paper": _worst(report.paper.epsilon)}
    if report.epsilon_eavesdropper is not None:
        found["epsilon_eavesdropper"] = _worst(report.epsilon_eavesdropper)
    return {name: shown(value) for name, value in found.items()}


def _paper(report: PrivacyReport) -> str:
    paper = report.paper
    if paper.reason:
        return f"The paper's Theorem 1 claims nothing here: {paper.reason}."
    beyond = "" if report.network.scheme.independent else " It says nothing of scores."
    return (
        f"The paper's Theorem 1 claims ε = {shown(_worst(paper.epsilon))} at δ = {up(_worst(paper.delta), 3)}, for one "
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
    claim, even, elsewhere = report.claim, report.odds[0].worst, report.epsilon_eavesdropper
    if np.isinf(report.worst):
        why = in_plain_words(report.reasons.get("epsilon", ""))
        return f"Nothing is promised for what one device sees: {why}."
    word = verdict(report.worst, even).capitalize()
    over = "" if claim.inferences == 1 else f" in all of {claim.inferences:,} inferences together"
    heard = ""
    if elsewhere is not None and (guessed := report.odds[0].eavesdropper) is not None:
        heard = f" An eavesdropper elsewhere (antennas: {report.network.adversary.antennas}): at most "
        heard += f"{percent(_worst(guessed))} (ε = {limit(_worst(elsewhere))})."
    return (
        f"{word} is what one device alone sees: whoever receives what the server does guesses a yes-or-no question "
        f"about it right at most {percent(even)} of the time{over}, instead of 50 % (ε = {limit(report.worst)}, "
        f"δ = {full(claim.delta)}).{heard}"
    )


def _does_not(report: PrivacyReport) -> str:
    """One sentence of what it does not hide."""
    network, even = report.network, report.odds[0]
    near = percent(_worst(even.local))
    parts = [
        f"what several devices see, the class above all, which the answer is meant to tell ({percent(even.object)})"
    ]
    if unprotected := network.channel.rules.unprotected:
        parts.append(f"{unprotected} ({near})")
    parts.append("that there is such a network, when it is used, and the answer itself")
    return f"Not protected: {'; '.join(parts)}."
