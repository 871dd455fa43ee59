"""A network's mean square error in its parts and proven bounds on its accuracy, without a simulation."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool._support.arrays import Floats, finite
from airpool._support.files import jsonable
from airpool._support.progress import automatic
from airpool._support.rounding import shown_below
from airpool._support.threads import single_thread
from airpool.evaluation.theory import accuracy, mse
from airpool.evaluation.theory.law import law
from airpool.evaluation.theory.lipschitz import lipschitz_constants
from airpool.evaluation.theory.margin import margin
from airpool.evaluation.theory.server import LayeredServer, bounded_scores, class_labels, linear_server
from airpool.network import Network
from airpool.paper.formulas.theorem2 import accuracy_bound, frobenius_margin
from airpool.protocol.device import clipped
from airpool.protocol.simulation import check_latents
from airpool.radio.link import Level, level, link_of

if TYPE_CHECKING:
    from torch import Tensor

# Participation patterns that are listed; each takes one pass over all objects.
_PATTERNS, _PATTERNS_LINEAR = 64, 1024
# Least noise per coordinate that the linear server is made for, relative to the signal: the best mean over
# ε = 1, 2, 4 and 10 in five-fold cross-validation on the validation objects (.1 to .3 differ little).
_LEAST_NOISE = 0.1
_PARTS = ("bias", "participation", "privacy_noise", "channel_noise", "total")


@dataclass(frozen=True)
class AccuracyBounds:
    """Lower bounds on the accuracy of one server, from loose to sharp; None where they do not apply.

    ideal: accuracy without noise, all devices received. paper: Theorem 2 as printed, with the Frobenius margin.
    chebyshev, ball, half_spaces: theory.accuracy. ceiling: an upper bound, for a linear server.
    margin: median of the proven margins at E[ẑ]; margin_paper: of the lemma's, at the ideal estimate; each over the
    objects with a correct label there.

    >>> AccuracyBounds(0.9, 0.5, 0.1, 0.0, 0.2, ball=0.6, half_spaces=0.8, ceiling=None).best
    0.8
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
        """The sharpest of the proven lower bounds."""
        return max(self.chebyshev, self.ball or 0.0, self.half_spaces or 0.0)


@dataclass(frozen=True)
class Prediction:
    """Error and accuracy of a network as far as they can be proven, without a simulation. Made by `predict`.

    error: E‖ẑ − Σwz‖² in its parts, averaged over the objects, and `unsure`, what an upper bound adds to the total,
    where devices fade together (theory.together). no_answer: probability that no device transmits, so that there is no
    label; an upper bound where devices fade together. server: bounds of the codec's own server. linear: bounds of the
    optimal linear server, where examples were given. objects: how many were given.

    >>> sharp = AccuracyBounds(0.9, 0.5, 0.1, 0.0, 0.2, ball=0.6, half_spaces=0.8, ceiling=None)
    >>> Prediction(100, 0.0, {"total": 0.3}, sharp, None).to_json()["server"]["half_spaces"]
    0.8
    """

    objects: int
    no_answer: float
    error: dict[str, float]
    server: AccuracyBounds
    linear: AccuracyBounds | None

    def _repr_html_(self) -> str:
        from airpool._support import notebook

        judged = {"the codec's server": self.server, "the optimal linear server": self.linear}
        drawn = [
            notebook.Dot(name, found.best, f"≥ {shown_below(found.best)}", mark=found.ceiling)
            for name, found in judged.items()
            if found is not None
        ]
        parts = [(name.replace("_", " "), f"{value:.4g}") for name, value in self.error.items()]
        title = f"Prediction for {self.objects} objects, without a simulation"
        drawing = notebook.dots(drawn, ends=(0.0, 1.0), axis="accuracy, at least; the bar: at most")
        error = notebook.rows_of(("part of the mean square error", ""), parts)
        return notebook.shown(title, drawing, error, notebook.sentences([f"No answer: {self.no_answer:.4%}."]))

    def to_json(self) -> dict[str, Any]:
        """The prediction as plain data; an infinite margin, of a server with a constant label, is the string "inf"."""
        return jsonable(asdict(self))


