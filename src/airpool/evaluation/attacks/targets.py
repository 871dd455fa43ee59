"""Views under attack: scenes, the latents that are sent of them, and the signals that are received.

Noise is white, so an attacker loses nothing by looking at it in the space that latents span: signals are drawn there,
by the code that transmits, in as many coordinates as it needs.
"""

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from airpool._support.arrays import Floats
from airpool.evaluation.attacks import scenes as scene_files
from airpool.evaluation.attacks import signals
from airpool.evaluation.attacks.attack import AttackSetting
from airpool.evaluation.attacks.hearing import Heard, hear
from airpool.evaluation.attacks.scenes import Scenes
from airpool.models.cameras import cameras
from airpool.models.pretrained import Pretrained, load
from airpool.protocol.device import clipped

# codec: map, q16, compact or vote. meshes: a packed file; left out, our own shapes. objects: at most so many of each
# split, 0 for all. side: pixels along a picture's side.
OPTIONS = {"codec": "vote", "meshes": "", "objects": 0, "side": 56, "torch_device": "cpu"}


def wanted(options: Any) -> dict[str, int]:
    """Devices and dimension of a network for the attacked codec."""
    model = load("modelnet40")
    return {"devices": model.num_devices, "dimension": signals.dimension(options["codec"], model)}


@dataclass(frozen=True, eq=False)
class Targets:
    """Training and held-out scenes, and the latents (N, K, r) that all cameras of the model would send of them."""

    setting: AttackSetting
    model: Pretrained
    trunk: nn.Sequential
    training: Scenes
    test: Scenes
    sent: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, setting: AttackSetting) -> "Targets":
        """The targets that the options name."""
        options, model = setting.options, load("modelnet40")
        where = torch.device(options["torch_device"])
        if where.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"torch_device={options['torch_device']!r}: torch finds no CUDA device here")
        wide = signals.dimension(options["codec"], model)
        if setting.network.dimension != wide:
            raise ValueError(f"the network has dimension={setting.network.dimension}, the attacked codec {wide}")
        if options["codec"] in signals.CHANNELS and setting.network.channel.fading != "none":
            raise ValueError(
                f"codec={options['codec']!r} needs fading='none', not {setting.network.channel.fading!r}: its signals "
                "are drawn in fewer coordinates, and the power of a device depends on their number"
            )
        trunk = copy.deepcopy(model.trunk.features).to(where)
        how: Any = {"side": options["side"], "objects": options["objects"], "progress": setting.progress}
        how["torch_device"] = options["torch_device"]
        if options["meshes"]:
            training, test = scene_files.from_meshes(Path(options["meshes"]), trunk, **how)
        else:
            training, test = scene_files.from_shapes(model.classes, trunk, **how)
        if not len(training) or len(test) < 2:
            raise ValueError(f"objects={options['objects']} leaves {len(test)} held-out objects: at least 2 are needed")
        sender = signals.sender(options["codec"], model, training.maps)
        with torch.no_grad():
            latents = [torch.cat([sender.encode(x) for x in each.maps.split(32)]) for each in (training, test)]
        return cls(setting, model, trunk, training, test, (latents[0], latents[1]))

    @cached_property
    def camera(self) -> int:
        """The attacked device's camera."""
        return self._cameras[self.setting.device]

    @cached_property
    def _cameras(self) -> list[int]:
        return cameras(self.setting.network.devices.count, self.model.num_devices)

    def spanned(self, latents: Tensor, *, most: int) -> Tensor:
        """Orthonormal directions (r, d) of the space of latents (N, K, r): all of it, or its `most` leading ones."""
        flat = latents.flatten(0, 1).float()
        if flat.shape[1] <= most:
            return torch.eye(flat.shape[1], device=flat.device)
        if len(flat) <= most:
            return torch.linalg.qr(flat.T)[0]
        torch.manual_seed(self.setting.seed)
        return torch.svd_lowrank(flat, q=most, niter=3)[2]

    def heard(
        self,
        coordinates: Floats,
        rng: np.random.Generator,
        *,
        turned: int = 0,
        trials: int = 1,
        others_known: bool = False,
    ) -> Heard:
        """Signals of latents in coordinates (n, cameras, d), by the network's own devices, clip, weights and noise.

        turned: by so many cameras, so that the attacked device has another view.
        """
        setting, views = self.setting, np.roll(coordinates, -turned, axis=1)[:, self._cameras]
        network = replace(setting.network, dimension=views.shape[-1])
        how: Any = {"device": setting.device, "trials": trials, "others_known": others_known}
        return hear(network, setting.position, views, rng=rng, **how)

    def weighted(self, coordinates: Floats) -> Floats:
        """The signal of latents (n, d) of the attacked device, without noise."""
        devices, k = self.setting.network.devices, self.setting.device
        return devices.column("weight")[k] * clipped(coordinates, devices.column("clip_norm")[k])
