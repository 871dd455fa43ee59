"""Attributes of objects and views, from what a network sends of a shipped model's latents.

Attackers are trained on validation objects and judged on test objects, which nothing was trained on. The best of
them is chosen on a third of the validation objects, and trained again on all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from airpool._support.arrays import Integers
from airpool.evaluation.attacks import attackers
from airpool.evaluation.attacks.attack import AttackSetting
from airpool.evaluation.attacks.hearing import hear, quiet
from airpool.evaluation.attacks.positions import bound
from airpool.evaluation.attacks.questions import Question, Secret, Views, question, secrets_of
from airpool.evaluation.attacks.result import AttackResult
from airpool.models.pretrained import load
from airpool.protocol.device import clipped

_COPIES, _MOST_NUMBERS = 10, 2**25  # noisy signals of each training object, and numbers of all of them
_DEAF = " without the signal"  # an attacker that knows all other views, and ignores the signal
_INFORMED = "knowing the object"  # an attacker that knows all views of the object, and not which one is sent
Answers = dict[str, Integers]  # by attacker


@dataclass(frozen=True)
class Attribute:
    """Options: the model and its codec; one secret of `questions.SECRETS`, or all that the position has.

    knows: of the side, an adversary that knows the object and all its views, or nothing but the signal.
    """

    about: str = "Guess the side of the object, its class, or whether it is a rare one."
    options: Mapping[str, Any] = field(
        default_factory=lambda: {"model": "modelnet40", "codec": "vote", "secret": "all", "knows": "object"}
    )

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
        with setting.progress("attacking", len(chosen)) as advance:
            return [_stepped(advance, attacked(setting, secret, learn, judge)) for secret in chosen]


ATTRIBUTE = Attribute()


def _stepped(advance: Any, result: AttackResult) -> AttackResult:
    advance(1)
    return result


def attacked(setting: AttackSetting, secret: Secret, learn: Views, judge: Views) -> AttackResult:
    """The best attacker's guesses of one secret of the objects that are judged, after learning from the others."""
    rng, place, k = np.random.default_rng(setting.seed), setting.position, setting.device
    how: Any = {"device": k, "judged": judge.labels, "rng": rng}
    copies = max(1, min(_COPIES, _MOST_NUMBERS // learn.latents.size))
    objects = rng.permutation(len(learn.labels))
    fit, choose = objects[len(objects) // 3 :], objects[: len(objects) // 3]

    def asked(views: Views, times: int) -> Question:
        found = question(secret, views, setting.network, copies=times, **how)
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
    return AttackResult(
        "attribute",
        place,
        setting.network,
        secret=secret,
        of=final.of,
        trials=len(final.values),
        successes=int(np.sum(answers[best] == final.values)),
        prior=prior,
        bound=bound(setting.network, place, final.of, prior=prior, device=k),
        seed=setting.seed,
        device=k,
        numbers={"attacker": best, **{f"by {name}": rate for name, rate in rates.items()}, **numbers},
    )


def _guesses(
    setting: AttackSetting, lesson: Question, final: Question, rng: np.random.Generator, only: str | None = None
) -> Answers:
    """Answers of every attacker, or of one, to the final question after the lesson."""
    network, place, k = setting.network, setting.position, setting.device
    how: Any = {"device": k, "rng": rng, "others_known": lesson.others_known}
    seen = hear(network, place, final.latents, **how)
    signal, std = seen.signal[:, 0], seen.noise_std[:, 0]
    if final.candidates is not None:
        weight, clip_norm = (network.devices.column(name)[k] for name in ("weight", "clip_norm"))
        return {_INFORMED: attackers.nearest(signal, weight * clipped(final.candidates, clip_norm))}
    noisy, gallery, deaf = hear(network, place, lesson.latents, **how).signal[:, 0], None, {}
    if lesson.known is not None and final.known is not None:
        deaf = attackers.all_of(lesson.known, lesson.values, lesson.prior, seed=setting.seed)
        deaf = {f"{name}{_DEAF}": each(final.known, std).argmax(axis=1) for name, each in deaf.items()}
        # Attackers have one scale for all columns: in noise of another size they would not see the other views.
        alike = noisy.std() / max(float(lesson.known.std()), 1e-12)
        noisy, signal = (np.concatenate([x, alike * y.known], 1) for x, y in ((noisy, lesson), (signal, final)))
    if final.known is None and place.name != "antennas":
        clean = hear(quiet(network), place, lesson.latents, **how).signal[:, 0]
        _, first = np.unique(np.column_stack([lesson.values, clean.round(9)]), axis=0, return_index=True)
        gallery = clean[first], lesson.values[first]
    every = attackers.all_of(noisy, lesson.values, lesson.prior, seed=setting.seed, gallery=gallery, only=only)
    return {name: attacker(signal, std).argmax(axis=1) for name, attacker in every.items()} | deaf


def _silenced(asked: Question, device: int) -> Question:
    latents = asked.latents.copy()
    latents[:, device] = 0
    return replace(asked, latents=latents)
