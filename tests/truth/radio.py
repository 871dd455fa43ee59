"""What arrives of a network's devices, in plain matrices: gains, estimates, beams, phases, antennas.

Nothing is imported from airpool: a network is read by its attributes. γ, which is a choice of the design, is given, and
so is the receive beam of a server with several antennas.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, lognorm, nakagami, ncx2

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]
# A device exactly at its limit is heard: rounding must not silence it.
_HAIR = 1 - 1e-9
# Receiver noise that is always there, as a share of all noise: it keeps matrices regular, and lowers what is learned.
_FLOOR = 1e-9


@dataclass(frozen=True)
class Radio:
    """A network with its γ and, where the server has several antennas and fading, its beam (n, K, M) → (n, M)."""

    network: Any
    gamma: float
    beam: Callable[[Complex], Complex] | None = None

    def column(self, name: str) -> Floats:
        return np.array(self.network.devices.column(name), dtype=np.float64)

    @property
    def count(self) -> int:
        return self.network.devices.count

    @property
    def steady(self) -> float:
        """Amplitude of the direct path, where the mean power is 1."""
        k = 10 ** (self.network.channel.k_factor_db / 10)
        return {"none": 1.0, "rician": float(np.sqrt(k / (k + 1))), "rayleigh": 0.0}[self.network.channel.fading]

    def least_gain(self) -> Floats:
        """t = γ√(w²C² + rσ²)·(headroom)/√P, the headroom such that a device at its limit exceeds it once in 1,000."""
        r = self.network.coordinates
        size = np.sqrt((self.column("weight") * self.column("clip_norm")) ** 2 + r * self.column("noise_std") ** 2)
        return self.gamma * size * np.sqrt(chi2.isf(1e-3, r) / r) / 10 ** (self.column("power_dbm") / 20) * _HAIR

    @property
    def other_law(self) -> Any:
        """SciPy's law of the gain at mean power 1, where it is not Rice's; None where it is."""
        name, _, value = self.network.channel.fading.partition(":")
        setting = float(value.partition("=")[2] or 0)
        s = setting * np.log(10) / 20
        laws = {"nakagami": lambda: nakagami(setting), "log-normal": lambda: lognorm(s, scale=np.exp(-(s**2)))}
        return laws[name]() if name in laws else None

    def outage(self) -> Floats:
        """How often a device is too weak: one antenna."""
        if (law := self.other_law) is not None:
            assert not self.network.channel.csi_error_std
            return np.asarray(law.cdf(self.least_gain() / 10 ** (-self.column("path_loss_db") / 20)))
        a, s = 10 ** (-self.column("path_loss_db") / 20), self.network.channel.csi_error_std
        t, direct = self.least_gain(), a * self.steady
        scattered = a**2 - direct**2 + s**2
        with np.errstate(divide="ignore", invalid="ignore"):
            faded = ncx2.cdf(2 * t**2 / scattered, 2, 2 * direct**2 / scattered)
        return np.where(scattered > 1e-15 * a**2, np.nan_to_num(faded), (direct < t).astype(np.float64))

    def arriving(self, n: int, rng: np.random.Generator) -> Complex:
        """A unit signal of every device at every antenna of the server, (n, K, M), as a share of γ; 0 if silent."""
        q, estimate, gain, direction = self._sent(n, rng)
        turn = np.exp(1j * self.network.channel.phase_error_std * rng.standard_normal(q.shape))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(q > 0, q * gain / estimate * turn, 0.0)
        return ratio[..., None] * direction

    def overheard(self, n: int, places: int, rng: np.random.Generator, *, answered: bool) -> Complex:
        """The same for an eavesdropper, (places, n, K, M): its channels stay, gains are drawn anew n times.

        answered: it learns the answer, and so has the server's antennas as well, as its last ones.
        """
        shape = (places, n, self.count)
        q, estimate, gain, direction = self._sent(places * n, rng)
        elsewhere = _circular((places, 1, self.count, self.network.adversary.antennas), rng)
        turn = np.exp(1j * self.network.channel.phase_error_std * rng.standard_normal(q.shape))
        with np.errstate(divide="ignore", invalid="ignore"):
            sent, here = np.where(q > 0, q / np.abs(estimate), 0.0), np.where(q > 0, q * gain / estimate * turn, 0.0)
        heard = sent.reshape(shape)[..., None] * elsewhere
        if not answered:
            return heard
        return np.concatenate([heard, (here[..., None] * direction).reshape(*shape, -1)], axis=-1)

    def _sent(self, n: int, rng: np.random.Generator) -> tuple[Floats, Complex, Floats, Complex]:
        """Share of full strength that devices send at, their estimates, their gains, and what antennas hear of them."""
        channel, shape = self.network.channel, (n, self.count)
        a = 10 ** (-self.column("path_loss_db") / 20)
        if channel.fading == "none":
            gain = np.broadcast_to(a, shape)
            direction = _circular((*shape, channel.antennas), rng)
            direction[..., 0] = 1.0
        elif (law := self.other_law) is not None:
            gain, direction = law.rvs(shape, random_state=rng) * a, np.ones((*shape, 1), dtype=np.complex128)
        else:
            phase = np.exp(2j * np.pi * rng.random((*shape, channel.antennas)))
            h = self.steady * phase + np.sqrt(1 - self.steady**2) * _circular((*shape, channel.antennas), rng)
            if channel.antennas == 1:
                gain, direction = np.abs(h[..., 0]) * a, np.ones((*shape, 1), dtype=np.complex128)
            else:
                assert self.beam is not None
                heard = np.sum(np.conj(self.beam(h))[:, None, :] * h, axis=-1)
                gain, direction = np.abs(heard) * a, h / heard[..., None]
        estimate = gain + channel.csi_error_std * _circular(shape, rng)
        t, known = self.least_gain(), np.abs(estimate)
        weak = np.zeros(shape) if channel.power_rule == "truncate" else known / np.where(t > 0, t, 1.0)
        return np.where(known >= t, 1.0, weak), estimate, gain, direction


def _circular(shape: tuple[int, ...], rng: np.random.Generator) -> Complex:
    """CN(0, 1)."""
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)


def others_noise(v: Any, variance: Floats, there: Floats, k: int, receiver: float = 0.0) -> Floats:
    """R of device k in every draw: the others' noise along its own direction; inf where it is silent itself.

    v: (..., K, D). there: (..., K), whose noise is there. With G = Σ_{j≠k} σ_j² v_j v_jᴴ, R = 1/(v_kᴴ G⁻¹ v_k): a
    feature of length Δ is told from 0 with μ² = Δ²/(σ_k² + R).
    """
    own = v[..., k, :]
    weight = there * variance
    weight[..., k] = 0.0
    if v.shape[-1] == 1:
        size = np.abs(own[..., 0]) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = np.sum(weight * np.abs(v[..., 0]) ** 2, axis=-1) + receiver
            return np.where(size > 0, rest / size, np.inf)
    G = np.einsum("...k,...kd,...ke->...de", weight, v, np.conj(v))
    size = np.sum(np.abs(own) ** 2, axis=-1)
    scale = np.trace(G, axis1=-2, axis2=-1).real + variance[k] * size
    d = v.shape[-1]
    G = G + (receiver + _FLOOR * np.maximum(scale, 1e-300))[..., None, None] * np.eye(d)
    q = np.einsum("...d,...d->...", np.conj(own), np.linalg.solve(G, own[..., None])[..., 0]).real
    with np.errstate(divide="ignore"):
        return np.where(size > 0, 1 / q, np.inf)
