"""An attack of your own: does the device hold a feature at all, from the energy of what it sends.

    airpool attack presence --plugin examples/plugins/attack.py --devices 12 --noise-std 0.05 --position link

The test knows the size of the feature and not its direction, so it stays well below the bound of its position.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

import airpool
from airpool_lab.attacks.attack import AttackSetting
from airpool_lab.attacks.hearing import hear
from airpool_lab.attacks.positions import bound
from airpool_lab.attacks.result import AttackResult


@airpool.register("attack", "presence")
class Presence:
    """Half of the trials with a feature of full length in a random direction, half without."""

    about: ClassVar[str] = "Tell from the energy whether the device holds a feature."
    options: ClassVar[Mapping[str, Any]] = {"length": 1.0}

    @staticmethod
    def run(setting: AttackSetting, /) -> Sequence[AttackResult]:
        net, k, half = setting.network, setting.device, -(-setting.trials // 2)
        rng = np.random.default_rng(setting.seed)
        features = np.zeros((2 * half, net.devices.count, net.dimension))
        along = rng.standard_normal((half, net.dimension))
        along *= setting.options["length"] / np.linalg.norm(along, axis=1, keepdims=True)
        features[:half, k] = net.devices.column("clip_norm")[k] * along
        heard = hear(net, setting.claim, setting.position, features, rng=rng, device=k)
        energy = np.sum(heard.signal[:, 0] ** 2, axis=-1)
        sent = net.devices.column("weight")[k] ** 2 * np.sum(features[:, k] ** 2, axis=-1).max()
        middle = net.dimension * heard.noise_std[:, 0] ** 2 + sent / 2
        right = int(np.sum(energy[:half] > middle[:half]) + np.sum(energy[half:] <= middle[half:]))
        limit = bound(net, setting.claim, setting.position, "view", prior=0.5, device=k)
        return [
            AttackResult(
                "presence",
                setting.position,
                net,
                secret="a feature, or none",
                of="view",
                trials=2 * half,
                successes=right,
                prior=0.5,
                bound=limit,
                seed=setting.seed,
                device=k,
                claim=setting.claim,
            )
        ]
