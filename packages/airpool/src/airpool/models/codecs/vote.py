"""The vote: every device sends its own posterior, and the server names the likeliest class of the noisy sum.

    device   posterior π (..., L) → z = (π^t/Σπ^t − 1/L)/‖·‖, 0 where π is uniform; r = L
    server   estimate (..., L) and its noise level → linear discriminant → logits (..., L)

No training beyond the local head: class means and prior, the covariance within classes, and the sharpness t are fitted
to posteriors of labelled objects in a moment. So it is what every other codec must beat.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace

from airpool._support.arrays import Array, Floats, as_floats, like, require, require_array, require_shape
from airpool._support.brief import Brief
from airpool.models.codecs.codec import Reads
from airpool.models.layers import in_float64, softmax, unit
from airpool.radio.link import Level

if TYPE_CHECKING:
    from torch import Tensor

SHARPNESS = (0.25, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0, 8.0)
BALANCE = 0.5  # the frequency of each class at the cameras is unknown
NOISE = (0.31, 0.17, 0.09, 0.04)  # relative to the signal: twelve devices at ε = 1, 2, 4 and 10, δ = 1e-5

_SHORTEST = 1e-6  # deviation from the uniform posterior that is scaled to length one: below it there is rounding alone
_LEAST_NOISE = 0.1  # relative to the signal, that the server is made for, as the linear server of prediction.py
_FOLDS, _DRAWS = 5, 8  # of cross-validation: parts of the objects, draws of the noise for each


@dataclass(frozen=True, eq=False, repr=False)
class Vote(Brief):
    """sharpness: t. Of z's mean over devices: means (L, L) of classes, covariance (L, L) within. prior: (L,)."""

    sharpness: float
    means: Array
    covariance: Array
    prior: Array

    def __post_init__(self) -> None:
        if not 0 < self.sharpness < math.inf:
            raise ValueError(f"sharpness={self.sharpness!r} must be > 0 and finite")
        square = (math.prod(self.prior.shape),) * 2
        for name, wanted in (("means", square), ("covariance", square), ("prior", square[:1])):
            require_shape(name, getattr(self, name), wanted)
        require("prior", self.prior, "must be > 0", ok=lambda p: p > 0)

    @property
    def kind(self) -> str:
        return "vote"

    @property
    def reads(self) -> Reads:
        return "posterior"

    @property
    def num_classes(self) -> int:
        return len(self.means)

    @property
    def dimension(self) -> int:
        return len(self.means)

    def encoder(self, posteriors: Array) -> Array:
        """Latents (..., L) of posteriors (..., L)."""
        return encoded(posteriors, self.sharpness)

    def matrices(self, level: Level) -> tuple[tuple[Floats, Floats], ...]:
        """The server for this level as one layer (matrix, bias), in float64.

            logits = A ẑ + b,   A = s M (s² S + σ² I)⁻¹,   b = log π − ½ diag(A s Mᵀ)

        for signal s, noise σ, means M, covariance S and prior π. Holds for: latents of length one, clip norms ≤ 1.
        Edge case: no signal → the most frequent class.
        """
        M, S, prior = map(in_float64, (self.means, self.covariance, self.prior))
        s, noise = level.signal, max(level.noise_std, _LEAST_NOISE * level.signal) or 1.0
        A = as_floats(np.linalg.solve((s / noise) ** 2 * S + np.eye(len(S)), s / noise**2 * M.T).T)
        return ((A, np.log(prior) - s * np.sum(A * M, axis=1) / 2),)

    def server(self, level: Level) -> Callable[[Array], Array]:
        """The server's function of estimates (..., L), for a network with this level of signal and noise."""
        A, b = self.matrices(level)[0]
        return lambda estimate: estimate @ like(A, estimate).T + like(b, estimate)

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays = {"means": self.means, "covariance": self.covariance, "prior": self.prior}
        return arrays, {"sharpness": self.sharpness}

    @classmethod
    def built(cls, arrays: Mapping[str, Array], settings: Mapping[str, Any]) -> "Vote":
        return cls(settings["sharpness"], **arrays)


@np.errstate(all="ignore")
def encoded(posteriors: Array, sharpness: float = 1.0) -> Array:
    """z = (π^t/Σπ^t − 1/L)/‖·‖ of posteriors π (..., L); never raises on values: NaN, which the clip makes 0."""
    sharp = softmax(sharpness * array_namespace(posteriors).log(posteriors))
    return unit(sharp - 1 / posteriors.shape[-1], least=_SHORTEST)


