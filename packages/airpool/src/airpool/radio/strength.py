"""The law of how strongly a device is received where its channel is not known exactly.

    S = |ρ|²q²,  ρ = h/ĉ,  ĉ = h + CN(0, s²),  ĥ = |ĉ|        q = 1{ĥ ≥ t} (truncate),  min(1, ĥ/t) (backoff)

S and outage depend on one estimate and are drawn together. Pr(S > x) is a quadrature for every x (`_above`), or, many
times faster under fading, the integral of a density, which is compared with a few of those first (`_integrated`).
Quadratures: docs/proofs/wireless.md, "Strength".
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from airpool._support.arrays import Floats, as_floats
from airpool._support.special import i0e
from airpool.radio.fading import Fading, cdf, components

# Nodes over the gain, and over the modulus of its estimate.
_GAINS, _PARTS = (np.polynomial.legendre.leggauss(n) for n in (96, 32))
# Integration range in Gaussian scales: exp(−6.5²) is 4e-19.
_SCALES = 6.5
# Cells: of geometric probabilities in the weak tail, of equal ones in the middle, geometric in the strong tail.
_RAREST, _MIDDLE, _CELLS, _CELLS_STEADY = 1e-11, 0.1, (150, 400, 650), (1000, 2000, 3000)
# Weakest and strongest S that cells are made for.
_WEAKEST, _STRONGEST = 1e-4, 1e6
# What the quadratures may be off by, without fading and with it: ten times what more nodes have changed.
_ERROR, _ERROR_FADING = 2e-12, 5e-10
# Nodes of the density: over the gain, and over ln S in every panel.
_DENSITY, _PANEL = (np.polynomial.legendre.leggauss(n) for n in (96, 20))
# The integral of the density is taken if it is as near as this to the quadrature, wherever both are compared.
_AGREE = 2e-11


@dataclass(frozen=True, eq=False)
class Survival:
    """Pr(S > edge) at ascending edges, up to `error`; S = 0 where a device is silent, so Pr(S > 0) is 1 − outage."""

    edge: Floats
    above: Floats
    present: float
    error: float


@lru_cache(maxsize=256)
def survival(fading: Fading, threshold: float, csi_error_std: float, *, silent: bool) -> Survival:
    """The law of S for one device: threshold t and error s in units of its path gain.

    silent: below the threshold (truncate); else it transmits at its limit (backoff).
    Holds for: none, rician and rayleigh. Edges are chosen so that cells are equally likely, finer in the tails.
    """
    present = float(1 - cdf(fading, threshold, csi_error_std=csi_error_std)) if silent else 1.0

    steady = components(fading)[1][0] == 0

    direct = partial(_above, fading, threshold, csi_error_std, silent=silent)
    fast = None if steady else _integrated(fading, threshold, csi_error_std, direct, silent=silent)

    def above(x: Floats) -> Floats:
        return np.clip(np.minimum.accumulate((fast or direct)(x)), 0.0, present)

    ends = (np.geomspace(_WEAKEST, 0.5, 24), np.geomspace(0.51, 2.0, 80), np.geomspace(2.1, _STRONGEST, 32))
    coarse = as_floats(np.geomspace(_WEAKEST, _STRONGEST, 4_000)) if steady else np.concatenate(ends)
    weak, middle, strong = _CELLS_STEADY if steady else _CELLS
    levels = np.linspace(_MIDDLE, 1 - _MIDDLE, middle)[::-1]
    weakest, strongest = (np.geomspace(_RAREST, _MIDDLE, count) for count in (weak, strong))
    wanted = np.concatenate([1 - weakest, levels, strongest[::-1]]) * present
    # Where cells begin needs no precision.
    edge = np.unique(np.exp(np.interp(-wanted, -above(coarse), np.log(coarse))))
    return Survival(edge, above(edge), present, _ERROR if steady else _ERROR_FADING)


def _integrated(
    fading: Fading, t: float, s: float, direct: Callable[[Floats], Floats], *, silent: bool
) -> Callable[[Floats], Floats] | None:
    """Pr(S > x) by the density of ln S, in panels that are finer near S = 1; None where it is not near `direct`."""
    mean, variance = (float(part[0]) for part in components(fading))
    widest = float(np.clip(4 * np.sqrt(variance), 0.1, 0.7))
    side = 0.25 * min(s / max(t, 1.0), 1.0) * 2.0 ** np.arange(40)
    side = side[side < widest]
    ends = (-np.log(_WEAKEST), np.log(_STRONGEST))
    below, over = (np.concatenate([side, np.arange(widest, end - 0.1, widest), [end]]) for end in ends)
    edge = as_floats(np.concatenate([-below[::-1], [0.0], over]))
    middle, half = (edge[1:] + edge[:-1]) / 2, np.diff(edge)[:, None] / 2
    nodes, weights = _PANEL
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        density = _density(fading, t, s, (middle[:, None] + half * nodes).ravel(), silent=silent)
    density = half * density.reshape(len(middle), -1)
    degree = np.arange(len(nodes))
    legendre = (density * weights) @ np.polynomial.legendre.legvander(nodes, len(nodes) - 1) * (degree + 0.5)
    beyond = np.append(np.cumsum((density @ weights)[::-1])[::-1], 0.0) + direct(np.array([_STRONGEST]))

    def above(x: Floats) -> Floats:
        where = np.log(x)
        panel = np.clip(np.searchsorted(edge, where, side="right") - 1, 0, len(middle) - 1)
        u = np.clip((where - middle[panel]) / half[panel, 0], -1.0, 1.0)
        p = np.polynomial.legendre.legvander(u, len(nodes))
        # ∫ P_k from u to 1
        rest = np.concatenate([1 - u[:, None], (p[:, :-2] - p[:, 2:]) / (2 * degree[1:] + 1)], axis=1)
        return beyond[panel + 1] + np.einsum("ij,ij->i", legendre[panel], rest)

    # Compared inside panels: where S is likely, on the way to its ends, and where the threshold cuts it off.
    likely = np.interp(-np.linspace(0.98, 0.02, 7) * beyond[0], -beyond, edge)
    cut = 2 * np.log(max(mean, 1e-3) / max(t, 1e-3)) + np.sqrt(variance) * np.array([-2.0, -0.5, 0.5, 2.0])
    some = np.concatenate([edge[:1], likely, cut, edge[-1] * np.array([0.1, 0.4])]) + edge[len(below) + 1] / 3
    x = np.exp(np.clip(some, edge[0], edge[-1]))
    return above if np.all(np.abs(above(x) - direct(x)) <= _AGREE) else None


def _density(fading: Fading, t: float, s: float, x: Floats, *, silent: bool) -> Floats:
    """The density of ln S at x: with q = e^(−x/2), ĥ = hq or, of a weak device that transmits, h = t/q."""
    mean, variance = (float(part[0]) for part in components(fading))
    q = np.exp(-x / 2)[:, None]

    def of_gain(h: Floats) -> Floats:
        return 2 * h / variance * np.exp(-((h - mean) ** 2) / variance) * i0e(2 * mean * h / variance)

    # The Gaussian factors together: their middle, and how far they reach, above ĥ ≥ t.
    rate = 1 / variance + ((1 - q) / s) ** 2
    centre, reach, least = mean / variance / rate, _SCALES / np.sqrt(rate), t / q
    # Below a small part of the narrowest scale there is next to nothing.
    first = np.maximum(np.maximum(least, centre - reach), 1e-4 * np.minimum(reach, s / np.sqrt(q)))
    last = np.maximum(centre + np.hypot(np.maximum(least - centre, 0.0), reach), first)
    start, width = np.log(first), np.log(last / first)
    h = np.exp(start + width * (_DENSITY[0] + 1) / 2)
    of_estimate = 2 * h * q / s**2 * np.exp(-((h * (1 - q) / s) ** 2)) * i0e(2 * q * (h / s) ** 2)
    found = np.sum(of_gain(h) * of_estimate * h**2 * q / 2 * _DENSITY[1], axis=1) * width[:, 0] / 2
    if silent:
        return found
    at = (t / q)[:, 0]
    return found + of_gain(at) * at / 2 * modulus_below(np.full_like(at, t), at, s)


def _above(fading: Fading, t: float, s: float, x: Floats, *, silent: bool) -> Floats:
    """Pr(S > x): the gain h must exceed t√x, and ĥ lie below h/√x (and, under truncate, not below t)."""
    mean, variance = (float(part[0]) for part in components(fading))
    root = np.sqrt(x)[:, None]
    if variance == 0:
        return _within(np.full(root.shape, mean), root, t, s, silent=silent)[:, 0]
    spread = _SCALES * np.sqrt(variance)
    last = mean + spread
    # Far below t a silent device is next to never received.
    least = np.maximum(t * root, t - _SCALES * s) if silent else t * root
    first = np.clip(least, max(mean - spread, 0.0), last)
    # Two panels: up to where an outage next to never happens, and beyond. Nodes are denser near their lower ends.
    split = np.clip(t + _SCALES * s, first, last)
    total = np.zeros(len(x))
    for start, width in ((first, split - first), (split, last - split)):
        v = (_GAINS[0] + 1) / 2
        gain, step = start + width * v**2, width * v * _GAINS[1]
        density = 2 * gain / variance * np.exp(-((gain - mean) ** 2) / variance) * i0e(2 * mean * gain / variance)
        total += np.sum(density * step * _within(gain, root, t, s, silent=silent), axis=1)
    return total


def _within(gain: Floats, root: Floats, t: float, s: float, *, silent: bool) -> Floats:
    """Pr(t ≤ ĥ < h/√x) given h, or Pr(ĥ < h/√x) where weak devices transmit too; 0 unless h/√x > t."""
    reach = gain / root
    weak = modulus_below(np.full_like(gain, t), gain, s) if silent else 0.0
    return np.where(reach > t, np.maximum(modulus_below(reach, gain, s) - weak, 0.0), 0.0)


def modulus_below(y: Floats, gain: Floats, s: float) -> Floats:
    """Pr(|h + CN(0, s²)| < y), elementwise: Rice's density over r = h + s·u, from y to the end that h is not at.

    2r/s·exp(−u²)·I₀(x)e^−x du,  x = 2rh/s²
    """
    y, gain = np.broadcast_arrays(y, gain)
    above = y > gain
    out = above.astype(np.float64)
    inside = (y > 0) & (np.abs(y - gain) < _SCALES * s)
    b, h, over = y[inside, None], gain[inside, None], above[inside, None]
    start = np.where(over, (b - h) / s, np.maximum(-_SCALES, -h / s))
    end = np.where(over, _SCALES, (b - h) / s)
    u = start + (end - start) * (_PARTS[0] + 1) / 2
    r = np.maximum(h + s * u, 0.0)
    density = 2 * r / s * np.exp(-(u**2)) * i0e(2 * r * h / s**2)
    tail = np.sum(density * _PARTS[1], axis=1) * (end - start)[:, 0] / 2
    out[inside] = np.where(over[:, 0], 1 - tail, tail)
    return np.clip(out, 0.0, 1.0)
