"""A codec trained through what it will meet: clipping, silence, fading and noise, by the code that simulates them.

Every step takes one of the networks it is to serve, sends the latents of some objects over the air, and asks the
decoder for the class. Gradients pass the air, so the encoder learns what survives it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from airpool.models.codec import Codec, CodecShape
from airpool.models.train import schedule
from airpool.network import Network
from airpool.protocol.link import Level, Radio, level, radio
from airpool.protocol.simulation import receive


@dataclass(frozen=True)
class CodecRecipe:
    """How a codec is trained; every number was chosen on validation (docs/models.md).

    objects: per step; trials: draws of the air for each of them, which cost little beside its encoding.
    dropout: of features and hidden units, since a trunk is surer of what it was trained on.
    balance: from 0, classes count as often as they come, to 1, all alike.
    """

    epochs: int = 20
    objects: int = 256
    trials: int = 4
    learning_rate: float = 2e-3
    warm_up: float = 0.1
    weight_decay: float = 0.02
    label_smoothing: float = 0.4
    dropout: float = 0.1
    balance: float = 0.4
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "objects", "trials"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be ≥ 1")
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate={self.learning_rate} must be between 0 and 1")
        for name in ("dropout", "label_smoothing", "warm_up"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be ≥ 0 and < 1")
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay={self.weight_decay} must be ≥ 0")


@dataclass(frozen=True, eq=False)
class Setting:
    """A network with what is known of it beforehand; on a machine without SciPy all three are given."""

    network: Network
    link: Radio
    level: Level


def setting(network: Network) -> Setting:
    """What is known of a network, to train for it.

    Holds for: power rules that do not look at the noise, and clip norms that a latent, of length one, can fill.
    """
    if (rule := network.channel.power_rule) not in ("truncate", "backoff"):
        raise ValueError(f"power_rule={rule!r} looks at the noise: a codec is trained with truncate or backoff")
    if (clip_norm := max(network.devices.column("clip_norm"))) > 1:
        raise ValueError(
            f"clip_norm={clip_norm:g} must be ≤ 1, the length of a codec's latents; divide noise_std by it as well, and"
            " ε is the same"
        )
    link = radio(network)
    return Setting(network, link, level(network, link))


def fit(
    recipe: CodecRecipe,
    shape: CodecShape,
    features: Tensor,
    labels: Tensor,
    *,
    settings: Sequence[Setting],
    on_epochs: Callable[[int], None] = lambda _: None,
) -> Codec:
    """A codec, in eval mode, for features (N, K, d) with labels (N,), trained over all of the settings.

    The same recipe, data and torch give the same codec on a CPU; torch's own random state is left as it was.
    """
    _check(features, labels, shape, settings)
    device = features.device
    with torch.random.fork_rng(devices=[device] if features.is_cuda else []):
        torch.manual_seed(recipe.seed)
        codec = Codec(shape, dropout=recipe.dropout).to(device)
        _standardise(codec, features)
        optimizer = torch.optim.AdamW(
            codec.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=features.is_cuda
        )
        often = labels.bincount(minlength=shape.num_classes).clamp(min=1).float()
        weight = (often / len(labels)) ** -recipe.balance
        air = torch.Generator(device).manual_seed(recipe.seed)
        steps = max(1, len(features) // recipe.objects)
        for epoch in range(recipe.epochs):
            order = torch.randperm(len(features)).to(device)
            for step in range(steps):
                rows = order[step * recipe.objects : (step + 1) * recipe.objects]
                for group in optimizer.param_groups:
                    progress = (epoch * steps + step) / (recipe.epochs * steps)
                    group["lr"] = recipe.learning_rate * schedule(progress, warm_up=recipe.warm_up)
                here = settings[int(torch.randint(len(settings), ()))]
                latents = codec.encoder(features[rows].float())
                logits = decoded(codec, latents, here, air, trials=recipe.trials).flatten(0, 1)
                targets = labels[rows].repeat_interleave(recipe.trials)
                loss = F.cross_entropy(logits, targets, weight, label_smoothing=recipe.label_smoothing)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
            on_epochs(1)
    return codec.eval()


def decoded(codec: Codec, latents: Tensor, setting: Setting, rng: torch.Generator, *, trials: int = 1) -> Tensor:
    """Logits (n, trials, C) of objects with latents (n, K, r), sent through a network."""
    received = receive(latents, setting.network, rng=rng, trials=trials, link=setting.link)
    return codec.server(setting.level)(received.estimate)


@torch.no_grad()
def encoded(codec: Codec, features: Tensor, *, batch: int = 128) -> Tensor:
    """Latents (N, K, r) of features (N, K, d), in any precision, some objects at a time."""
    return torch.cat([codec.encoder(some.float()) for some in features.split(batch)])


_SAMPLE = {"compact": 1024, "map": 128}  # objects by which a mean is known well; a map is 49 times as large


@torch.no_grad()
def _standardise(codec: Codec, features: Tensor) -> None:
    """One centre for each channel and one scale for all, so that a rate suits any trunk."""
    some = features[:: max(1, len(features) // _SAMPLE[codec.shape.kind])].float()
    channels = some.flatten(0, 1).unflatten(-1, (len(codec.encoder.centre), -1)).transpose(1, 2).flatten(0, 1)
    codec.encoder.centre.copy_(channels.mean(0))
    codec.encoder.scale.copy_((channels - codec.encoder.centre).square().mean().sqrt().clamp(min=1e-12))


def _check(features: Tensor, labels: Tensor, shape: CodecShape, settings: Sequence[Setting]) -> None:
    if features.ndim != 3 or labels.shape != features.shape[:1] or not len(labels):
        raise ValueError(
            f"features {tuple(features.shape)} and labels {tuple(labels.shape)} must be (N, K, d) and (N,), N ≥ 1"
        )
    if features.shape[-1] != shape.width:
        raise ValueError(f"features of width {features.shape[-1]} must have {shape.width}, as the codec's shape says")
    if not all(bool(each.isfinite()) for each in features.aminmax()):
        raise ValueError("features are not finite, in half precision perhaps: nothing can be learnt from them")
    if not settings:
        raise ValueError("settings is empty: a codec is trained for at least one network")
    for each in settings:
        if (each.network.devices.count, each.network.dimension) != (features.shape[1], shape.dimension):
            raise ValueError(
                f"a network of {each.network.devices.count} devices and dimension {each.network.dimension} does not fit"
                f" features of {features.shape[1]} devices and a codec of dimension {shape.dimension}"
            )
    if int(labels.max()) >= shape.num_classes or int(labels.min()) < 0:
        raise ValueError(f"labels must be 0 to {shape.num_classes - 1}")
