"""Features of your own sensors on disk, as NumPy's npz:

features     (N, K, F)  of K sensors of one width; or features_0 (N, F_0), features_1 (N, F_1), … of a width each
labels       (N,)       whole numbers or text
groups       (N,)       optional: what a split must not tear apart, such as subjects
present      (N, K)     optional, bool: False where a sensor was missing; rows of NaN mean the same
split        (N,)       optional: train, validation or test
"""

import zlib
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from airpool._support import files

_KEYS = ("labels", "groups", "present", "split")


class FeaturesFile(NamedTuple):
    """Arguments of `airpool.fit`. missing: number of (object, sensor) pairs with NaN, which `present` marks."""

    features: Any
    labels: NDArray[Any]
    groups: NDArray[Any] | None
    present: NDArray[np.bool_] | None
    split: NDArray[Any] | None
    missing: int

    @property
    def num_devices(self) -> int:
        return len(self.features) if isinstance(self.features, list) else self.features.shape[1]

    @property
    def measurements(self) -> int:
        """Number of (object, sensor) pairs."""
        return len(self.labels) * self.num_devices


def read(path: Path) -> FeaturesFile:
    """The features of a file; NaN becomes a missing sensor."""
    try:
        with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except (AttributeError, BadZipFile, EOFError, RuntimeError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(
            f"{path}: no npz file that can be read ({files.why_unreadable(error)}); numpy.savez writes one"
        ) from None
    if "labels" not in found:
        raise ValueError(f"{path}: labels missing; there is {', '.join(sorted(found)) or 'nothing'}")
    numbered = [f"features_{k}" for k in range(sum(name.startswith("features_") for name in found))]
    if ("features" in found) == bool(numbered) or not found.keys() >= set(numbered):
        raise ValueError(f"{path}: must hold features (N, K, F), or features_0, features_1, … (N, F) of a sensor each")
    names = ["features", *numbered] if "features" in found else numbered
    for name in sorted(found.keys() - {*names, *_KEYS}):
        raise ValueError(f"{path}: {name} is not known; there can be {', '.join((*names, *_KEYS))}")
    for name in names:
        if found[name].ndim != (3 if name == "features" else 2) or found[name].dtype.kind not in "fiu":
            wanted = "(N, K, F)" if name == "features" else "(N, F)"
            raise ValueError(f"{path}: {name} is {found[name].dtype} {found[name].shape}, must be numbers {wanted}")
    if len({len(found[name]) for name in names}) > 1:
        raise ValueError(f"{path}: {names[0]} to {names[-1]} must have one length, a row for each object")
    rows = [np.isnan(found[name].astype(np.float64)).any(-1) for name in names]
    hollow = rows[0] if "features" in found else np.stack(rows, 1)
    present, missing = found.get("present"), int(hollow.sum())
    if present is not None and (present.shape != hollow.shape or present.dtype != np.bool_):
        raise ValueError(f"{path}: present is {present.dtype} {present.shape}, must be bool {hollow.shape}")
    if missing:
        present = ~hollow if present is None else present & ~hollow
    features = found["features"] if "features" in found else [found[name] for name in numbered]
    return FeaturesFile(features, found["labels"], found.get("groups"), present, found.get("split"), missing)
