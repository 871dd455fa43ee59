"""Spending of a network in the units of other accountants: GDP, zCDP, RDP, events and losses of dp-accounting.

None is below the truth: docs/howto/neighbours.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import exp, expm1, inf
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, checked, failure_probability, positive, probability
from airpool._support.extras import load
from airpool._support.rounding import up
from airpool._support.threads import single_thread
from airpool.account.views import Question, Situation, certain, most_draws
from airpool.network import Claim, Neighbours, Network, NetworkError, require_claim, require_network, scored
from airpool.privacy import compose, gaussian, renyi
from airpool.privacy.aggregate import ratio
from airpool.privacy.compose import Loss, Stream
from airpool.privacy.device import by_coin, of_object
from airpool.privacy.leak import COMPOSED_CELLS, PerDevice, Signal, gaussians, given

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Protected = Literal["device", "local", "object"]
# Orders of Rényi divergences that DP-SGD tools take by default.
ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(11, 64), 128, 256, 512, 1024)
# What rounding may have cost μ. Probability of outcomes, all together, that are too rare for a floating-point number.
_ROUNDING, _UNDERFLOW = 1e-12, 1e-315
# The grid of dp-accounting's own distributions.
_INTERVAL = 1e-4


@dataclass(frozen=True, eq=False)
class Exchange:
    """Spending of a network over all inferences of a claim; arrays have one value per device, or one for the object.

    protects: `device`, one device's feature in the sum; `local`, in its own signal; `object`, all features at once.
    gaussian: whether the account is one Gaussian against another. Then `gdp`, `zcdp` and `event` say all there is.
        Elsewhere they are proven bounds, looser than ε; `rdp` and `pld` keep what they lose.
    missed: of each device, how likely it is that the noise is not what is described here (live noise). No unit counts
        it; `account.exchange.combined` does.

    >>> net = Network.uniform(num_devices=4, noise_std=0.5, weight=(0.2, 0.2, 0.2, 0.4))
    >>> spent = exchange(net, Claim(inferences=10))
    >>> spent.protects, spent.gaussian, spent.worst, spent.missed.shape
    ('device', True, 3, (4,))
    """

    network: Network
    claim: Claim
    protects: Protected
    gaussian: bool
    missed: Floats
    _leak: PerDevice = field(repr=False)
    _times: int = field(repr=False)
    _score: Floats = field(repr=False)
    _worst: Floats = field(repr=False)
    _coin: Floats | None = field(repr=False)

    @cached_property
    def gdp(self) -> Floats:
        """μ of each device: no test tells the two neighbours apart better than N(0, 1) and N(μ, 1). Rounded up.

        >>> exchange(Network.uniform(num_devices=12, noise_std=0.1)).gdp[:2].round(4)
        array([0.2406, 0.2406])
        """
        return self._of_one * np.sqrt(self._times) * (1 + _ROUNDING)

    @property
    def zcdp(self) -> Floats:
        """ρ of each device, zero-concentrated differential privacy: μ²/2. Rounded up.

        >>> exchange(Network.uniform(num_devices=12, noise_std=0.1)).zcdp[:2].round(4)
        array([0.0289, 0.0289])
        """
        return self.gdp**2 / 2 * (1 + _ROUNDING)

    def rdp(self, orders: ArrayLike = ORDERS) -> Floats:
        """Rényi divergences D_α of each device, (devices, orders), rounded up: add them to another tool's.

        >>> spent = exchange(Network.uniform(num_devices=12, noise_std=0.1, participation=0.9))
        >>> spent.rdp([2, 8])[0].round(3)
        array([0.058, 0.247])
        """
        self._require_one_variance()
        alpha, leak = renyi.orders_above_one(orders), self._leak
        found = np.zeros((leak.num_kinds, len(alpha)))
        for pair, kind in enumerate(leak.kind):
            mu, mass, exposed = self._cells(pair)
            found[kind] = np.maximum(found[kind], renyi.of_gaussians(mu, mass, exposed, alpha))
        score = np.multiply.outer(self._score**2 / 2, alpha)
        return self._times * (found + score)[leak.of_device] * (1 + _ROUNDING)

    def event(self, device: int | None = None) -> "DpEvent":
        """The spending as an event of dp-accounting, of one device or of the worst; sensitivity 1 is the neighbours'.

        Holds for: accountants of the relations ADD_OR_REMOVE_ONE and REPLACE_SPECIAL, whatever the network's neighbours
        are. One of REPLACE_ONE doubles a sensitivity that is the whole distance already: still above the truth.
        Edge cases: nothing spent → NoOpDpEvent; no noise → NonPrivateDpEvent.

        >>> exchange(Network.uniform(num_devices=4, noise_std=0.5), Claim(inferences=9)).event()
        SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=3.99...), count=9)
        """
        dp = load("dp_accounting", "an event of dp-accounting")
        each = slice(None) if device is None else [self._index(device)]
        mu = float(np.max(self._of_one[each])) * (1 + _ROUNDING)
        if mu == 0:
            return dp.NoOpDpEvent()
        if np.isinf(mu):
            return dp.NonPrivateDpEvent()
        one = dp.GaussianDpEvent(1 / mu)
        if self._coin is not None:
            one = dp.PoissonSampledDpEvent(float(np.max(self._coin[each])), one)
        return one if self._times == 1 else dp.SelfComposedDpEvent(one, self._times)

    def pld(self, device: int | None = None, *, interval: float | None = None) -> "PrivacyLossDistribution":
        """The spending as a privacy loss distribution of dp-accounting, of one device; by default that with most ε.

        Exact up to its grid of `interval`, pessimistic; also where nothing is Gaussian. interval: by default 1e-4, or
        where losses are too large for that, the smallest of its doubles that holds them. Distributions are composed on
        one interval: give it where another one has its own.

        >>> spent = exchange(Network.uniform(num_devices=4, noise_std=0.5, participation=0.9))
        >>> round(spent.pld().get_epsilon_for_delta(1e-5), 2)
        1.1
        """
        grids = load("dp_accounting.pld.pld_pmf", "a privacy loss distribution")
        distributions = load("dp_accounting.pld.privacy_loss_distribution", "a privacy loss distribution")
        found = self.losses(self.worst if device is None else self._index(device))
        if interval is None:
            interval = _INTERVAL
            while interval < max(map(least_interval, found)):
                interval *= 2
        ways = (grids.create_pmf(*on_multiples(loss, interval), pessimistic_estimate=True) for loss in found)
        return distributions.PrivacyLossDistribution(*ways)

    def losses(self, device: int) -> tuple[compose.Loss, ...]:
        """The privacy loss of one device on a grid, with the feature over without and, where it differs, back."""
        with single_thread():
            return compose.stream(self._leak, int(self._leak.of_device[device])).repeated(self._times).losses

    @cached_property
    def worst(self) -> int:
        """The device with the largest ε at the claim's δ."""
        delta = self.claim.delta
        return max(self.distinct, key=lambda k: max(loss.epsilon(delta) for loss in self.losses(k)))

    @property
    def distinct(self) -> list[int]:
        """The first device of each kind: all others spend what one of these does."""
        return np.unique(self._leak.of_device, return_index=True)[1].tolist()

    @cached_property
    def _of_one(self) -> Floats:
        """μ of one use of the mechanism, of each device."""
        self._require_one_variance()
        found = np.zeros(self._leak.num_kinds)
        for pair, kind in enumerate(self._leak.kind):
            mu, mass, exposed = self._cells(pair)
            if exposed > 0:
                found[kind] = max(found[kind], float(np.max(mu[mass > 0])))
        return np.hypot(found, self._score)[self._leak.of_device]

    def _cells(self, pair: int) -> tuple[Floats, Floats, float]:
        """Distances, their probabilities, and how likely the feature is to be seen at all."""
        law, which = self._leak.distances, np.array([pair])
        mu, mass = law.mu(which)[0], law.mass(which)[0]
        if len(mu) > 1 or law.slack:
            # Probabilities are 0 where they underflow, and off by roundings of ln n!: no unit forgives either.
            worst, count = self._worst[self._leak.kind[pair]], len(self._leak.of_device)
            mu, mass = np.append(worst, np.minimum(mu, worst)), np.append(law.slack + _UNDERFLOW, mass)
            mass *= 1 + 2.0**-50 * count * np.log(count + 1)
        # A decision by score is counted beside the feature, as if it were always taken.
        return mu, mass, 1.0 if not self.network.scheme.independent else float(law.exposed[pair])

    def _require_one_variance(self) -> None:
        if not self.claim.neighbours.keeps_noise:
            raise ValueError(
                "neighbours='remove' has no μ, ρ or Rényi curve: a device that is removed takes its noise along, and "
                "the divergence is infinite from some order on; use pld(), or neighbours='zero-out'"
            )

    def _index(self, device: int) -> int:
        count = len(self._leak.of_device)
        if not 0 <= device < count:
            raise ValueError(f"device={device} must be from 0 to {count - 1}")
        return device


