"""What a device makes of the maps of its trunk, in NumPy: posterior, vote, compact latent. No torch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool.runtime.device import Seen

_SHORTEST = 1e-6  # as models.vote

Layers = tuple[tuple[NDArray[Any], NDArray[Any]], ...]


@dataclass(frozen=True, eq=False)
class Encoder:
    """Of averages of maps (F,). head: layers of the local classifier. temperature: of this device's camera.

    sharpness: of the vote; or codec: centre, scale and layers of a compact encoder.
    """

    head: Layers
    temperature: float
    sharpness: float | None = None
    centre: NDArray[Any] | None = None
    scale: float = 1.0
    codec: Layers = ()
    full_norm: bool = True

    def __call__(self, maps: NDArray[Any]) -> Seen:
        """maps: (F, h, w), of one view."""
        average = maps.reshape(len(maps), -1).mean(-1)
        posterior = softmax(through(self.head, average) / np.float32(self.temperature))
        if self.sharpness is not None:
            latent = voted(posterior, self.sharpness)
        else:
            latent = through(self.codec, (average - self.centre) / np.float32(self.scale))
            norm = np.linalg.norm(latent)
            latent = latent / (max(norm, 1e-12) if self.full_norm else max(norm, 1.0))
        return Seen(np.asarray(latent, np.float64), np.asarray(posterior, np.float64))


@np.errstate(all="ignore")
def voted(posteriors: NDArray[Any], sharpness: float) -> NDArray[Any]:
    """z = (π^t/Σπ^t − 1/L)/‖·‖ of posteriors (..., L): models.vote.encoded without torch."""
    sharp = softmax(posteriors.dtype.type(sharpness) * np.log(posteriors)) - posteriors.dtype.type(
        1 / posteriors.shape[-1]
    )
    return sharp / np.maximum(np.linalg.norm(sharp, axis=-1, keepdims=True), _SHORTEST)


@np.errstate(all="ignore")
def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    e = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


@np.errstate(all="ignore")
def through(layers: Layers, x: NDArray[Any]) -> NDArray[Any]:
    """Linear layers (matrix, bias) with ReLU between them."""
    for k, (matrix, bias) in enumerate(layers):
        x = matrix @ (np.maximum(x, 0) if k else x) + bias
    return x
