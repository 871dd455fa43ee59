"""What theory says of a network before it runs: the error in its parts, and accuracies that are proven."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from airpool.account.report import number
from airpool.arrays import Floats
from airpool.network import Network
from airpool.paper.margin import frobenius_margin
from airpool.paper.theorem2 import accuracy_bound
from airpool.protocol.device import clipped
from airpool.protocol.link import Level, level, radio
from airpool.protocol.simulation import check_latents
from airpool.theory import accuracy, mse
from airpool.theory.law import law
from airpool.theory.lipschitz import lipschitz_constants
from airpool.theory.margin import margin
from airpool.theory.server import Server, bounded_scores, class_labels, linear_server

if TYPE_CHECKING:
    from torch import Tensor

# Ways of being heard that are looked at one by one: of a network each costs a pass over all objects.
_WAYS, _WAYS_LINEAR = 64, 1024
# The linear server expects at least this much noise in each coordinate, in units of the signal: the best mean over
# ε = 1, 2, 4 and 10 of five-fold cross-validation on the validation objects (.1 to .3 are alike).
_LEAST_NOISE = 0.1


@dataclass(frozen=True)
class Bounds:
    """Lower bounds on the accuracy of one server, from loose to sharp; None where the channel is out of their reach.

    ideal: accuracy without noise, all heard. paper: Theorem 2 as printed, Frobenius margin. chebyshev: object by
    object. ball, half_spaces: with the exact law of the error. ceiling: what cannot be exceeded, for a linear server.
    margin: the proven one, median at E[ẑ], where Chebyshev needs it; margin_paper: the lemma's, at the estimate without
    noise, all heard; each over the objects that are named rightly there.
    """

    ideal: float
    margin: float
    margin_paper: float
    paper: float
    chebyshev: float
    ball: float | None
    half_spaces: float | None
    ceiling: float | None

    @property
    def best(self) -> float:
        return max(self.chebyshev, self.ball or 0.0, self.half_spaces or 0.0)


@dataclass(frozen=True)
class Prediction:
    """error: E‖ẑ − Σwz‖², mean over the objects, in its parts. server: bounds for the codec's own; linear: for the best
    linear server, where examples to make it from were given."""

    objects: int
    no_answer: float
    error: dict[str, float]
    server: Bounds
    linear: Bounds | None

    def to_json(self) -> dict[str, Any]:
        """As plain data; a margin that is infinite, of a server that gives one answer alone, is the word "inf"."""
        data = asdict(self)
        for bounds in (data["server"], data["linear"]):
            if bounds is not None:
                bounds.update({name: number(bounds[name]) for name in ("margin", "margin_paper")})
        return data


def predict(
    network: Network,
    latents: ArrayLike,
    labels: ArrayLike,
    *,
    server: Callable[[Level], Server],
    examples: tuple[ArrayLike, ArrayLike] | None = None,
    constants: Callable[[Server], Floats] = lipschitz_constants,
    report: Callable[[str], None] = lambda _: None,
) -> Prediction:
    """Error and proven accuracies of a network on latents (n, K, r).

    server: given the public level of signal and noise (models.codec: `lambda level: Server(codec.matrices(level))`).
    examples: latents and labels of *other* objects, to make the linear server from.
    Holds for: Scheme 1. Bounds hold for the objects given; for others like them up to sampling, as any test set does.
    """
    mse.check_network(network)
    given = np.asarray(latents, dtype=np.float64)
    check_latents(given, network)
    z = clipped(given, network.devices.column("clip_norm"))
    link = radio(network)
    heard = level(network, link)
    whole = mse.error(z, network, link=link)
    unanswered = accuracy.no_answer(network, link)
    ideal = mse.pooled(z, network.devices.column("weight"))
    # Margins around what is expected, not around what was meant: the bias is then no part of the error.
    moments = mse.expected(z, network, link=link)
    x_error = mse.pooled_error(z, np.array(network.devices.column("weight")))
    spread = mse.error(z, network, target=moments, link=link).total

    def bounds(served: Server, ways: int) -> Bounds:
        y = class_labels(labels, count=len(z), num_classes=served.num_classes)
        at_ideal, error = bounded_scores(served, ideal, x_error=x_error)
        right = np.argmax(at_ideal, axis=1) == y
        sharp = constants(served) if len(served.layers) <= 2 else None
        away = margin(served, moments, y, constants=sharp, x_error=x_error)
        printed = frobenius_margin(at_ideal, y, matrices=served.matrices, error=error)
        # Named rightly beyond rounding: a tie has no margin.
        sure = printed > 0
        chebyshev = accuracy.chebyshev(spread, away, unanswered=unanswered)
        try:
            exact = law(network, most=ways, link=link)
        except ValueError:
            exact = None
        ball = half = top = None
        if exact is not None:
            ball = float(np.mean(accuracy.ball(served, exact, z, y, constants=sharp)))
            if sharp is not None:
                half = float(np.mean(accuracy.half_spaces(served, exact, z, y, constants=sharp)))
            if len(served.layers) == 1:
                top = float(np.mean(accuracy.ceiling(served, exact, z, y)))
        return Bounds(
            ideal=float(np.mean(right)),
            margin=float(np.median(away[away > 0])) if np.any(away > 0) else 0.0,
            margin_paper=float(np.median(printed[sure])) if np.any(sure) else 0.0,
            paper=accuracy_bound(
                ideal=float(np.mean(sure)),
                mse=float(np.mean(whole.total[sure])) if np.any(sure) else 0.0,
                margin=float(np.min(printed[sure])) if np.any(sure) else 0.0,
            ),
            chebyshev=float(np.mean(chebyshev)),
            ball=ball,
            half_spaces=half,
            ceiling=top,
        )

    report("bounds of the codec's server")
    codec = server(heard)
    own = bounds(codec, _WAYS)
    linear = None
    if examples is not None:
        report("bounds of the linear server")
        linear = bounds(linear_for(network, *examples, num_classes=codec.num_classes), _WAYS_LINEAR)
    parts = {name: float(getattr(whole.mean, name)) for name in (*_PARTS, "total")}
    return Prediction(len(z), unanswered, parts, own, linear)


_PARTS = ("bias", "participation", "privacy_noise", "channel_noise")


def linear_for(network: Network, latents: ArrayLike, labels: ArrayLike, *, num_classes: int) -> Server:
    """The best linear server for a network, from examples (n, K, r) that it is not judged by.

    It hears estimates as they are: their expected length and noise are the network's public level.
    Edge case: nobody ever speaks → some server; there is nothing to name.
    """
    link = radio(network)
    expected = mse.expected(latents, network, link=link)
    heard = level(network, link)
    noise = max(heard.noise_std, _LEAST_NOISE * heard.signal) or 1.0
    return linear_server(expected, labels, noise_std=noise, num_classes=num_classes)


def on_tensors(linear: Server) -> "Callable[[Level], Callable[[Tensor], Tensor]]":
    """A linear server for `evaluate`, which hands over tensors, and the level that it was made for already."""
    import torch

    ((matrix, bias),) = linear.layers
    A, b = torch.from_numpy(matrix).float(), torch.from_numpy(bias).float()
    return lambda _: lambda estimate: estimate @ A.T + b
