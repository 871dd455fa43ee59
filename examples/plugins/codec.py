"""A codec of your own: a short sketch of the posterior, r numbers instead of one for each class.

    python examples/plugins/codec.py sketch.safetensors                             # 40 classes in 16 numbers
    airpool evaluate --plugin examples/plugins/codec.py --codec sketch.safetensors --epsilon 2
    airpool up       --plugin examples/plugins/codec.py --codec sketch.safetensors --inferences 50

Each device multiplies its posterior by a matrix that all share. The server compares the sum with the column of every
class. The same lines run in the simulator, in training (torch) and on a device without torch (NumPy).
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import airpool
from airpool._support.arrays import Array
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import Reads
from airpool.models.layers import matched, unit
from airpool.radio.link import Level


@airpool.register("codec", "sketch")
@dataclass(frozen=True, eq=False)
class SketchCodec:
    """directions: (r, C), a vector of length one for each class. sharpness: of the logits."""

    directions: Array
    sharpness: float = 4.0

    @property
    def kind(self) -> str:
        return "sketch"

    @property
    def reads(self) -> Reads:
        return "posterior"

    @property
    def dimension(self) -> int:
        return self.directions.shape[0]

    @property
    def num_classes(self) -> int:
        return self.directions.shape[1]

    def encoder(self, posteriors: Array) -> Array:
        centred = posteriors - 1 / self.num_classes
        return unit(centred @ matched(self.directions, centred).T, least=1e-6)

    def server(self, level: Level) -> Callable[[Array], Array]:
        scale = self.sharpness / max(level.signal, level.noise_std, 1e-12)
        return lambda estimate: scale * (estimate @ matched(self.directions, estimate))

    def parts(self) -> tuple[Mapping[str, Array], dict[str, Any]]:
        return {"directions": self.directions}, {"sharpness": self.sharpness}

    @classmethod
    def built(cls, arrays: Mapping[str, Array], settings: Mapping[str, Any]) -> "SketchCodec":
        return cls(arrays["directions"], settings["sharpness"])


def spread(dimension: int, num_classes: int, *, steps: int = 2000) -> SketchCodec:
    """Directions far apart from each other: random ones that push each other away."""
    x = np.random.default_rng(0).standard_normal((num_classes, dimension))
    for _ in range(steps):
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        x -= 0.05 * np.exp(8 * (x @ x.T) - 8) @ x
    return SketchCodec((x / np.linalg.norm(x, axis=1, keepdims=True)).T.astype(np.float32))


if __name__ == "__main__":
    codecs.save(Path(sys.argv[1]), spread(16, 40), {"made by": Path(__file__).name})
