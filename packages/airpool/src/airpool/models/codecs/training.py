"""Training of a codec through the simulated air: clipping, participation, fading and noise.

Every step samples one of the given networks, sends the latents of some objects through it, and computes the decoder's
cross entropy. Gradients pass through the air, so that the encoder learns what survives it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool._support.threads import single_thread
from airpool.models import loop
from airpool.models.codecs.codec import Codec
from airpool.models.codecs.dense import CodecShape, DenseCodec
from airpool.network import Network
from airpool.protocol.simulation import receive
from airpool.radio.link import Level, Link, level, link_of


@dataclass(frozen=True)
class CodecRecipe:
    """Training settings of a codec; every number was chosen on validation (docs/results/models.md).

    objects: per step; trials: draws of the air for each of them, which cost little beside its encoding.
    dropout: of features and hidden units, since a trunk is overconfident on its own training data.
    balance: weight of rare classes, from 0, by frequency, to 1, all equal.
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
        loop.check_recipe(self)


@dataclass(frozen=True, eq=False)
class Setting:
    """A network and its public quantities. A machine without SciPy is given all three."""

    network: Network
    link: Link
    level: Level


def setting(network: Network) -> Setting:
    """The setting of a network to train for.

    Holds for: power rules that do not depend on the noise, and clip norms of at most 1, the length of a latent.
    """
    if (rule := network.channel.power_rule) not in ("truncate", "backoff"):
        raise ValueError(f"power_rule={rule!r} looks at the noise: a codec is trained with truncate or backoff")
    if (clip_norm := max(network.devices.column("clip_norm"))) > 1:
        raise ValueError(
            f"clip_norm={clip_norm:g} must be ≤ 1, the length of a codec's latents; divide noise_std by it as well, and"
            " ε is the same"
        )
    link = link_of(network)
    return Setting(network, link, level(network, link))


@dataclass(frozen=True, eq=False)
class TrainingObjects:
    """A codec's inputs for N objects, (N, K, d), and their labels (N,).

    present: (N, K) bool, False where a device had nothing to see; it then sends noise alone. None: all were present.
    """

    features: Tensor
    labels: Tensor
    present: Tensor | None = None


@single_thread()
def fit(
    recipe: CodecRecipe,
    shape: CodecShape,
    features: Tensor,
    labels: Tensor,
    *,
    settings: Sequence[Setting],
    present: Tensor | None = None,
    on_epochs: Callable[[int], None] = lambda _: None,
) -> DenseCodec:
    """A codec for features (N, K, d) with labels (N,), trained over all of the settings.

    present: as of TrainingObjects. The same recipe, data and torch give the same codec on a CPU; torch's global random
    state is left unchanged.
    """
    _check(features, labels, shape, settings)
    if features.shape[-1] != shape.width:
        raise ValueError(f"features of width {features.shape[-1]} must have {shape.width}, as the codec's shape says")
    objects = TrainingObjects(features, labels, present)
    with _seeded(recipe.seed, features.device):
        codec = initial(shape, features)
        thinned = replace(codec, drop=lambda x: F.dropout(x, recipe.dropout))
        parameters = [each for name, each in codec.arrays.items() if name.endswith((".weight", ".bias"))]
        _train(recipe, thinned, parameters, objects, settings, on_epochs)
    return codec


