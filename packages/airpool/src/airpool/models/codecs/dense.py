"""The codec that is trained through the noise: one hidden layer on either side.

A "compact" codec reads the average of a view's map (d = F) and sends r numbers, any r. A "map" codec reads the whole
map (d = F·7·7) and sends q·7·7 numbers, as in the paper.

The decoder reads the noise level, which is public, so that one codec serves every privacy budget.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from array_api_compat import array_namespace, device

from airpool._support.arrays import Array, Floats
from airpool._support.brief import Brief
from airpool.models.codecs.codec import Reads
from airpool.models.layers import in_float64, linear, matched, relu, unit
from airpool.radio.link import Level

Kind = Literal["compact", "map"]

_PLACES = 7 * 7  # of a map
RATIOS = (0.02, 1.0)  # of noise to signal: beyond these a decoder learns nothing more
_SIZES = ("dimension", "num_classes", "features", "hidden", "server_hidden", "encoders")


@dataclass(frozen=True)
class CodecShape:
    """Sizes of a codec, which determine the shape of every parameter.

    dimension: r. features: F, channels of the maps. hidden: units of the encoder (of "map": channels at each of the 49
    places). server_hidden: of the decoder. full_norm: every latent has length one, otherwise at most one. told: the
    decoder reads the noise level. encoders: 1, shared by all devices, or K, one for each. ratios: of noise to signal,
    the least and the most that the decoder is told, whatever there is: of others it has learnt nothing.
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
    ratios: tuple[float, float] = RATIOS

    def __post_init__(self) -> None:
        least, most = map(float, self.ratios)
        if not 0 < least <= most < float("inf"):
            raise ValueError(f"ratios={self.ratios} must be > 0 and finite, the least before the most")
        object.__setattr__(self, "ratios", (least, most))
        for name in _SIZES:
            if type(size := getattr(self, name)) is not int:
                raise TypeError(f"{name}={size!r} must be a whole number")
            if size < 1:
                raise ValueError(f"{name}={size} must be ≥ 1")
        if self.kind not in ("compact", "map"):
            raise ValueError(f"kind={self.kind!r} must be 'compact' or 'map'")
        if self.kind == "map" and self.encoders > 1:
            raise ValueError(f"encoders={self.encoders} must be 1 for a map codec")

    @property
    def places(self) -> int:
        return _PLACES if self.kind == "map" else 1

    @property
    def width(self) -> int:
        """d, the length of what the encoder reads."""
        return self.features * self.places

    def layers(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the matrices, by the layer's name; K matrices where every device has its own encoder."""
        own = (self.encoders,) if self.encoders > 1 else ()
        return {
            "encoder.hidden": (*own, self.hidden, self.features),
            "encoder.out": (*own, self.dimension, self.hidden * self.places),
            "decoder.hidden": (self.server_hidden, self.dimension + 1),
            "decoder.out": (self.num_classes, self.server_hidden),
        }


def paper_shape(q: int, *, num_classes: int = 40) -> CodecShape:
    """The paper's codec of q channels: r = q·7·7.

    >>> paper_shape(16).dimension
    784
    """
    return CodecShape("map", dimension=q * _PLACES, num_classes=num_classes, hidden=64, server_hidden=512)


@dataclass(frozen=True, eq=False, repr=False)
class DenseCodec(Brief):
    """Encoder and decoder that were trained together.

    arrays: "weight" and "bias" of every layer of the shape, and "encoder.centre" (F,) and "encoder.scale" (1,) of the
    features in training; of a codec whose trunk does not ship, those of the decoder alone. drop: dropout of features
    and hidden units, in training alone.
    """

    shape: CodecShape
    arrays: Mapping[str, Array]
    drop: Callable[[Array], Array] | None = None

    halved: ClassVar[bool] = True

    def __post_init__(self) -> None:
        wanted: dict[str, tuple[int, ...]] = {"encoder.centre": (self.shape.features,), "encoder.scale": (1,)}
        for name, size in self.shape.layers().items():
            wanted |= {f"{name}.weight": size, f"{name}.bias": size[:-1]}
        if not self.encodes:
            wanted = {key: size for key, size in wanted.items() if not key.startswith("encoder.")}
        for key in sorted(wanted.keys() | self.arrays.keys()):
            if key not in wanted or key not in self.arrays or tuple(self.arrays[key].shape) != wanted[key]:
                raise ValueError(f"{key!r} is missing or does not fit, so these are not the weights of this codec")

    @property
    def encodes(self) -> bool:
        """Whether the encoder is there, too, not the decoder alone."""
        return any(key.startswith("encoder.") for key in self.arrays)

    @property
    def kind(self) -> Kind:
        return self.shape.kind

    @property
    def reads(self) -> Reads:
        return "map" if self.kind == "map" else "feature"

    @property
    def dimension(self) -> int:
        return self.shape.dimension

    @property
    def num_classes(self) -> int:
        return self.shape.num_classes

    def layer(self, name: str, x: Array) -> Array:
        """x through one of the layers."""
        return linear(x, self.arrays[f"{name}.weight"], self.arrays[f"{name}.bias"])

    @np.errstate(all="ignore")
    def encoder(self, features: Array) -> Array:
        """Features (..., d) to latents (..., r) of length one or less; 0 if the last layer gives 0."""
        if not self.encodes:
            raise ValueError("the codec is the server's half alone: its encoder does not ship, as its trunk does not")
        xp, drop = array_namespace(features), self.drop or (lambda x: x)
        places = self.shape.places
        if places > 1:
            features = xp.matrix_transpose(xp.reshape(features, (*features.shape[:-1], -1, places)))  # (..., 49, F)
        centre, scale = (matched(self.arrays[f"encoder.{name}"], features) for name in ("centre", "scale"))
        hidden = relu(self.layer("encoder.hidden", drop((features - centre) / scale)))
        if places > 1:
            hidden = xp.reshape(hidden, (*hidden.shape[:-2], -1))
        latent = self.layer("encoder.out", drop(hidden))
        return unit(latent, least=1e-12 if self.shape.full_norm else 1.0)

    def of_device(self, device: int) -> "DenseCodec":
        """The codec of one device: where every device has an encoder, with its own alone."""
        if self.shape.encoders == 1:
            return self
        layers = ("encoder.hidden", "encoder.out")
        own = {key: array[device] for key, array in self.arrays.items() if key.rpartition(".")[0] in layers}
        return DenseCodec(replace(self.shape, encoders=1), {**self.arrays, **own})

    def decoder(self, estimate: Array, noise_ratio: Array | float) -> Array:
        """Estimates (..., r), scaled so that agreeing latents have length one, to logits (..., C).

        noise_ratio: (..., 1) or a number, standard deviation of the noise in each coordinate of the estimate.
        """
        xp = array_namespace(estimate)
        ratio = xp.asarray(noise_ratio, dtype=estimate.dtype, device=device(estimate))
        told = xp.broadcast_to(self.told(ratio), (*estimate.shape[:-1], 1))
        return self.layer("decoder.out", relu(self.layer("decoder.hidden", xp.concat((estimate, told), axis=-1))))

    def told(self, ratio: Array) -> Array:
        """The decoder's input for a noise ratio: about 0 in the middle of the range, always 0 if not `shape.told`."""
        xp = array_namespace(ratio)
        return xp.log(xp.clip(ratio, *self.shape.ratios)) + 2 if self.shape.told else xp.zeros_like(ratio)

    def server(self, level: Level) -> Callable[[Array], Array]:
        """The server's function of estimates (..., r), for a network with this level of signal and noise.

        Edge case: no signal → estimates are not scaled, and some label is returned.
        """
        signal = level.signal if level.signal > 0 else 1.0
        return lambda estimate: self.decoder(estimate / signal, level.noise_std / signal)

    def matrices(self, level: Level) -> tuple[tuple[Floats, Floats], ...]:
        """The server for this level as layers (matrix, bias) with ReLU between them, in float64, for theory."""
        signal = level.signal if level.signal > 0 else 1.0
        A, b, A_out, b_out = (
            in_float64(self.arrays[f"decoder.{layer}.{part}"])
            for layer in ("hidden", "out")
            for part in ("weight", "bias")
        )
        told = float(self.told(np.asarray(level.noise_std / signal)))
        return (A[:, :-1] / signal, b + A[:, -1] * told), (A_out, b_out)

    def parts(self) -> tuple[Mapping[str, Array], dict[str, Any]]:
        return self.arrays, asdict(self.shape)

    @classmethod
    def built(cls, arrays: Mapping[str, Array], settings: Mapping[str, Any]) -> "DenseCodec":
        return cls(CodecShape(**settings), arrays)
