"""δ of a device at any ε, from below, written apart from airpool's account.

A network and its claim are read by their attributes; of airpool nothing is imported. Participation, outage and
colluders are a law on a grid whose noise is rounded up, errors and antennas are drawn (a bound that fails once in 1e9),
streams are composed with losses rounded down (curves.py). So a claimed ε is refuted where δ at this ε is above the
claim's own.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import norm

from .curves import (
    Floats,
    Outcomes,
    gaussian,
    hidden_replace,
    hidden_zero_out,
    mean_from_below,
    mixed,
    once,
    removal,
    stream,
)
from .law import Law, known
from .radio import Radio, others_noise
from .simulated import FEW, by_rank, removed_under_cover

# Draws of the channel, and of streams over one channel.
DRAWS, PLACES = 6000, 1500
# Cells of a law of noise; kinds of noise where a whole curve is composed.
_CELLS, _KINDS = 400, 12


@dataclass(frozen=True)
class Oracle:
    """Lower bounds on δ for the devices of one network."""

    radio: Radio
    claim: Any
    seed: int = 0
    redrawn: bool | None = None
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rng", np.random.default_rng([28, self.seed]))

    @cached_property
    def net(self) -> Any:
        return self.radio.network

    @cached_property
    def variance(self) -> Floats:
        return self.radio.column("noise_std") ** 2

    @cached_property
    def renewed(self) -> bool:
        """Whether the channel is drawn anew in every inference."""
        return self.net.channel.redrawn if self.redrawn is None else self.redrawn

    def shift(self, k: int) -> float:
        return float(self.radio.column("weight")[k] * self.radio.column("clip_norm")[k])

    def distance(self, k: int) -> float:
        return self.shift(k) * (2 if self.claim.neighbours == "replace" else 1)

    @cached_property
    def extra(self) -> float:
        credited = self.claim.credit_channel_noise and self.net.channel.access != "secure"
        return (self.net.channel.noise_std / self.radio.gamma) ** 2 if credited else 0.0

    def lending(self, k: int) -> Floats:
        """How often everybody's noise is there when device k asks; 0 for those who collude or dropped out.

        Of them only a number is known, so one set is as good as any for a lower bound: those with the most noise.
        """
        scheme, p = self.net.scheme, self.radio.column("participation")
        if scheme.name == "2.1":
            # The others' scores are the highest: they transmit as rarely as they can.
            p = np.full_like(p, self._speaks(self.score_range))
        if self.net.cover_noise:
            p = np.ones_like(p)
        honest = np.ones(self.radio.count, dtype=bool)
        honest[list(self.claim.colluding)] = False
        honest[k] = False
        absent = min(self.net.colluders + self.net.dropouts, int(honest.sum()))
        for j in np.argsort(-np.where(honest, self.variance * p, -1.0))[:absent]:
            honest[j] = False
        return np.where(honest & (self.net.channel.access != "orthogonal"), p, 0.0)

    @cached_property
    def aligned(self) -> bool:
        """Whether whoever is heard is heard at full strength, in one direction."""
        channel = self.net.channel
        weak = channel.power_rule != "truncate" and bool(np.any(self.outage > 0))
        alone = channel.access == "secure" or (channel.access == "orthogonal" and not self.extra)
        return alone or not (channel.csi_error_std > 0 or channel.antennas > 1 or weak)

    @cached_property
    def outage(self) -> Floats:
        if self.net.channel.access == "secure" or self.net.channel.power_rule == "paper":
            return np.zeros(self.radio.count)  # networks with these rules are made such that power never limits
        return self.radio.outage()

    @cached_property
    def arriving(self) -> Any:
        """What arrives of all devices in many draws of the channel, (n, K, D)."""
        return self.radio.arriving(DRAWS, self.rng)

    @cached_property
    def _laws(self) -> dict[int, Law]:
        return {}

    def law(self, k: int) -> Law:
        """Of the others' noise beside device k, in one inference in which it transmits."""
        if k not in self._laws:
            self._laws[k] = self._on_a_grid(k) if self.aligned else self._drawn(k)
        return self._laws[k]

    def _on_a_grid(self, k: int) -> Law:
        """Exactly, or rounded up to a grid."""
        heard = 1 - self.outage if self.net.channel.power_rule == "truncate" else np.ones(self.radio.count)
        chance = self.lending(k) * heard
        most = float(np.sum(self.variance[chance > 0])) or 1.0
        alike = len({(v, c) for v, c in zip(self.variance, chance, strict=True) if c > 0}) <= 2
        noise, p = np.array([self.extra]), np.ones(1)
        for v, c in zip(self.variance, chance, strict=True):
            if c <= 0:
                continue
            noise, p = np.concatenate([noise, noise + v]), np.concatenate([p * (1 - c), p * c])
            # The same sum up to rounding is the same value; beyond that, up to the next point of a grid.
            fine = 1e12 if alike or len(noise) <= 2 * _CELLS else _CELLS * 10
            points, which = np.unique(np.ceil(noise / most * fine - 1e-3), return_inverse=True)
            p = np.bincount(which.ravel(), weights=p)
            noise = np.maximum(points / fine * most, self.extra)  # rounding never takes the receiver's away
        return Law(noise, p * heard[k])

    def _drawn(self, k: int) -> Law:
        v = self.arriving
        there = (self.rng.random(v.shape[:2]) < self.lending(k)).astype(np.float64)
        noise = others_noise(v, self.variance, there, k, self.extra)
        return Law(noise, np.full(DRAWS, 1 / DRAWS), sampled=True)

    def local_delta(self, k: int, epsilon: float) -> float:
        """Nobody else's noise counts, and the device is known to take part; zero-out and replace."""
        if not np.isfinite(epsilon) or self.distance(k) == 0:
            return 0.0
        p = float(self.radio.column("participation")[k])
        mu = np.sqrt(self.claim.inferences) * self.distance(k) / np.sqrt(max(self.variance[k], 1e-300))
        return float(gaussian(epsilon, mu)) if p > 0 else 0.0

    def squares(self, k: int, law: Law) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.distance(k) ** 2 / (self.variance[k] + law.noise)
        return np.where(self.distance(k) == 0, 0.0, np.where(np.isinf(law.noise), 0.0, found))

    @cached_property
    def score_range(self) -> float:
        scheme = self.net.scheme
        return scheme.score_bound / (1 if scheme.score_rule == "clip" else 2)

    def _speaks(self, score: float) -> float:
        scheme = self.net.scheme
        return float(norm.cdf((scheme.threshold - score) / scheme.score_noise_std))

    def delta(self, k: int, epsilon: float, *, times: int | None = None, law: Law | None = None) -> float:
        """A lower bound on δ of device k at ε, over `times` inferences."""
        if not np.isfinite(epsilon):
            return 0.0
        times = int(self.claim.inferences) if times is None else times
        law = self.law(k) if law is None else law
        if self.net.scheme.name == "2.2":
            return by_rank(self, k, epsilon, times)
        if self.net.scheme.name == "2.1":
            corners = (0.0, self.score_range)
            return max(
                self._visible(k, epsilon, times, law, self._speaks(u), self._speaks(v))
                for u in corners
                for v in corners
            )
        p = float(self.radio.column("participation")[k])
        if self.claim.neighbours == "remove" or (self.net.cover_noise and p < 1):
            return self._hidden(k, epsilon, times, law, p)
        return self._visible(k, epsilon, times, law, p, p)

    def _visible(self, k: int, epsilon: float, times: int, law: Law, p: float, other: float) -> float:
        """Who transmits is seen: with probability p under P and `other` under Q, where the device is heard."""
        square, heard = self.squares(k, law), float(law.probability.sum())
        loud, quiet = (np.log(p / other), np.log((1 - p) / (1 - other))) if p != other else (0.0, 0.0)
        if times > 1 and not self.renewed:
            return self._common(k, epsilon, times, p, loud, quiet)
        if law.sampled and times == 1:
            silent = (1 - p) * max(0.0, -float(np.expm1(min(epsilon - quiet, 0.0))))
            seen = p * gaussian(epsilon - loud, np.sqrt(square)) + silent
            return mean_from_below(np.where(np.isfinite(law.noise), seen, 0.0))
        law = known(law) if law.sampled else law
        heard = float(law.probability.sum())
        found = law if times == 1 else law.merged(_CELLS)
        square = self.squares(k, found)
        outcomes = Outcomes(
            np.concatenate([found.probability * p, [heard * (1 - p), max(0.0, 1 - heard)]]),
            np.concatenate([np.full(len(square), loud), [quiet, 0.0]]),
            np.concatenate([square, [0.0, 0.0]]),
        )
        if np.any(np.isinf(outcomes.square) & (outcomes.probability > 0)):
            bare = float(np.sum(outcomes.probability[np.isinf(outcomes.square)]))
            return -np.expm1(times * np.log1p(-min(bare, 1 - 1e-16)))
        return outcomes.delta(epsilon, times, self.rng)

    def _common(self, k: int, epsilon: float, times: int, p: float, loud: float, quiet: float) -> float:
        """A stream over one draw of the channel: exact where everybody always takes part, else some inferences of it.

        Participation is drawn anew; nobody sees what a device decides that is too weak.
        """
        if self.aligned:
            v = (self.rng.random((PLACES, self.radio.count, 1)) < 1 - self.outage[:, None]).astype(np.float64)
        else:
            v = self.arriving[:PLACES]
        lending = self.lending(k)
        certain = p == 1 and bool(np.all((lending == 0) | (lending == 1)))
        total, loss = np.zeros(PLACES), np.zeros(PLACES)
        for _ in range(1 if certain else min(times, FEW)):
            there = (self.rng.random(v.shape[:2]) < lending).astype(np.float64)
            noise = others_noise(v, self.variance, there, k, self.extra)
            on = self.rng.random(PLACES) < p
            total += on * self.squares(k, Law(noise, noise))
            loss += np.where(on, loud, quiet) * np.isfinite(noise)
        return mean_from_below(gaussian(epsilon - loss, np.sqrt(total * (times if certain else 1))))

    def _hidden(self, k: int, epsilon: float, times: int, law: Law, p: float) -> float:
        """Nobody sees whether device k takes part, or whether it is there at all."""
        own, shift, gone = self.variance[k], self.shift(k), self.claim.neighbours == "remove"
        if p == 0 and not gone:
            return 0.0
        if not self.renewed and (not self.aligned or bool(np.any(self.outage > 0))):
            times = 1
        few = known(law) if law.sampled else law
        few = few.merged(60 if times == 1 else _KINDS if times <= 4096 else 4)
        heard = float(few.probability.sum())
        if heard == 0:
            return 0.0
        if gone and (self.net.cover_noise or own < 1e-3 * float(few.noise.min())):
            return removed_under_cover(self, k, epsilon, times, few, p)
        if float(few.noise.min()) + (0.0 if gone else own) <= 0:
            bare = float(few.probability[few.noise + (0.0 if gone else own) <= 0].sum()) * p
            return -np.expm1(times * np.log1p(-min(bare, 1 - 1e-16))) if shift > 0 or own > 0 else 0.0
        parts = []
        for noise, share in zip(few.noise, few.probability, strict=True):
            mu = shift / np.sqrt(noise + own)
            if gone:
                pair = removal(p, shift, own, noise, self.net.coordinates) if p > 0 else None
            else:
                pair = hidden_replace(p, mu) if self.claim.neighbours == "replace" else hidden_zero_out(p, mu)
            if pair is None or (mu == 0 and not gone):
                return 0.0
            parts.append((float(share), pair))
        ways = mixed(parts, max(0.0, 1 - heard))
        if times == 1:
            return max(once(below, epsilon) for below in ways)
        return max(stream(below, times, cells=2**12 if gone else 2**18).delta(epsilon) for below in ways)

    def object_delta(self, epsilon: float) -> float:
        """All views change at once, all in one direction; who takes part is seen. One inference."""
        if not np.isfinite(epsilon):
            return 0.0
        v = np.ones((DRAWS, self.radio.count, 1)) if self.net.channel.access == "secure" else self.arriving
        on = (self.rng.random(v.shape[:2]) < self.radio.column("participation")).astype(np.float64)
        noisy = np.ones_like(on) if self.net.cover_noise else on
        d = np.array([self.distance(j) for j in range(self.radio.count)])
        whole = np.einsum("nk,nkd->nd", on * d, v)
        G = np.einsum("nk,nkd,nke->nde", noisy * self.variance, v, np.conj(v))
        scale = np.trace(G, axis1=-2, axis2=-1).real + np.sum(np.abs(whole) ** 2, axis=-1) + 1e-300
        G = G + (self.extra + 1e-9 * scale)[:, None, None] * np.eye(v.shape[-1])
        square = np.einsum("nd,nd->n", np.conj(whole), np.linalg.solve(G, whole[..., None])[..., 0]).real
        return mean_from_below(gaussian(epsilon, np.sqrt(square)))

    def overheard_delta(self, k: int, epsilon: float) -> float:
        """Against the eavesdropper: all channels are drawn anew or stay, or its own stay and gains are drawn anew."""
        if not np.isfinite(epsilon):
            return 0.0
        found = self._overheard(k, epsilon)
        return found if self.claim.inferences == 1 else max(found, self._overheard(k, epsilon, moves=True))

    def _overheard(self, k: int, epsilon: float, *, moves: bool = False) -> float:
        """moves: to a new place for each inference."""
        times, lending = self.claim.inferences, self.lending(k)
        p = float(self.radio.column("participation")[k])
        certain = p == 1 and bool(np.all((lending == 0) | (lending == 1)))
        still = not self.renewed or (self.net.channel.fading == "none" and not self.net.channel.csi_error_std)
        still = still and not moves
        often = 1 if still and certain else min(times, FEW)
        beams = self.net.channel.antennas > 1 and self.net.channel.fading != "none"
        places = DRAWS if often == 1 or still else 400 if beams else 3000
        at = (places * often, 1) if moves else (places, 1 if still else often)
        v = self.radio.overheard(at[1], at[0], self.rng, answered=self.claim.knows_answer)
        v = v.reshape(places, often, *v.shape[2:]) if moves else np.broadcast_to(v, (places, often, *v.shape[2:]))
        there = (self.rng.random(v.shape[:3]) < lending).astype(np.float64)
        noise = others_noise(v, self.variance, there, k)
        if times == 1 or (self.net.cover_noise and p < 1):
            law = Law(noise[:, 0], np.full(places, 1 / places), sampled=True)
            return self.delta(k, epsilon, times=1, law=law)
        total = np.sum((self.rng.random(noise.shape) < p) * self.squares(k, Law(noise, noise)), axis=1)
        return mean_from_below(gaussian(epsilon, np.sqrt(total * (times if still and certain else 1))))


@dataclass(frozen=True)
class Picked(Oracle):
    """The same where the server picks the draws of the channel that it asks in: `outages` others are not received.

    outages: None where gains vary as well. It then asks in draws with a leverage that one draw in a thousand exceeds.
    """

    outages: int | None = None

    @cached_property
    def net(self) -> Any:
        net = self.radio.network
        return replace(net, dropouts=min(net.dropouts + (self.outages or 0), net.devices.count - 1))

    @cached_property
    def outage(self) -> Floats:
        return np.zeros(self.radio.count) if self.outages is not None else self.radio.outage()

    def picked_delta(self, k: int, epsilon: float) -> float:
        """A lower bound on δ of device k at ε; 0 where gains and coins vary together."""
        if self.outages is not None:
            return self.delta(k, epsilon)
        certain = np.all(self.radio.column("participation") == 1) and self.net.scheme.name == "1"
        if not certain or self.claim.neighbours == "remove":
            return 0.0
        law = self._drawn(k)
        square = np.sort(np.where(np.isfinite(law.noise), self.squares(k, law), 0.0))
        # One in 200 of the draws: next to never are fewer than one in a thousand among all.
        return float(gaussian(epsilon, np.sqrt(self.claim.inferences * square[-DRAWS // 200])))