@single_thread()
def train(
    recipe: CodecRecipe,
    codec: Codec,
    objects: TrainingObjects,
    *,
    settings: Sequence[Setting],
    on_epochs: Callable[[int], None] = lambda _: None,
) -> Codec:
    """A codec of any kind, its arrays in torch, trained on from where it is; the one given is left as it was.

    All of its arrays of floating numbers are trained, or those that its `trained` names. The recipe's dropout is left
    to the codec.
    """
    _check(objects.features, objects.labels, codec, settings)
    arrays, about = codec.parts()
    names = tuple(getattr(codec, "trained", arrays))
    own = {name: torch.as_tensor(each).detach().clone().to(objects.features.device) for name, each in arrays.items()}
    codec = type(codec).built(own, {"kind": codec.kind, **about})
    parameters = [own[name] for name in names if own[name].is_floating_point()]
    with _seeded(recipe.seed, objects.features.device):
        _train(recipe, codec, parameters, objects, settings, on_epochs)
    return codec


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds torch's global generators, which are afterwards as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _train(
    recipe: CodecRecipe,
    codec: Codec,
    parameters: Sequence[Tensor],
    objects: TrainingObjects,
    settings: Sequence[Setting],
    on_epochs: Callable[[int], None],
) -> None:
    """Trains the parameters, which are among the codec's arrays, in place."""
    features, labels, present = objects.features, objects.labels, objects.present
    device = features.device
    for each in parameters:
        each.requires_grad_(True)
    optimizer = torch.optim.AdamW(parameters, weight_decay=recipe.weight_decay, fused=features.is_cuda)
    weight = loop.class_weights(labels, codec.num_classes, balance=recipe.balance)
    air = torch.Generator(device).manual_seed(recipe.seed)

    def batches(_: int) -> Sequence[Tensor]:
        return loop.full_batches(torch.randperm(len(features)).to(device), recipe.objects)

    def loss(rows: Tensor) -> Tensor:
        here = settings[int(torch.randint(len(settings), ()))]
        latents = codec.encoder(features[rows].float())
        if present is not None:
            latents = latents.where(present[rows, :, None], 0.0)
        logits = decoded(codec, latents, here, air, trials=recipe.trials).flatten(0, 1)
        targets = labels[rows].repeat_interleave(recipe.trials)
        return F.cross_entropy(logits, targets, weight, label_smoothing=recipe.label_smoothing)

    for _ in loop.epochs(recipe, optimizer, batches, loss):
        on_epochs(1)
    for each in parameters:
        each.requires_grad_(False)


def decoded(codec: Codec, latents: Tensor, setting: Setting, rng: torch.Generator, *, trials: int = 1) -> Tensor:
    """Logits (n, trials, C) of objects with latents (n, K, r), sent through a network."""
    received = receive(latents, setting.network, rng=rng, trials=trials, link=setting.link)
    return codec.server(setting.level)(received.estimate)


@torch.no_grad()
def encoded(codec: Codec, features: Tensor, *, batch: int = 128) -> Tensor:
    """Latents (N, K, r) of features (N, K, d), in any precision, some objects at a time."""
    return torch.cat([codec.encoder(some.float()) for some in features.split(batch)])


_SAMPLE = {"compact": 1024, "map": 128}  # objects that estimate a mean well; a map has 49 times as many numbers


@torch.no_grad()
def initial(shape: CodecShape, features: Tensor | None = None) -> DenseCodec:
    """A codec with random layers, as nn.Linear draws them from torch's global generator.

    features: (N, K, d), from which a centre for each channel and one scale for all are taken, so that a learning rate
    suits any trunk; left out, 0 and 1.
    """
    device = None if features is None else features.device
    arrays = {"encoder.centre": torch.zeros(shape.features), "encoder.scale": torch.ones(1)}
    for name, size in shape.layers().items():
        if len(size) == 2:
            layer = nn.Linear(size[1], size[0])
            arrays |= {f"{name}.weight": layer.weight.detach(), f"{name}.bias": layer.bias.detach()}
        else:
            bound = size[-1] ** -0.5  # as nn.Linear
            arrays |= {
                f"{name}.{part}": torch.empty(own).uniform_(-bound, bound)
                for part, own in (("weight", size), ("bias", size[:-1]))
            }
    if features is not None:
        some = features[:: max(1, len(features) // _SAMPLE[shape.kind])].float()
        channels = some.flatten(0, 1).unflatten(-1, (shape.features, -1)).transpose(1, 2).flatten(0, 1)
        arrays["encoder.centre"] = channels.mean(0)
        square = (channels - arrays["encoder.centre"]).square().mean()
        arrays["encoder.scale"] = square.sqrt().clamp(min=1e-12).reshape(1)
    return DenseCodec(shape, {name: each.to(device) for name, each in arrays.items()})


def _check(features: Tensor, labels: Tensor, shape: CodecShape | Codec, settings: Sequence[Setting]) -> None:
    loop.check_features(features, labels)
    if not all(bool(each.isfinite()) for each in features.aminmax()):
        raise ValueError("features are not finite, in half precision perhaps: a codec cannot learn from them")
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
