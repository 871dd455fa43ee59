"""Ranking server of Scheme 2.2: it receives noisy scores, and nothing else, and selects the k̃ lowest (Algorithm 3).

    𝒦̃ = the k̃ devices of smallest ũ_k = u_k + v_k,  v_k ~ N(0, σ_k²)

`selected` is the server's decision. `participation` is how often each device is selected, exactly; `union_bounds`
bounds it without an integral. The paper's bounds are paper.formulas.theorem3; the leakage is
privacy.leakage.ranking_game.
"""

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from airpool._support.arrays import Array, Floats, finite, not_negative, require
from airpool.network import NetworkError, Ranking
from airpool.network.scheme import SchemeRules
from airpool.schemes import quadrature


def selected(noisy_scores: Array, num_selected: int) -> Array:
    """The devices that transmit, (..., K) of bool: `num_selected` of each row, those of the lowest noisy scores.

    Of equal scores the device of the lower index goes first, which leaks nothing: the server knows both.

    >>> selected(np.array([0.9, 0.2, 0.5, 0.2, 0.5]), 3)
    array([False,  True,  True,  True, False])
    """
    xp = array_namespace(noisy_scores)
    _check_number(num_selected, int(noisy_scores.shape[-1]))
    require("noisy_scores", noisy_scores, "must be finite: no device sends anything else", ok=xp.isfinite)
    order = xp.argsort(noisy_scores, axis=-1, stable=True)
    return xp.argsort(order, axis=-1) < num_selected


def participation(scores: ArrayLike, *, score_noise_std: ArrayLike, num_selected: int) -> Floats:
    """Probability that each device is among the lowest, from bounded scores (..., K), one row for each object.

        p_k = ∫ φ_k(x) Pr(#{j ≠ k : ũ_j < x} ≤ k̃ − 1) dx      good to about 1e-10; they sum to k̃

    score_noise_std: one number, one per device, or the shape of scores. The work is bounded by the number of devices.
    Differs from the paper: its Theorem 3 bounds this, not always on the right side (paper.formulas.theorem3).
    Edge cases: a device without noise sits at one point; equal ones are ranked by index, as the server does.

    >>> u, std = [0.2, 0.35, 0.5, 0.9, 1.4, 2.0], [0.3, 0.3, 0.4, 0.2, 0.5, 0.3]
    >>> participation(u, score_noise_std=std, num_selected=3).round(3)
    array([0.975, 0.936, 0.796, 0.216, 0.076, 0.   ])
    """
    u, std = _checked(scores, score_noise_std, num_selected)
    return quadrature.participation(u, std, num_selected)


class SelectionBounds(NamedTuple):
    """Proven ends of every device's participation."""

    lower: Floats
    upper: Floats


def union_bounds(scores: ArrayLike, *, score_noise_std: ArrayLike, num_selected: int) -> SelectionBounds:
    """Bounds without an integral, (..., K) each, cut to [0, 1]. 𝒦 is the true set, of the k̃ lowest scores.

        k ∈ 𝒦:  p_k ≥ 1 − Σ_{j∉𝒦} Φ((u_k − u_j)/√(σ_k² + σ_j²))      a device outside ranked before it
        k ∉ 𝒦:  p_k ≤ Σ_{i∈𝒦} Φ((u_i − u_k)/√(σ_i² + σ_k²))          it ranked before a device inside

    Holds for: any scores and noise; the other side is 1 or 0. Two devices without noise never swap.
    """
    from airpool._support.special import ndtr

    u, std = quadrature.scaled(*_checked(scores, score_noise_std, num_selected))
    inside = selected(u, num_selected)
    gap, spread = u[..., :, None] - u[..., None, :], np.hypot(std[..., :, None], std[..., None, :])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        later = np.where(spread > 0, ndtr(gap / spread), 0.0)  # Pr(the first of the pair comes after the second)
    passed = np.sum(later * ~inside[..., None, :], axis=-1)
    passing = np.sum(np.swapaxes(later, -1, -2) * inside[..., None, :], axis=-1)
    return SelectionBounds(
        np.where(inside, np.clip(1 - passed, 0, 1), 0.0), np.where(inside, 1.0, np.clip(passing, 0, 1))
    )


def _checked(scores: ArrayLike, score_noise_std: ArrayLike, num_selected: int) -> tuple[Floats, Floats]:
    u, std = finite("scores", scores), not_negative("score_noise_std", score_noise_std)
    if u.ndim == 0:
        raise ValueError(f"scores={u:g} must have one number for each device, (..., K)")
    _check_number(num_selected, u.shape[-1])
    try:
        return u, np.broadcast_to(std, u.shape)
    except ValueError:
        raise ValueError(
            f"score_noise_std has shape {std.shape}, must be one number, or fit scores {u.shape}"
        ) from None


def _check_number(num_selected: int, num_devices: int) -> None:
    if num_selected > num_devices:
        raise ValueError(f"num_selected={num_selected} must not exceed the {num_devices} devices")
    if num_selected < 1:
        raise ValueError(f"num_selected={num_selected} must be >= 1: at least one device has to transmit")


def _check(network: Any) -> None:
    if (number := network.scheme.num_selected) > network.devices.count:
        raise NetworkError(f"scheme.num_selected={number} must not exceed the {network.devices.count} devices")


def _participation(scheme: Ranking, scores: Floats) -> Floats:
    return participation(scores, score_noise_std=scheme.score_noise_std, num_selected=scheme.num_selected)


RULES = SchemeRules(
    settings=Ranking,
    scored=True,
    ranked=True,
    assumption="All noisy scores are visible; ε assumes the selection that leaves the least noise.",
    expected=lambda network: network.scheme.num_selected / network.devices.count,
    participation=_participation,
    chosen=lambda scheme, noisy_scores: selected(noisy_scores, scheme.num_selected),
    selects=lambda scheme: scheme.num_selected,
    words=lambda scheme: f"Scheme 2.2, k̃ = {scheme.num_selected}",
    check=_check,
)