@automatic("bounding")
@single_thread()
def predict(
    network: Network,
    latents: ArrayLike,
    labels: ArrayLike,
    *,
    server: Callable[[Level], LayeredServer],
    examples: tuple[ArrayLike, ArrayLike] | None = None,
    constants: Callable[[LayeredServer], Floats] = lipschitz_constants,
    on_step: Callable[[str], None] = lambda _: None,
) -> Prediction:
    """Mean square error and accuracy bounds of a network on latents (n, K, r).

    labels: (n,). server: from the public level of signal and noise to its layers, as a codec's `matrices`.
    examples: latents and labels of *other* objects, for the linear server.
    constants: of a server, how fast its margins fall. on_step: told what is computed.
    Holds for: Scheme 1, and for the given objects; for others up to the sampling error of any test set.

    >>> labels = np.arange(60) % 3
    >>> latents = np.repeat(np.eye(3)[labels][:, None], 4, axis=1)                  # (n, K, r)
    >>> net = Network.uniform(num_devices=4, dimension=3, noise_std=0.05)
    >>> found = predict(net, latents, labels, server=lambda level: LayeredServer([(np.eye(3), np.zeros(3))]))
    >>> round(found.error["total"], 4), found.server.ideal, found.server.best > 0.9
    (0.03, 1.0, True)
    """
    mse.check_network(network)
    given = finite("latents", latents)
    check_latents(given, network)
    z = clipped(given, network.devices.column("clip_norm"))
    link = link_of(network)
    whole = mse.error(z, network, link=link)
    unanswered = accuracy.no_answer(network, link)
    ideal = mse.pooled(z, network.devices.column("weight"))
    # Margins at E[ẑ], so that the error there has no bias.
    center = mse.expected(z, network, link=link)
    x_error = mse.pooled_error(z, np.array(network.devices.column("weight")))
    around = mse.error(z, network, target=center, link=link)
    spread = around.total + around.unsure

    def bounds(served: LayeredServer, most: int) -> AccuracyBounds:
        y = class_labels(labels, count=len(z), num_classes=served.num_classes)
        at_ideal, error = bounded_scores(served, ideal, x_error=x_error)
        sharp = constants(served) if len(served.layers) <= 2 else None
        away = margin(served, center, y, constants=sharp, x_error=x_error)
        printed = frobenius_margin(at_ideal, y, matrices=served.matrices, error=error)
        sure = printed > 0  # correct beyond rounding
        try:
            exact = law(network, most=most, link=link)
        except ValueError:
            exact = None
        ball = half = top = None
        if exact is not None:
            ball = _mean(accuracy.ball(served, exact, z, y, constants=sharp))
            half = None if sharp is None else _mean(accuracy.half_spaces(served, exact, z, y, constants=sharp))
            top = _mean(accuracy.ceiling(served, exact, z, y)) if len(served.layers) == 1 else None
        return AccuracyBounds(
            ideal=_mean(np.argmax(at_ideal, axis=1) == y),
            margin=float(np.median(away[away > 0])) if np.any(away > 0) else 0.0,
            margin_paper=float(np.median(printed[sure])) if np.any(sure) else 0.0,
            paper=accuracy_bound(
                ideal=_mean(sure),
                mse=_mean(whole.total[sure]) if np.any(sure) else 0.0,
                margin=float(np.min(printed[sure])) if np.any(sure) else 0.0,
            ),
            chebyshev=_mean(accuracy.chebyshev(spread, away, unanswered=unanswered)),
            ball=ball,
            half_spaces=half,
            ceiling=top,
        )

    on_step("bounds of the codec's server")
    codec = server(level(network, link))
    own = bounds(codec, _PATTERNS)
    linear = None
    if examples is not None:
        on_step("bounds of the linear server")
        linear = bounds(linear_for(network, *examples, num_classes=codec.num_classes), _PATTERNS_LINEAR)
    parts = {name: float(getattr(whole.mean, name)) for name in _PARTS}
    if np.any(whole.unsure > 0):
        parts["unsure"] = float(whole.mean.unsure)
    return Prediction(len(z), unanswered, parts, own, linear)


def _mean(x: Floats | NDArray[np.bool_]) -> float:
    return float(np.mean(x))


@single_thread()
def linear_for(network: Network, latents: ArrayLike, labels: ArrayLike, *, num_classes: int) -> LayeredServer:
    """The optimal linear server for a network, from examples (n, K, r) of other objects.

    Edge case: no device ever transmits → an arbitrary server.
    """
    link = link_of(network)
    expected = mse.expected(finite("latents", latents), network, link=link)
    public = level(network, link)
    noise = max(public.noise_std, _LEAST_NOISE * public.signal) or 1.0
    return linear_server(expected, labels, noise_std=noise, num_classes=num_classes)


def on_tensors(linear: LayeredServer) -> "Callable[[Level], Callable[[Tensor], Tensor]]":
    """A linear server as `evaluate` takes it: on tensors, for the level that it was made for."""
    import torch

    ((matrix, bias),) = linear.layers
    A, b = torch.from_numpy(matrix).float(), torch.from_numpy(bias).float()
    return lambda _: lambda estimate: estimate @ A.T + b
