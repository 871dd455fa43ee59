"""The codec: from a feature to a short vector of length one, and from the noisy sum of such vectors to a class.

    device   features (..., d) → encoder → latent (..., r), ‖z‖ = 1, so that the whole clip norm is used
    server   estimate (..., r) and its noise level → decoder → logits (..., C)

A "compact" codec reads the average of a view's map (d = F) and sends r numbers, any r. A "map" codec reads the whole
map (d = F·7·7) and sends q·7·7 numbers, as in the paper. Both have one hidden layer on either side.

The decoder reads the noise level, which is public, so that one codec serves every privacy budget.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool.arrays import Floats
from airpool.models import weights
from airpool.protocol.link import Level

Kind = Literal["compact", "map"]

_PLACES = 7 * 7  # of a map
_RATIOS = (0.02, 1.0)  # of noise to signal: beyond these a decoder learns nothing more


@dataclass(frozen=True)
class CodecShape:
    """What determines the shape of every parameter.

    dimension: r. features: F, channels of the maps. hidden: units of the encoder (of "map": channels at each of the 49
    places). server_hidden: of the decoder. full_norm: every latent has length one, otherwise at most one. told: the
    decoder reads the noise level. encoders: 1, shared by all devices, or K, one for each.
    """

    kind: Kind = "compact"
    dimension: int = 40
    num_classes: int = 40
    features: int = 512
    hidden: int = 512
    server_hidden: int = 2048
    full_norm: bool = True
    told: bool = True
    encoders: int = 1

    def __post_init__(self) -> None:
        for name in ("dimension", "num_classes", "features", "hidden", "server_hidden", "encoders"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be ≥ 1")
        if self.kind not in ("compact", "map"):
            raise ValueError(f"kind={self.kind!r} must be 'compact' or 'map'")
        if self.kind == "map" and self.encoders > 1:
            raise ValueError(f"encoders={self.encoders} must be 1 for a map codec")

    @property
    def width(self) -> int:
        """d, the length of a view's feature."""
        return self.features * (_PLACES if self.kind == "map" else 1)


def paper_shape(q: int, *, num_classes: int = 40) -> CodecShape:
    """The paper's codec of q channels: r = q·7·7.

    >>> paper_shape(16).dimension
    784
    """
    return CodecShape("map", dimension=q * _PLACES, num_classes=num_classes, hidden=64, server_hidden=512)


