"""Attributes of objects and views, from what a network sends of a shipped model's latents.

Attackers are trained on validation objects and judged on test objects, which nothing was trained on. The best of
them is chosen on a third of the validation objects, and trained again on all of them. The secrets, of which a question
has one row for each trial:

side     the side of the object that the attacked camera sees: drawn at random, all other cameras stay where they are.
         No other view tells anything about it, so κ is exactly one over the number of sides.
class    the class of the object, as the test objects have it.
rare     whether the class is a rare one; objects are drawn so that both answers are equally likely.
share    the class, of an adversary that knows all other views: what the attacked device adds to them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np

from airpool._support.arrays import Floats, Integers
from airpool.models.cameras import cameras
from airpool.models.pretrained import load
from airpool.network import Claim, Network
from airpool.protocol.device import clipped
from airpool_lab.attacks import attackers
from airpool_lab.attacks.attack import AttackSetting, result_of
from airpool_lab.attacks.hearing import Heard, hear, quiet
from airpool_lab.attacks.positions import Position, Scope
from airpool_lab.attacks.result import AttackResult

Secret = Literal["side", "class", "rare", "share"]
SECRETS: tuple[Secret, ...] = ("side", "class", "rare", "share")

_RARE = 0.25  # of the objects at most belong to the rare classes together


@dataclass(frozen=True, eq=False)
class Views:
    """Latents (N, V, r) of N objects on V sides, and their classes (N,)."""

    latents: Floats
    labels: Integers

    def some(self, rows: Integers) -> "Views":
        return Views(self.latents[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class Question:
    """Trials of one secret: latents (n, K, r), its value in each (n,), and the prior of its values (C,).

    known: what the adversary knows beside the signal, (n, d). candidates: the latent of the attacked device for each
    value, (n, C, r), where the adversary knows the object. others_known: it takes the other views off the sum.
    """

    secret: Secret
    of: Scope
    latents: Floats
    values: Integers
    prior: Floats
    known: Floats | None = None
    candidates: Floats | None = None
    others_known: bool = False


def secrets_of(place: Position) -> tuple[Secret, ...]:
    """The secrets that are asked for at a position: those of the object where something is claimed of them."""
    if place.name == "antennas":
        return ("side",)
    of_object: tuple[Secret, ...] = () if place.object is None else ("class", "rare")
    return ("side", *of_object, *(() if place.name == "link" else ("share",)))


def rare_classes(labels: Integers) -> Integers:
    """The classes of the fewest objects, as many as have at most a quarter of all objects together."""
    counts = np.bincount(labels)
    order = np.argsort(counts, kind="stable")
    return order[np.cumsum(counts[order]) <= _RARE * len(labels)]


def question(
    secret: Secret,
    views: Views,
    network: Network,
    *,
    device: int,
    copies: int,
    judged: Integers,
    rng: np.random.Generator,
) -> Question:
    """`copies` trials of each object. judged: classes of the objects that are judged, which decide prior and rarity."""
    sides, count = views.latents.shape[1], network.devices.count
    seen = np.array(cameras(count, sides))
    number = int(judged.max()) + 1
    rows = np.tile(np.arange(len(views.labels)), copies)
    values, prior = views.labels[rows], np.bincount(judged) / len(judged)
    if secret == "rare":
        few = rare_classes(judged)
        if not 0 < len(few) < number:
            raise ValueError(f"no {_RARE:.0%} of {len(judged)} objects are of rare classes: leave this secret out")
        rare = np.isin(views.labels, few)
        p = np.where(rare, 0.5 / max(rare.sum(), 1), 0.5 / max((~rare).sum(), 1))
        rows = rng.choice(len(rare), size=len(rows), p=p / p.sum())
        values, prior = rare[rows].astype(np.int64), np.array([0.5, 0.5])
    latents = views.latents[rows][:, seen]
    if secret == "side":
        values, prior = rng.integers(sides, size=len(rows)), np.full(sides, 1 / sides)
        latents[:, device] = views.latents[rows, values]
        return Question(secret, "view", latents, values, prior, candidates=views.latents[rows], others_known=count > 1)
    if secret == "share":
        others = [k for k in range(count) if k != device]
        weight = np.array(network.devices.column("weight"))[others, None]
        z = clipped(latents, network.devices.column("clip_norm"))[:, others]
        return Question(secret, "view", latents, values, prior, known=(weight * z).sum(1), others_known=True)
    return Question(secret, "object", latents, values, prior)


_COPIES, _MOST_NUMBERS = 10, 2**25  # noisy signals of each training object, and numbers of all of them
_DEAF = " without the signal"  # an attacker that knows all other views, and ignores the signal
_INFORMED = "knowing the object"  # an attacker that knows all views of the object, and not which one is sent
Answers = dict[str, Integers]  # by attacker


class Attribute:
    """Options: the model and its codec; one secret of `SECRETS`, or all that the position has.

    knows: of the side, an adversary that knows the object and all its views, or nothing but the signal.
    """

    about = "Guess the side of the object, its class, or whether it is a rare one."
    options: ClassVar = {"model": "modelnet40", "codec": "vote", "secret": "all", "knows": "object"}

    def wanted(self, options: Mapping[str, Any]) -> dict[str, int]:
        """Devices and dimension of the model."""
        return load(options["model"]).wanted(options["codec"])

    def run(self, setting: AttackSetting, /) -> Sequence[AttackResult]:
        asked, options = setting.options["secret"], setting.options
        known = secrets_of(setting.position)
        if asked != "all" and asked not in known:
            raise ValueError(
                f"secret={asked!r} must be all or one of {', '.join(known)} at position {setting.position.name!r}"
            )
        if options["knows"] not in ("object", "nothing"):
            raise ValueError(f"knows={options['knows']!r} must be object or nothing")
        model = load(options["model"])
        held = [model.held_out(split, codec=options["codec"]) for split in ("validation", "test")]
        learn, judge = (Views(each.latents.numpy(), each.labels.numpy()) for each in held)
        chosen = known if asked == "all" else (cast("Secret", asked),)
        results = []
        with setting.progress("attacking", len(chosen)) as advance:
            for secret in chosen:
                results.append(attacked(setting, secret, learn, judge))
                advance(1)
        return results


ATTRIBUTE = Attribute()


def attacked(setting: AttackSetting, secret: Secret, learn: Views, judge: Views) -> AttackResult:
    """The best attacker's guesses of one secret of the objects that are judged, after learning from the others."""
    rng, place, k = np.random.default_rng(setting.seed), setting.position, setting.device
    copies = max(1, min(_COPIES, _MOST_NUMBERS // learn.latents.size))
    objects = rng.permutation(len(learn.labels))
    fit, choose = objects[len(objects) // 3 :], objects[: len(objects) // 3]

    def asked(views: Views, times: int) -> Question:
        found = question(secret, views, setting.network, device=k, copies=times, judged=judge.labels, rng=rng)
        if secret == "side" and setting.options.get("knows") == "nothing":
            return replace(found, candidates=None, others_known=False)
        return found

    trial = asked(learn.some(choose), max(1, copies // 4))
    if trial.candidates is not None:
        best = _INFORMED  # no other attacker knows more
    else:
        found = _guesses(setting, asked(learn.some(fit), copies), trial, rng)
        weight = (trial.prior / np.maximum(np.bincount(trial.values, minlength=len(trial.prior)), 1))[trial.values]
        best = max(found, key=lambda name: float(weight @ (found[name] == trial.values)))
    final = asked(judge, -(-setting.trials // len(judge.labels)))
    lesson = asked(learn, copies)
    answers = _guesses(setting, lesson, final, rng)
    prior, numbers = float(final.prior.max()), {}
    rates = {name: float(np.mean(each == final.values)) for name, each in answers.items()}
    if secret == "share":  # κ of an adversary that knows all other views: an estimate, by the better of our attackers
        numbers = {"best guess without other views": prior}
        prior = max(rate for name, rate in rates.items() if name.endswith(_DEAF))
    elif final.of == "object" and place.object == "object":
        without = _guesses(setting, _silenced(lesson, k), _silenced(final, k), rng, only=best)
        numbers["without this device's share"] = float(np.mean(without[best] == final.values))
    return result_of(
        setting,
        "attribute",
        secret,
        final.of,
        trials=len(final.values),
        right=int(np.sum(answers[best] == final.values)),
        prior=prior,
        numbers={"attacker": best, **{f"by {name}": rate for name, rate in rates.items()}, **numbers},
    )


def _guesses(
    setting: AttackSetting, lesson: Question, final: Question, rng: np.random.Generator, only: str | None = None
) -> Answers:
    """Answers of every attacker, or of one, to the final question after the lesson."""
    network, claim, place, k = setting.network, setting.claim, setting.position, setting.device

    def heard(network: Network, claim: Claim, latents: Floats) -> Heard:
        return hear(network, claim, place, latents, rng=rng, device=k, others_known=lesson.others_known)

    seen = heard(network, claim, final.latents)
    signal, std = seen.signal[:, 0], seen.noise_std[:, 0]
    if final.candidates is not None:
        weight, clip_norm = (network.devices.column(name)[k] for name in ("weight", "clip_norm"))
        return {_INFORMED: attackers.nearest(signal, weight * clipped(final.candidates, clip_norm))}
    noisy, gallery, deaf = heard(network, claim, lesson.latents).signal[:, 0], None, {}
    if lesson.known is not None and final.known is not None:
        deaf = attackers.all_of(lesson.known, lesson.values, lesson.prior, seed=setting.seed)
        deaf = {f"{name}{_DEAF}": each(final.known, std).argmax(axis=1) for name, each in deaf.items()}
        # Attackers have one scale for all columns: in noise of another size they would not see the other views.
        alike = noisy.std() / max(float(lesson.known.std()), 1e-12)
        noisy, signal = (np.concatenate([x, alike * y.known], 1) for x, y in ((noisy, lesson), (signal, final)))
    if final.known is None and place.name != "antennas":
        clean = heard(*quiet(network, claim), lesson.latents).signal[:, 0]
        _, first = np.unique(np.column_stack([lesson.values, clean.round(9)]), axis=0, return_index=True)
        gallery = clean[first], lesson.values[first]
    every = attackers.all_of(noisy, lesson.values, lesson.prior, seed=setting.seed, gallery=gallery, only=only)
    return {name: attacker(signal, std).argmax(axis=1) for name, attacker in every.items()} | deaf


def _silenced(asked: Question, device: int) -> Question:
    latents = asked.latents.copy()
    latents[:, device] = 0
    return replace(asked, latents=latents)
