"""A network's spending together with what other tools spent, of the same object (docs/howto/neighbours.md)."""

from collections.abc import Callable, Sequence
from functools import reduce
from math import exp, expm1, inf
from typing import Any, cast

import numpy as np

from airpool._support.arrays import Floats, Integers, checked, failure_probability, probability
from airpool._support.extras import load
from airpool._support.rounding import up
from airpool._support.threads import single_thread
from airpool.account.exchange import Exchange
from airpool.privacy import compose, gaussian
from airpool.privacy.compose import Loss, Stream
from airpool.privacy.game import Direction, Game

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
    delta: default the network's. device: default all of them, of which the largest ε counts.
    Holds for: mechanisms whose parameters are fixed in advance; their inputs may depend on earlier outputs.

    >>> from airpool import Network, exchange
    >>> spent = exchange(Network.uniform(num_devices=12, noise_std=0.1), inferences=10)
    >>> round(combined(spent, (1.0, 1e-6)), 2), round(combined(spent, []), 2)
    (4.16, 3.2)
    """
    given = list(others) if isinstance(others, list) else [others]
    target = float(failure_probability(spent.network.delta if delta is None else delta))
    count = len(spent.missed)
    if device is not None and not 0 <= device < count:
        raise ValueError(f"device={device} must be from 0 to {count - 1}")
    with single_thread():
        foreign = [_loss(each) for each in given]
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
    given = list(others) if isinstance(others, list) else [others]
    with single_thread():
        foreign = [_loss(each) for each in given]

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
    together = Stream(tuple(reduce(compose.composed, way) for way in ways))
    return float(compose.nearby(lambda left: np.array([together.epsilon(left, of=delta)]), delta, missed)[0])


def _loss(other: Any) -> tuple[Loss, ...]:
    """Spending of another tool, as a privacy loss that is the same in both directions."""
    curve = _curve(other)

    def low(eps: Floats, pair: Integers, direction: Direction) -> Floats:
        return probability("delta", [curve(each) for each in eps.tolist()])

    one = np.zeros(1, dtype=np.int64)
    played = Game(
        kind=one, of_device=one, low=low, high=low, ceiling=lambda _: np.array([inf]), directions=("forward",)
    )
    return compose.stream(played, points=_POINTS).losses


def _curve(other: Any) -> Curve:
    """δ as a function of ε ≥ 0 of what another tool spent."""
    if callable(other) and not isinstance(other, type):
        return cast(Curve, other)
    pair: Any = other
    if isinstance(pair, tuple) and len(cast(tuple[Any, ...], pair)) == 2:
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
