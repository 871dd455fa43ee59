"""Readers of a network who guess: a yes-or-no secret of one view, by Bayes' rule, from signals drawn device by device.

The secret is the sign of device k's feature, ±w C along one coordinate; every other feature is 0, and known. Where a
score chooses, it is low for one answer and high for the other. Nothing of airpool's account is used: a network is read
by its attributes, channels are drawn by radio.Radio. A guesser may be worse than the best one, never better: what it
reaches is a lower end of the odds that a statement says.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import log_ndtr, ndtr

from .radio import Complex, Floats, Radio

# Numbers that are drawn at once.
_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Knowledge:
    """What a reader has of one inference: signals, the answer, the noise of another device, the number of slots."""

    signal: Literal["sum", "own", "antennas", "scores", "nothing"]
    answer: bool = False
    own_noise: bool = False
    slots: bool = False


@dataclass(frozen=True)
class Guesser:
    """Guesses at the secret of device k. heard: its signal is received, but whether it transmits may be by chance."""

    radio: Radio
    k: int
    rng: np.random.Generator

    @property
    def net(self) -> Any:
        return self.radio.network

    def reached(self, knowledge: Knowledge, guesses: int) -> float:
        """Share of this many guesses that are right."""
        if knowledge.signal == "nothing":
            if self.net.channel.access == "secure":
                return self._from_outside(knowledge, guesses)
            knowledge = Knowledge("sum")  # the answer is what the server guesses
        at_once = max(_AT_ONCE // (self.net.slots.count * self.radio.count * 4), 100)
        right, left = 0, guesses
        while left > 0:
            number = min(left, at_once)
            secret = np.where(self.rng.random(number) < 0.5, 1.0, -1.0)
            match knowledge.signal:
                case "own":
                    guess = self._own(secret)
                case "scores":
                    guess = self._choices(secret)[1]
                case _:
                    guess = self._radio(secret, knowledge)
            right += int(np.sum(np.where(guess == 0, self.rng.random(number) < 0.5, np.sign(guess) == secret)))
            left -= number
        return right / guesses

    @property
    def _noise(self) -> Floats:
        return self.radio.column("noise_std")

    @property
    def _shift(self) -> float:
        return float(self.radio.column("weight")[self.k] * self.radio.column("clip_norm")[self.k])

    def _slots(self, shape: tuple[int, ...], *, fresh: bool = False) -> tuple[int, ...]:
        """One draw for each slot, or one for all slots of an inference."""
        count = self.net.slots.count
        return (shape[0], count if fresh or self.net.slots.redrawn else 1, *shape[1:])

    def _known_or_gone(self) -> tuple[Any, Any]:
        """Other devices, of most noise first: those whose noise the reader knows, and those that are missing."""
        order = [int(j) for j in np.argsort(-self._noise) if j != self.k]
        c, d = self.net.colluders, self.net.dropouts
        return order[:c], order[c : c + d]

    def _choices(self, secret: Floats) -> tuple[Floats, Floats]:
        """Who transmits, (n, slots, K), and what the choice tells of the secret, as a logarithm of odds (n,)."""
        n, count, k = len(secret), self.radio.count, self.k
        scheme = self.net.scheme
        if scheme.name == "1":
            p = self.radio.column("participation")
            return (self.rng.random(self._slots((n, count))) < p).astype(np.float64), np.zeros(n)
        high, std = scheme.score_bound / (1 if scheme.score_rule == "clip" else 2), scheme.score_noise_std
        if scheme.name == "2.1":
            yes, no = (ndtr((scheme.threshold - u) / std) for u in (0.0, high))
            p = np.full((n, 1, count), no)
            p[:, 0, k] = np.where(secret > 0, yes, no)
            on = self.rng.random(self._slots((n, count))) < p
            told = np.where(
                on[..., k],
                log_ndtr((scheme.threshold) / std) - log_ndtr((scheme.threshold - high) / std),
                log_ndtr(-scheme.threshold / std) - log_ndtr((high - scheme.threshold) / std),
            )
            return on.astype(np.float64), np.sum(told, axis=1)
        order = [j for j in np.argsort(self._noise) if j != k]
        mean = np.full((n, 1, count), high)
        mean[..., order[: scheme.num_selected - 1]] = 0.0
        mean[:, 0, k] = np.where(secret > 0, 0.0, high)
        score = mean + std * self.rng.standard_normal(self._slots((n, count)))
        on = np.argsort(np.argsort(score, axis=-1), axis=-1) < scheme.num_selected
        told = ((score[..., k] - high) ** 2 - score[..., k] ** 2) / (2 * std**2)
        return on.astype(np.float64), np.sum(told, axis=1)

    def _own(self, secret: Floats) -> Floats:
        """From the device's own signal; a coin is seen to say yes."""
        on, told = self._choices(secret)
        on = on[..., self.k] if self.net.scheme.name != "1" else np.ones((len(secret), 1))
        shape = (len(secret), self.net.slots.count)
        y = on * self._shift * secret[:, None] + self._noise[self.k] * self.rng.standard_normal(shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = 2 * self._shift * np.sum(on * y, axis=1) / self._noise[self.k] ** 2
        return told + np.nan_to_num(odds, posinf=1e300, neginf=-1e300)

    def _radio(self, secret: Floats, knowledge: Knowledge) -> Floats:
        """From the sum of all signals at one or more antennas, and perhaps the answer made of the server's."""
        net, k, n = self.net, self.k, len(secret)
        on, told = self._choices(secret)
        at_server, elsewhere = self._arrives(n)
        hears = elsewhere if knowledge.signal == "antennas" else at_server
        there = np.ones_like(on) if net.cover_noise else on
        known, gone = self._known_or_gone()
        if net.channel.access == "orthogonal":
            known, gone = [j for j in range(self.radio.count) if j != k], []  # one after the other
        there[..., gone] = 0.0
        each = self._noise * there
        drawn = self.rng.standard_normal((2, n, net.slots.count, self.radio.count))
        noise = each * (drawn[0] + 1j * drawn[1])
        sent = noise.copy()
        sent[..., k] += on[..., k] * self._shift * secret[:, None]
        sent[..., known] = 0.0  # the reader takes it out
        hidden = np.array([j not in known for j in range(self.radio.count)])
        y, a = np.einsum("nsk,nskm->nsm", sent, hears), hears[..., k, :]
        G = _covariance(each**2 * hidden, hears)
        filtered = np.linalg.solve(G, a[..., None])[..., 0]
        t = np.einsum("nsm,nsm->ns", np.conj(filtered), y).real
        q = np.einsum("nsm,nsm->ns", np.conj(filtered), a).real
        coin_hidden = net.cover_noise and net.scheme.name == "1" and self.radio.column("participation")[k] < 1
        if coin_hidden:
            p = float(self.radio.column("participation")[k])
            half = self._shift**2 * q / 2
            up, down = (np.logaddexp(np.log(p) + s * self._shift * t - half, np.log1p(-p)) for s in (1, -1))
            return told + np.sum(up - down, axis=1)
        odds = told + np.sum(2 * on[..., k] * self._shift * t, axis=1)
        return odds + self._by_answer(on, each, sent, noise, known, at_server, hears, y) if knowledge.answer else odds

    def _by_answer(
        self,
        on: Floats,
        each: Floats,
        sent: Complex,
        noise: Complex,
        known: list[int],
        at_server: Complex,
        hears: Complex,
        y: Complex,
    ) -> Floats:
        """What the answer tells besides: yes or no, by the sign of what the server makes of its antennas."""
        k, hidden = self.k, np.array([j not in known for j in range(self.radio.count)])
        beam = np.linalg.solve(_covariance(each**2, at_server), at_server[..., k, :, None])[..., 0]
        c = np.einsum("nsm,nskm->nsk", np.conj(beam), at_server)
        loud = on[..., k, None] * c
        by_colluders = np.einsum("nsk,nsk->ns", loud[..., known], noise[..., known]).real
        answer = np.sign(np.sum(np.einsum("nsk,nsk->ns", loud, sent).real + by_colluders, axis=1))
        variance = each**2 * hidden
        across = np.einsum("nsk,nsk,nskm->nsm", variance, loud, np.conj(hears))
        solved = np.linalg.solve(_covariance(variance, hears), np.conj(across)[..., None])[..., 0]
        rest = np.einsum("nsk,nsk->ns", variance, np.abs(loud) ** 2)
        rest = np.maximum(rest - np.einsum("nsm,nsm->ns", across, solved).real, 1e-12 * rest)
        a = hears[..., k, :]
        told = []
        for s in (1.0, -1.0):
            x = on[..., k] * self._shift * s
            off = y - a * x[..., None]
            mean = (loud[..., k] * x + np.einsum("nsm,nsm->ns", np.conj(solved), off)).real + by_colluders
            with np.errstate(divide="ignore", invalid="ignore"):
                gap = answer * np.sum(mean, axis=1) / np.sqrt(np.sum(rest, axis=1))
            told.append(log_ndtr(np.nan_to_num(gap)))
        return told[0] - told[1]

    def _arrives(self, n: int) -> tuple[Complex, Complex]:
        """Unit signals at the server's antennas and at those elsewhere, from the same gains, (n, slots, K, M)."""
        net, slots = self.net, self._slots((n,))[1] if self.net.channel.redrawn else 1
        if net.channel.access == "secure":
            one = np.ones((n, slots, self.radio.count, 1), dtype=np.complex128)
            return one, one
        q, estimate, gain, direction = self.radio._sent(n * slots, self.rng)
        turn = np.exp(1j * net.channel.phase_error_std * self.rng.standard_normal(q.shape))
        with np.errstate(divide="ignore", invalid="ignore"):
            here = np.where(q > 0, q * gain / estimate * turn, 0.0)[..., None] * direction
            sent = np.where(q > 0, q / np.abs(estimate), 0.0)[..., None]
        antennas = max(net.adversary.antennas, 1)
        drawn = self.rng.standard_normal((2, n, 1, self.radio.count, antennas)) / np.sqrt(2)
        shape = (n, slots, self.radio.count, -1)
        return here.reshape(shape), sent.reshape(shape) * (drawn[0] + 1j * drawn[1])

    def _from_outside(self, knowledge: Knowledge, guesses: int) -> float:
        """From the answer and the number of slots of a sum, and perhaps the noise of one more device.

        The server adds slots up until the sum is far enough from 0, and answers its sign; somebody who knows the number
        alone hears most where it stops at one side only. Half of the runs learn what is usual, the other half guess.
        """
        net, k, n, most = self.net, self.k, 2 * guesses, self.net.slots.count
        known, gone = self._known_or_gone()
        other = next((j for j in np.argsort(-self._noise) if j != k and j not in known and j not in gone), None)
        secret = np.where(self.rng.random(n) < 0.5, 1.0, -1.0)
        on, _ = self._choices(secret)
        there = np.ones_like(on) if net.cover_noise else on
        there[..., [*known, *gone]] = 0.0
        std = self._noise * there
        total, own = np.zeros(n), np.zeros(n)
        slot, stopped, mine = np.full(n, most), np.zeros(n), np.zeros(n)
        running = np.ones(n, dtype=bool)
        variance = float(np.mean(np.sum(std**2, axis=-1)))
        odds = np.log(net.slots.sure / max(1 - net.slots.sure, 1e-9))
        wall = odds * variance / (2 * self._shift) if self._shift > 0 else np.inf
        for i in range(most):
            at = min(i, on.shape[1] - 1)
            drawn = std[:, at] * self.rng.standard_normal((n, self.radio.count))
            total += on[:, at, k] * self._shift * secret + drawn.sum(axis=1)
            own += 0.0 if other is None else drawn[:, other]
            far = (np.abs(total) if knowledge.answer else total) >= wall
            ends = running & (far | (i == most - 1))
            slot[ends], stopped[ends], mine[ends] = i + 1, total[ends], own[ends]
            running &= ~ends
        kind = slot * 3 * knowledge.slots + (np.sign(stopped).astype(int) + 1) * knowledge.answer
        half, kinds = n // 2, kind.max() + 1
        count = np.bincount(kind[:half], minlength=kinds) + 1e-9
        if knowledge.own_noise and (knowledge.answer or knowledge.slots):
            usual = np.bincount(kind[:half], weights=stopped[:half], minlength=kinds) / count
            guess = usual[kind] - mine
            plain = np.bincount(kind[:half], weights=secret[:half], minlength=kinds)[kind]
            right = [np.mean(np.sign(each[:half]) == secret[:half]) for each in (guess, plain)]
            guess = guess if right[0] > right[1] else plain
        else:
            guess = np.bincount(kind[:half], weights=secret[:half], minlength=kinds)[kind]
        guess, secret = guess[half:], secret[half:]
        return float(np.mean(np.where(guess == 0, self.rng.random(half) < 0.5, np.sign(guess) == secret)))


def _covariance(variance: Floats, v: Complex) -> Complex:
    """Σ_j σ_j² v_j v_jᴴ, (n, slots, M, M), with a hair of receiver noise that keeps it regular."""
    G = np.einsum("nsk,nskm,nskl->nsml", variance, v, np.conj(v))
    size = np.einsum("nsmm->ns", G).real + np.max(np.abs(v) ** 2, axis=(-1, -2)) * 1e-6
    return G + (1e-9 * size + 1e-300)[..., None, None] * np.eye(v.shape[-1])
