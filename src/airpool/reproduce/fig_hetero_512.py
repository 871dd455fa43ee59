"""Half of the devices sensitive, q = 512: as fig_hetero_16, from a codec trained and measured on a GPU.

By Theorem 1's account uniform alone was measured. Weights and clip norms are those designed on the validation latents
of q = 16: they need not be the best for this codec, but meet every ε.
"""

from pathlib import Path

from airpool.reproduce.fig_hetero_16 import INSTEAD, checks, drawing
from airpool.reproduce.results import GPU_RUN, IDEAL, RENDERS, OnStep, Rows, elsewhere, unheard
from airpool.reproduce.verdicts import Finding
from airpool.sweep import Table

ID = "fig-hetero-512"
TITLE = "Half of the devices sensitive, q = 512"
PAPER = (
    "Accuracy against ε with half of the devices sensitive: uniform (w = 1/K, C_k = C), optimised weights, refined "
    "clip norms; q = 512 (r = 25,088). No numbers are printed."
)
SETTING = f"{RENDERS} {IDEAL}"
FRESH = False


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    raise elsewhere(ID, GPU_RUN)


def draw(table: Rows, folder: Path) -> list[Path]:
    return drawing(table, folder, ID)


def finding(table: Rows) -> Finding:
    return Finding(
        checks(table),
        "The paper's own account is drawn for uniform alone: neither the codec nor its latents (r = 25,088) ship, so "
        "its designs cannot be redrawn here. One codec; errors are over draws of the noise.",
        INSTEAD,
    )