class Shape(Protocol):
    """kind: what the encoder reads: the average of a view's map (compact), all of it (map), or a posterior (vote)."""

    @property
    def kind(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def num_classes(self) -> int: ...


class AnyCodec(Protocol):
    """What all codecs offer: `Codec`, trained through the noise, and `vote.Vote`, which needs no such training."""

    @property
    def shape(self) -> Shape: ...
    @property
    def encoder(self) -> Callable[[Tensor], Tensor]: ...
    def server(self, level: Level) -> Callable[[Tensor], Tensor]: ...
    def matrices(self, level: Level) -> tuple[tuple[Floats, Floats], ...]: ...


class Each(nn.Module):
    """A linear layer for each of K devices: (..., K, in) → (..., K, out)."""

    def __init__(self, devices: int, width_in: int, width_out: int) -> None:
        super().__init__()
        bound = width_in**-0.5  # as nn.Linear
        self.weight = nn.Parameter(torch.empty(devices, width_out, width_in).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(devices, width_out).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("...ki,koi->...ko", x, self.weight) + self.bias


def _linear(devices: int, width_in: int, width_out: int) -> nn.Module:
    return nn.Linear(width_in, width_out) if devices == 1 else Each(devices, width_in, width_out)


class Encoder(nn.Module):
    """On each device: features (..., d) to latents (..., r) of length one or less; 0 if the last layer gives 0."""

    centre: Tensor
    scale: Tensor

    def __init__(self, shape: CodecShape, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.places = _PLACES if shape.kind == "map" else 1
        self.full_norm = shape.full_norm
        # Mean and scale of the features, from training; the same for every view.
        self.register_buffer("centre", torch.zeros(shape.features))
        self.register_buffer("scale", torch.ones(1))
        self.dropout = nn.Dropout(dropout)
        self.hidden = _linear(shape.encoders, shape.features, shape.hidden)
        self.out = _linear(shape.encoders, shape.hidden * self.places, shape.dimension)

    def forward(self, features: Tensor) -> Tensor:
        if self.places > 1:
            features = features.unflatten(-1, (-1, self.places)).transpose(-1, -2)  # (..., 49, F)
        hidden = F.relu(self.hidden(self.dropout((features - self.centre) / self.scale)))
        latent = self.out(self.dropout(hidden.flatten(-2) if self.places > 1 else hidden))
        if self.full_norm:
            return F.normalize(latent, dim=-1)
        return latent / latent.norm(dim=-1, keepdim=True).clamp(min=1)


class Decoder(nn.Module):
    """On the server: estimates (..., r), scaled so that agreeing latents have length one, to logits (..., C).

    noise_ratio: (..., 1) or a number, standard deviation of the noise in each coordinate of the estimate.
    """

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        self.told = shape.told
        self.hidden = nn.Linear(shape.dimension + 1, shape.server_hidden)
        self.out = nn.Linear(shape.server_hidden, shape.num_classes)

    def forward(self, estimate: Tensor, noise_ratio: Tensor | float) -> Tensor:
        ratio = torch.as_tensor(noise_ratio, dtype=estimate.dtype, device=estimate.device)
        told = self.told_of(ratio).expand(*estimate.shape[:-1], 1)
        return self.out(F.relu(self.hidden(torch.cat((estimate, told), dim=-1))))

    def told_of(self, ratio: Tensor) -> Tensor:
        """The hidden layer's input for a noise ratio: about 0 in the middle of the range, always 0 if not `told`."""
        return ratio.clamp(*_RATIOS).log() + 2 if self.told else torch.zeros_like(ratio)


class Codec(nn.Module):
    """Encoder and decoder that were trained together."""

    def __init__(self, shape: CodecShape, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.encoder = Encoder(shape, dropout=dropout)
        self.decoder = Decoder(shape)

    def matrices(self, level: Level) -> tuple[tuple[Floats, Floats], ...]:
        """The server for this level as layers (matrix, bias) with ReLU between them, in float64, for theory."""
        signal = level.signal if level.signal > 0 else 1.0
        hidden, out = (
            (layer.weight.detach().double().cpu().numpy(), layer.bias.detach().double().cpu().numpy())
            for layer in (self.decoder.hidden, self.decoder.out)
        )
        A, b = hidden
        told = float(self.decoder.told_of(torch.tensor(level.noise_std / signal, dtype=torch.float64)))
        return (A[:, :-1] / signal, b + A[:, -1] * told), out

    def server(self, level: Level) -> Callable[[Tensor], Tensor]:
        """The server's function of estimates (..., r), for a network with this level of signal and noise.

        Edge case: no signal → estimates are not scaled, and some label is returned.
        """
        signal = level.signal if level.signal > 0 else 1.0
        return lambda estimate: self.decoder(estimate / signal, level.noise_std / signal)


def quantised(latents: Tensor) -> tuple[Tensor, Tensor]:
    """Latents as int8 steps from -127 to 127, and the size of a step."""
    step = latents.abs().amax().clamp(min=1e-12) / 127
    return (latents / step).round().to(torch.int8), step


def packed(latents: Tensor, *, rank: int | None = None) -> dict[str, Tensor]:
    """Latents (N, K, r) as bytes; with a rank, in their first so many principal directions, each with its own step."""
    if rank is None:
        steps, step = quantised(latents)
        return {"latents": steps, "step": step.reshape(1)}
    flat = latents.flatten(0, -2).float()
    centre = flat.mean(0)
    basis = torch.linalg.svd(flat - centre, full_matrices=False).Vh[:rank].half().float()
    inside = (latents - centre) @ torch.linalg.pinv(basis)
    step = inside.abs().flatten(0, -2).amax(0).clamp(min=1e-12) / 127
    whole = (inside / step).round().to(torch.int8)
    return {"latents": whole, "step": step, "basis": basis.half().contiguous(), "centre": centre}


def unpacked(tensors: Mapping[str, Tensor]) -> Tensor:
    """What `packed` made small."""
    inside = tensors["latents"].float() * tensors["step"]
    return inside @ tensors["basis"].float() + tensors["centre"] if "basis" in tensors else inside


def save(path: Path, codec: Codec, about: Mapping[str, Any]) -> None:
    """Writes the codec's file."""
    weights.write(path, codec.state_dict(), {**about, "codec": asdict(codec.shape)})


def load(path: Path, *, device: torch.device | str = "cpu") -> tuple[Codec, dict[str, Any]]:
    """A saved codec in eval mode, and its header."""
    tensors, about = weights.read(path, device=device)
    return built(path, tensors, about), about


def built(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Codec:
    """The codec of a file's tensors and header."""
    with weights.building(path, "codec"):
        codec = Codec(CodecShape(**about["codec"]))
    return weights.fill(codec, tensors, path)