def exchange(network: Network, claim: Claim = Claim(), *, protects: Protected = "device") -> Exchange:
    """Spending of a network in the units of other accountants.

    protects: whose ε it is, `device`, `local` or `object`, as in a report.
    An error where a failure that no noise hides is part of the account (power_rule = "paper").

    >>> spent = exchange(Network.uniform(num_devices=12, noise_std=0.1), Claim(inferences=100))
    >>> float(spent.gdp[0].round(3)), float(spent.zcdp[0].round(3)), spent.gaussian
    (2.406, 2.894, True)
    """
    require_network(network)
    require_claim(claim)
    if protects not in get_args(Protected):
        raise ValueError(f"protects={protects!r} must be one of {', '.join(get_args(Protected))}")
    if network.channel.power_rule == "paper":
        raise NetworkError(
            "channel.power_rule='paper' fails with a probability that no noise hides: it has no μ, ρ, Rényi curve or "
            "event, only (ε, δ), which `guarantee` gives; use power_rule='truncate'"
        )
    with single_thread():
        situation = Question(network, claim).situation
        if (np.any(situation.here.misses) or situation.static) and not claim.neighbours.keeps_noise:
            raise NetworkError(
                "neighbours='remove' has no account here: a device that is removed is seen to be missing"
            )
        return _object(situation) if protects == "object" else _device(situation, protects)