def fit(
    posteriors: "Tensor",
    labels: "Tensor",
    *,
    sharpness: Sequence[float] = SHARPNESS,
    balance: float = BALANCE,
    seed: int = 0,
) -> Vote:
    """The vote for local posteriors (N, K, L) and labels (N,) of objects that the local head was not trained on.

    sharpness: values of which cross-validation takes the most accurate on average over NOISE, over objects and over
    classes. balance: of the prior, from 0, frequencies as they are here, to 1, all classes alike.
    Edge case: a class without objects has a mean and a prior all the same; one sure vote is added to every class.
    """
    import torch

    from airpool.models.latents import check_labels

    require_array("posteriors", posteriors, torch=True)
    if posteriors.ndim != 3 or min(posteriors.shape) < 1 or not posteriors.is_floating_point():
        raise ValueError(f"posteriors is {posteriors.dtype} {tuple(posteriors.shape)}, must be float (N, K, L), N ≥ 1")
    objects, num_classes = len(posteriors), posteriors.shape[2]
    require("posteriors", posteriors, "must be ≥ 0 and finite", ok=lambda p: (p >= 0) & (p < torch.inf))
    require("sum of posteriors", posteriors.sum(-1), "must be > 0", ok=lambda total: total > 0)
    check_labels(labels, objects=objects)
    require("labels", labels, f"must be below {num_classes}", ok=lambda y: y < num_classes)
    if not 0 <= balance <= 1:
        raise ValueError(f"balance={balance!r} must be from 0 to 1")
    posteriors, labels = posteriors.detach().float().cpu(), labels.long().cpu()
    rng = torch.Generator().manual_seed(seed)
    fold = torch.randperm(objects, generator=rng) % _FOLDS
    normal = torch.randn(objects, _DRAWS, num_classes, generator=rng)

    seen = labels.bincount(minlength=num_classes)

    def score(t: float) -> float:
        """Accuracy over objects and over classes, in turn, on average."""
        votes, right = encoded(posteriors, t).mean(1), torch.zeros(objects, dtype=torch.float64)
        for own in (fold == each for each in fold.unique()):
            vote = _discriminant(votes[~own], labels[~own], t, balance)
            for std in NOISE:
                logits = vote.server(Level(1.0, std))(votes[own, None] + std * normal[own])
                right[own] += (logits.argmax(-1) == labels[own, None]).double().mean(1)
        of_class = torch.zeros(num_classes, dtype=right.dtype).index_add_(0, labels, right)[seen > 0] / seen[seen > 0]
        return float(right.mean() + of_class.mean())

    t = max(sharpness, key=score)
    return _discriminant(encoded(posteriors, t).mean(1), labels, t, balance)


def crossed(
    vote: Vote, latents: "Tensor", labels: "Tensor", *, seed: int = 0
) -> tuple[list[Callable[[Level], Callable[[Array], Array]]], "Tensor"]:
    """Servers of five votes, and which of them (N,) was not fitted to an object, of latents (N, K, L), labels (N,).

    Their accuracy predicts that of `vote`, which was fitted to all of these objects, on others like them; they share
    its sharpness.
    """
    import torch

    fold = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)) % _FOLDS
    mean = latents.mean(1)
    folds = (fold != each for each in range(_FOLDS))
    return [_discriminant(mean[rest], labels[rest], vote.sharpness).server for rest in folds], fold


def unfitted(num_classes: int, *, sharpness: float = 1.0) -> Vote:
    """The vote that needs no examples: classes equally far apart and equally likely, so the largest sum wins."""
    import torch

    return _discriminant(torch.empty(0, num_classes), torch.empty(0, dtype=torch.long), sharpness)


def _discriminant(votes: "Tensor", labels: "Tensor", sharpness: float, balance: float = BALANCE) -> Vote:
    """The vote by linear discriminant of mean votes (N, L), and one sure vote (e_l − 1/L)/‖·‖ for each class l."""
    import torch

    count, num_classes = votes.shape
    x = torch.cat((votes, encoded(torch.eye(num_classes)))).double()
    y = torch.cat((labels, torch.arange(num_classes)))
    seen = y.bincount()
    means = torch.zeros(num_classes, num_classes, dtype=x.dtype).index_add_(0, y, x) / seen[:, None]
    covariance = (x - means[y]).T @ (x - means[y]) / max(count, 1)
    prior = seen.double() ** (1 - balance)
    return Vote(float(sharpness), means.float(), covariance.float(), (prior / prior.sum()).float())
