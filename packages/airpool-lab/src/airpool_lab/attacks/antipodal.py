"""The yes-or-no question that attains the bound: is the view's feature +C or −C, with equal odds.

Two antipodal features are the two secrets that are told apart best, so that an honest network lies at the bound
B(½), and a device with too little noise, or without its clip, beyond it.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from airpool.network import Network
from airpool_lab.attacks.attack import AttackSetting, result_of
from airpool_lab.attacks.hearing import hear
from airpool_lab.attacks.result import AttackResult

_BATCH = 1000  # transmissions of a feature


class Antipodal:
    """A feature or its opposite, `length` times as long as the clip norm: a device without its clip shows."""

    about = "Tell a feature from its opposite: the question that attains the bound."
    options: ClassVar = {"length": 10.0}

    def run(self, setting: AttackSetting, /) -> Sequence[AttackResult]:
        return [antipodal(setting, length=setting.options["length"])]


ANTIPODAL = Antipodal()


def antipodal(setting: AttackSetting, *, length: float = 10.0, played: Network | None = None) -> AttackResult:
    """The best guess in half of the trials with the feature, and half with its opposite.

    played: the network that transmits, where it is not the one that the bound is of: a planted fault.
    The local bound leaves the device's coin out, so where it holds only trials in which the device is heard count.
    Edge cases: it never is → no guesses, and no bound.
    """
    if not 0 < length < np.inf:
        raise ValueError(f"length={length:g} must be > 0 and finite")
    network, claim, place, k = played or setting.network, setting.claim, setting.position, setting.device
    rng, each = np.random.default_rng(setting.seed), min(_BATCH, -(-setting.trials // 2))
    feature = np.zeros((2, network.devices.count, network.dimension))
    feature[:, k, 0] = length * network.devices.column("clip_norm")[k] * np.array([1.0, -1.0])
    right = trials = asked = 0
    with setting.progress("asking", setting.trials) as advance:
        while asked < setting.trials:
            heard = hear(network, claim, place, feature, rng=rng, device=k, trials=each)
            correct = (heard.signal[..., 0] >= 0) == np.array([[True], [False]])  # a silent device: a fixed guess
            counts = heard.present if place.view == "local" else np.full(correct.shape, True)
            right, trials = right + int(correct[counts].sum()), trials + int(counts.sum())
            asked += 2 * each
            advance(2 * each)
    numbers = {"length": length}
    return result_of(setting, "antipodal", "yes or no", "view", trials=trials, right=right, prior=0.5, numbers=numbers)