def _device(situation: Situation, protects: Protected) -> Exchange:
    """One device's feature: in the sum, or in its own signal."""
    network, claim, uses = situation.network, situation.claim, situation.uses
    by_score, local = not network.scheme.independent, protects == "local"
    received, leak = (situation.without_others, situation.alone) if local else (situation.here, situation.once)
    # As of a stream: what a law leaves open counts as the worst outcome, in which no other noise is there.
    leak, coin = leak.coarse(COMPOSED_CELLS), None
    if local and not by_score and claim.neighbours.keeps_noise:
        alone = ratio(received.distance(claim.neighbours), np.sqrt(received.variance))
        leak, uses = gaussians(alone * np.sqrt(uses)), 1
    elif situation.static and certain(network, claim, received) and most_draws(network, uses, 1) == 1:
        received = replace(received, shift=received.shift * np.sqrt(uses))
        leak, uses = by_coin(received, claim.neighbours).coarse(COMPOSED_CELLS), 1
    elif network.cover_noise and not by_score and claim.neighbours is Neighbours.ZERO_OUT:
        coin = received.participation if bool(np.any(received.participation < 1)) else None
    first = np.unique(leak.of_device, return_index=True)[1]
    found = Exchange(
        network=network,
        claim=claim,
        protects=protects,
        gaussian=leak.gaussian is not None,
        missed=situation.missed(received),
        _leak=leak,
        _times=uses,
        _score=_decided(network)[first],
        _worst=ratio(received.distance(claim.neighbours), np.sqrt(received.least_variance(by_score=by_score)))[first],
        _coin=coin,
    )
    if situation.static and uses > 1:
        # Given the channel every inference is at most the worst Gaussian, whoever takes part.
        still = gaussians(found.gdp)
        nothing = np.zeros(still.num_kinds)
        return replace(found, _leak=still, _times=1, _score=nothing, _worst=nothing + np.inf, _coin=None)
    return found


