"""Figure: which classes of test objects are taken for which."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from airpool._support import figures

_WRITTEN = 15  # classes, beyond which numbers in the cells could not be read


def draw(record: Mapping[str, Any], *paths: Path) -> None:
    """Draws the confusions of a record, as shares of each class; nothing where nothing was tested."""
    if record["confusion"] is None:
        return
    counts, names = np.array(record["confusion"]), list(record["classes"])
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1e-12)
    size = 2.2 + 0.34 * min(len(names), 40)
    with figures.figure(*paths, width=size + 1.6, height=size) as (_, axes):
        shown = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
        axes.figure.colorbar(shown, label="share of the class", shrink=0.8)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel(f"answer at ε = {record['confused_at']:g}")
        axes.set_ylabel("class")
        axes.grid(visible=False)
        for i, j in np.argwhere(share >= 0.005).tolist() if len(names) <= _WRITTEN else ():
            text = f"{share[i, j]:.2f}".removeprefix("0")
            axes.text(j, i, text, ha="center", va="center", fontsize=7, color="white" if share[i, j] > 0.5 else "black")
