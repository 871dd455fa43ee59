"""Identification: which object of a gallery a signal comes from, by its likelihood."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from airpool._support.arrays import Floats
from airpool.models.layers import in_float64
from airpool_lab.attacks import attackers
from airpool_lab.attacks.attack import AttackSetting, result_of
from airpool_lab.attacks.positions import Scope
from airpool_lab.attacks.result import AttackResult
from airpool_lab.attacks.targets import OPTIONS, Targets, wanted

_MOST = 4096  # coordinates


class Identify:
    """The gallery holds every held-out object once, so κ is one over their number.

    All views show which object it is, so the bound is the object's wherever several are heard. The gallery holds the
    sums where the sum is heard, elsewhere what the attacked device would send of each object. numbers: there, the
    rate with the next camera's views in the gallery instead.
    """

    about = "Find the object in a gallery of renders."
    options: ClassVar = OPTIONS

    def wanted(self, options: Mapping[str, Any]) -> dict[str, int]:
        return wanted(options)

    def run(self, setting: AttackSetting, /) -> Sequence[AttackResult]:
        targets = Targets.of(setting)
        directions = targets.spanned(targets.sent[1], most=_MOST)
        return [_identified(targets, in_float64(targets.sent[1] @ directions))]


IDENTIFY = Identify()


def _identified(targets: Targets, coordinates: Floats) -> AttackResult:
    setting, size = targets.setting, len(coordinates)
    trials, rng = max(1, setting.trials // size), np.random.default_rng(setting.seed)
    scope: Scope = "view" if setting.position.alone else "object"
    heard = targets.heard(coordinates, rng, trials=trials)
    signal, std = heard.signal.reshape(-1, heard.signal.shape[-1]), heard.noise_std.reshape(-1)
    truth = np.repeat(np.arange(size), trials)

    def found(entries: Floats) -> int:
        scores = attackers.likelihood(entries, np.arange(size), np.full(size, 1 / size))
        finite = np.where(np.isfinite(std), std, 1e9)
        return int(np.sum(scores(signal, finite).argmax(axis=1) == truth))

    if setting.position.view == "device":
        quiet = replace(setting.network, devices=replace(setting.network.devices, noise_std=0.0, participation=1.0))
        whole = replace(targets, setting=replace(setting, network=quiet))
        entries, numbers = whole.heard(coordinates, rng).signal[:, 0], {}
    else:
        entries = targets.weighted(coordinates[:, targets.camera])
        other = targets.weighted(coordinates[:, (targets.camera + 1) % coordinates.shape[1]])
        numbers = {"rate with the next camera's views": found(other) / len(truth)}
    secret, numbers = f"which of {size} objects", {"codec": setting.options["codec"], **numbers}
    count, right = len(truth), found(entries)
    return result_of(setting, "identify", secret, scope, trials=count, right=right, prior=1 / size, numbers=numbers)