def _object(situation: Situation) -> Exchange:
    network, claim, uses = situation.network, situation.claim, situation.uses
    if not network.scheme.independent:
        raise NetworkError(
            f"scheme {network.scheme.name}: all scores may change with the object, so nothing is promised"
        )
    apart = of_object(situation.without_others, claim.neighbours)
    leak = apart if situation.static else of_object(situation.here, claim.neighbours)
    law = leak.distances
    assert apart.gaussian is not None
    return Exchange(
        network=network,
        claim=claim,
        protects="object",
        gaussian=leak.gaussian is not None,
        missed=np.array([min(uses * float(np.sum(situation.here.failure)), 1.0)]),
        _leak=leak,
        _times=uses,
        _score=np.zeros(1),
        # Without a slack all outcomes are there, however rare.
        _worst=apart.gaussian if law.slack else np.minimum(apart.gaussian, np.max(law.mu(np.zeros(1, np.int64)))),
        _coin=None,
    )


def _decided(network: Network) -> Floats:
    """μ of a noisy score that a device compares with its threshold (Scheme 2.1): the decision is a function of it."""
    nothing, scheme = np.zeros(network.devices.count), network.scheme
    if scheme.independent or scheme.needs_ranking_server:
        return nothing
    by_score = scored(scheme)
    low, high = by_score.score_range()
    return nothing + ratio(high - low, by_score.score_noise_std)


# δ as a function of ε ≥ 0, for both directions.
Curve = Callable[[float], float]
# Points of another tool's curve on each side of 0.
_POINTS = 2**9
# Share of ε to which a ledger's budget is found.
_WITHIN = 1e-6


def combined(spent: Exchange, others: Any, delta: float | None = None, *, device: int | None = None) -> float:
    """ε at δ of a network and of what other tools spent, together; rounded up.

    others: one, or a list, of events of dp-accounting, accountants that have composed something, pairs (ε, δ), and
        curves δ(ε). All must be about the same neighbours as the network: the same person, camera or object.
    delta: default the claim's. device: default all of them, of which the largest ε counts.
    Holds for: mechanisms whose parameters are fixed in advance; their inputs may depend on earlier outputs.

    >>> from airpool import Claim, Network, exchange
    >>> spent = exchange(Network.uniform(num_devices=12, noise_std=0.1), Claim(inferences=10))
    >>> round(combined(spent, (1.0, 1e-6)), 2), round(combined(spent, []), 2)
    (4.16, 3.2)
    """
    target = float(failure_probability(spent.claim.delta if delta is None else delta))
    count = len(spent.missed)
    if device is not None and not 0 <= device < count:
        raise ValueError(f"device={device} must be from 0 to {count - 1}")
    with single_thread():
        foreign = _losses(others)
        which = spent.distinct if device is None else [device]
        return max(_of_one(spent, k, foreign, target) for k in which)


def budget_beside(others: Any, *, epsilon: float, delta: float, ledger_delta: float | None = None) -> float:
    """The ε that a ledger may be given, at `ledger_delta`, so that with what others spent it is at most (ε, δ) in all.

    ledger_delta: a part of δ; default half of it. Rounded down. A ledger counts towards one (ε, δ), so nothing else is
    known of what it protects, and this is the worst of that.
    Edge cases: others have spent all of it → a ValueError that says what they spent.

    >>> round(budget_beside((1.0, 1e-6), epsilon=4.0, delta=1e-5), 2)
    3.0
    """
    target = float(failure_probability(delta))
    share = target / 2 if ledger_delta is None else float(failure_probability(ledger_delta, "ledger_delta"))
    if share >= target:
        raise ValueError(f"ledger_delta={share:g} must be less than delta={target:g}, of which it is a part")
    with single_thread():
        foreign = _losses(others)

        def together(of_ledger: float) -> float:
            return _epsilon([_loss((of_ledger, share)), *foreign], target)

        low, high = 0.0, float(checked("epsilon", epsilon, "must be > 0 and finite", ok=lambda x: (x > 0) & (x < inf)))
        if (least := together(0.0)) > high:
            spent = f"what others spent beside δ = {share:g} of a ledger"
            raise ValueError(f"epsilon={high:g} must be at least {up(least)}, {spent}")
        while high - low > _WITHIN * high:
            middle = (low + high) / 2
            low, high = (middle, high) if together(middle) <= epsilon else (low, middle)
    return low


def _of_one(spent: Exchange, device: int, foreign: Sequence[tuple[Loss, ...]], delta: float) -> float:
    if not foreign and spent.gaussian:
        mu = spent.gdp[[device]]
        return float(compose.nearby(lambda left: gaussian.epsilon(mu, left), delta, spent.missed[device])[0])
    return _epsilon([spent.losses(device), *foreign], delta, float(spent.missed[device]))


def _epsilon(parts: Sequence[tuple[Loss, ...]], delta: float, missed: float = 0.0) -> float:
    """ε at δ of losses in one or both directions, together."""
    directions = max(len(each) for each in parts)
    ways = zip(*(each * (directions // len(each)) for each in parts), strict=True)
    together = Stream(tuple(reduce(Loss.plus, way) for way in ways))
    return float(compose.nearby(lambda left: np.array([together.epsilon(left, of=delta)]), delta, missed)[0])


def _losses(others: Any) -> list[tuple[Loss, ...]]:
    return [_loss(each) for each in (others if isinstance(others, list) else [others])]


def _loss(other: Any) -> tuple[Loss, ...]:
    """Spending of another tool, as a privacy loss that is the same in both directions."""
    one = np.zeros(1, dtype=np.int64)
    return compose.stream(PerDevice(_Told(_curve(other)), one, one), points=_POINTS).losses


@dataclass(frozen=True, eq=False)
class _Told(Signal):
    """The curve δ(ε) that another tool tells, the same from both sides."""

    curve: Curve

    @property
    def symmetric(self) -> bool:
        return True


@given.register
def _(leak: _Told, epsilon: Floats, case: Any, noise: Floats, *, backward: bool) -> Floats:
    return probability("delta", [leak.curve(each) for each in epsilon.tolist()])


def _curve(other: Any) -> Curve:
    """δ as a function of ε ≥ 0 of what another tool spent."""
    if callable(other) and not isinstance(other, type):
        return cast("Curve", other)
    pair: Any = other
    if isinstance(pair, tuple) and len(cast("tuple[Any, ...]", pair)) == 2:
        epsilon, delta = pair
        most = float(checked("epsilon", epsilon, "must be >= 0 and finite", ok=lambda x: (x >= 0) & np.isfinite(x)))
        rest = float(probability("delta", delta))
        # The pair that every (ε, δ) mechanism is at most: all is seen with probability δ, else a coin of odds e^ε.
        return lambda eps: rest + (1 - rest) * max(-expm1(eps - most), 0.0) / (1 + exp(-most))
    dp = load("dp_accounting", "what another tool spent")
    if isinstance(other, dp.PrivacyAccountant):
        return other.get_delta
    if isinstance(other, dp.DpEvent):
        pld, rdp = load("dp_accounting.pld", "an event"), load("dp_accounting.rdp", "an event")
        for accountant in (pld.PLDAccountant(), rdp.RdpAccountant()):
            if accountant.supports(other):
                return accountant.compose(other).get_delta
        raise ValueError(f"{other!r}: no accountant for ADD_OR_REMOVE_ONE supports it; give one that has composed it")
    raise ValueError(f"others={other!r} must be events or accountants of dp-accounting, pairs (ε, δ), or curves δ(ε)")


# Multiples that a loss may lie on, at most.
_MOST = 2**20


def least_interval(loss: Loss) -> float:
    """The smallest interval whose multiples this loss may be put on."""
    return loss.step * (len(loss.mass) - 1) / _MOST


def on_multiples(loss: Loss, interval: float) -> tuple[dict[int, float], float, float]:
    """The mass of each multiple, the interval, and the mass of an infinite loss, as dp-accounting takes them.

    Mass between two multiples is shared so that the curve is right at every multiple and above the truth in between.
    """
    width = float(positive("interval", interval))
    if width < (least := least_interval(loss)):
        raise ValueError(f"interval={width:g} must be at least {up(least, 2)} for losses as large as these")
    at = loss.step * np.arange(loss.lowest, loss.lowest + len(loss.mass), dtype=np.float64) / width
    below = np.floor(at)
    above = np.expm1(-(at - below) * width) / np.expm1(-width)
    mass, first = np.zeros(int(below[-1] - below[0]) + 2), int(below[0])
    for where, share in ((below, 1 - above), (below + 1, above)):
        np.add.at(mass, where.astype(np.int64) - first, loss.mass * share * (1 + 1e-12))
    return dict(enumerate(mass.tolist(), start=first)), width, loss.infinite
