"""Spending of a network in the units of other accountants: GDP, zCDP, RDP, events and losses of dp-accounting.

None is below the truth: docs/howto/neighbours.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats
from airpool._support.extras import load
from airpool._support.threads import single_thread
from airpool.account.games import decision, game
from airpool.account.received import aggregate
from airpool.account.stream import COMPOSED_CELLS, in_common, most_draws
from airpool.network import Neighbours, Network, NetworkError, require_network, scheme_rules
from airpool.privacy import compose, device, renyi
from airpool.privacy.aggregate import Aggregate, ratio
from airpool.privacy.game import Game, gaussians
from airpool.privacy.multiples import least_interval, on_multiples
from airpool.privacy.object import object_game

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
    """Spending of a network over all its inferences; arrays have one value per device, or one for the object.

    protects: `device`, one device's feature in the sum; `local`, in its own signal; `object`, all features at once.
    gaussian: whether the account is one Gaussian against another. Then `gdp`, `zcdp` and `event` say all there is.
        Elsewhere they are proven bounds, looser than ε; `rdp` and `pld` keep what they lose.
    missed: of each device, how likely it is that the noise is not what is described here (live noise). No unit counts
        it; `account.others.combined` does.

    >>> spent = exchange(Network.uniform(num_devices=4, noise_std=0.5, weight=(0.2, 0.2, 0.2, 0.4)), inferences=10)
    >>> spent.protects, spent.gaussian, spent.worst, spent.missed.shape
    ('device', True, 3, (4,))
    """

    network: Network
    protects: Protected
    gaussian: bool
    missed: Floats
    _played: Game = field(repr=False)
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
        alpha, played = renyi.orders_above_one(orders), self._played
        found = np.zeros((played.num_kinds, len(alpha)))
        for pair, kind in enumerate(played.kind):
            mu, mass, exposed = self._cells(pair)
            found[kind] = np.maximum(found[kind], renyi.of_gaussians(mu, mass, exposed, alpha))
        score = np.multiply.outer(self._score**2 / 2, alpha)
        return self._times * (found + score)[played.of_device] * (1 + _ROUNDING)

    def event(self, device: int | None = None) -> "DpEvent":
        """The spending as an event of dp-accounting, of one device or of the worst; sensitivity 1 is the neighbours'.

        Holds for: accountants of the relations ADD_OR_REMOVE_ONE and REPLACE_SPECIAL, whatever the network's neighbours
        are. One of REPLACE_ONE doubles a sensitivity that is the whole distance already: still above the truth.
        Edge cases: nothing spent → NoOpDpEvent; no noise → NonPrivateDpEvent.

        >>> exchange(Network.uniform(num_devices=4, noise_std=0.5), inferences=9).event()
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
            return compose.stream(self._played, int(self._played.of_device[device])).repeated(self._times).losses

    @cached_property
    def worst(self) -> int:
        """The device with the largest ε at the network's δ."""
        delta = self.network.delta
        return max(self.distinct, key=lambda k: max(loss.epsilon(delta) for loss in self.losses(k)))

    @property
    def distinct(self) -> list[int]:
        """The first device of each kind: all others spend what one of these does."""
        return np.unique(self._played.of_device, return_index=True)[1].tolist()

    @cached_property
    def _of_one(self) -> Floats:
        """μ of one use of the mechanism, of each device."""
        self._require_one_variance()
        found = np.zeros(self._played.num_kinds)
        for pair, kind in enumerate(self._played.kind):
            mu, mass, exposed = self._cells(pair)
            if exposed > 0:
                found[kind] = max(found[kind], float(np.max(mu[mass > 0])))
        return np.hypot(found, self._score)[self._played.of_device]

    def _cells(self, pair: int) -> tuple[Floats, Floats, float]:
        """Distances, their probabilities, and how likely the feature is to be seen at all."""
        law, which = self._played.distances, np.array([pair])
        assert law is not None
        mu, mass = law.mu(which)[0], law.mass(which)[0]
        if len(mu) > 1 or law.slack:
            # Probabilities are 0 where they underflow, and off by roundings of ln n!: no unit forgives either.
            worst, count = self._worst[self._played.kind[pair]], len(self._played.of_device)
            mu, mass = np.append(worst, np.minimum(mu, worst)), np.append(law.slack + _UNDERFLOW, mass)
            mass *= 1 + 2.0**-50 * count * np.log(count + 1)
        # A decision by score is counted beside the feature, as if it were always taken.
        return mu, mass, 1.0 if scheme_rules(self.network.scheme).scored else float(law.exposed[pair])

    def _require_one_variance(self) -> None:
        if not self.network.neighbours.keeps_noise:
            raise ValueError(
                "neighbours='remove' has no μ, ρ or Rényi curve: a device that is removed takes its noise along, and "
                "the divergence is infinite from some order on; use pld(), or neighbours='zero-out'"
            )

    def _index(self, device: int) -> int:
        count = len(self._played.of_device)
        if not 0 <= device < count:
            raise ValueError(f"device={device} must be from 0 to {count - 1}")
        return device


def exchange(
    network: Network,
    *,
    protects: Protected = "device",
    neighbours: Neighbours | str | None = None,
    inferences: int | None = None,
    colluding: Sequence[int] = (),
    credit_channel_noise: bool = False,
    live: bool = False,
) -> Exchange:
    """Spending of a network in the units of other accountants; what is not given is taken from the network.

    protects: whose ε it is, `device`, `local` or `object`, as in a report. The rest: as in `guarantee`.
    An error where a failure that no noise hides is part of the account (power_rule = "paper").

    >>> spent = exchange(Network.uniform(num_devices=12, noise_std=0.1), inferences=100)
    >>> float(spent.gdp[0].round(3)), float(spent.zcdp[0].round(3)), spent.gaussian
    (2.406, 2.894, True)
    """
    require_network(network)
    if protects not in get_args(Protected):
        raise ValueError(f"protects={protects!r} must be one of {', '.join(get_args(Protected))}")
    given = {"neighbours": neighbours, "inferences": inferences}
    network = replace(network, **{name: value for name, value in given.items() if value is not None})
    if network.channel.power_rule == "paper":
        raise NetworkError(
            "channel.power_rule='paper' fails with a probability that no noise hides: it has no μ, ρ, Rényi curve or "
            "event, only (ε, δ), which `guarantee` gives; use power_rule='truncate'"
        )
    with single_thread():
        received = aggregate(network, colluding=colluding, credit_channel_noise=credit_channel_noise, live=live)
        visible = bool(np.any(received.misses)) or (network.uses > 1 and in_common(network, received))
        if visible and not network.neighbours.keeps_noise:
            raise NetworkError(
                "neighbours='remove' has no account here: a device that is removed is seen to be missing"
            )
        alone = replace(received, alone=True, extra=0.0)
        if protects == "object":
            return _object(network, received, alone)
        return _device(network, received if protects == "device" else alone, protects)


def _device(network: Network, received: Aggregate, protects: Protected) -> Exchange:
    """One device's feature: in the sum, or in its own signal where `received` is alone."""
    uses, scored = network.uses, scheme_rules(network.scheme).scored
    # As of a stream: what a law leaves open counts as the worst outcome, in which no other noise is there.
    played = game(replace(network, inferences=max(network.inferences, 2)), received)
    coin, together = None, uses > 1 and in_common(network, received)
    if protects == "local" and not scored and network.neighbours.keeps_noise:
        alone = ratio(received.distance(network.neighbours), np.sqrt(received.variance))
        played, uses = _gaussian(alone * np.sqrt(uses)), 1
    elif together and not scored and bool(np.all(received.participation == 1)) and most_draws(network, uses, 1) == 1:
        many = replace(received, shift=received.shift * np.sqrt(uses))
        received, played, uses = many, device.game(many, network.neighbours, cells=COMPOSED_CELLS), 1
    elif network.cover_noise and not scored and network.neighbours is Neighbours.ZERO_OUT:
        coin = received.participation if bool(np.any(received.participation < 1)) else None
    first = np.unique(played.of_device, return_index=True)[1]
    found = Exchange(
        network=network,
        protects=protects,
        gaussian=played.gaussian is not None,
        missed=np.minimum(network.uses * received.misses, 1.0),
        _played=played,
        _times=uses,
        _score=_decided(network)[first],
        _worst=ratio(received.distance(network.neighbours), np.sqrt(received.least_variance(by_score=scored)))[first],
        _coin=coin,
    )
    if together and uses > 1 and network.neighbours.keeps_noise:
        # Given the channel every inference is at most the worst Gaussian, whoever takes part.
        still = _gaussian(found.gdp)
        nothing = np.zeros(still.num_kinds)
        return replace(found, _played=still, _times=1, _score=nothing, _worst=nothing + np.inf, _coin=None)
    return found


def _object(network: Network, received: Aggregate, alone: Aggregate) -> Exchange:
    if scheme_rules(network.scheme).scored:
        raise NetworkError(
            f"scheme {network.scheme.name}: all scores may change with the object, so nothing is promised"
        )
    still = network.uses > 1 and in_common(network, received)
    played, apart = (object_game(each, network.neighbours) for each in (alone if still else received, alone))
    law = played.distances
    assert apart.gaussian is not None
    assert law is not None
    return Exchange(
        network=network,
        protects="object",
        gaussian=played.gaussian is not None,
        missed=np.array([min(network.uses * float(np.sum(received.failure)), 1.0)]),
        _played=played,
        _times=network.uses,
        _score=np.zeros(1),
        # Without a slack all outcomes are there, however rare.
        _worst=apart.gaussian if law.slack else np.minimum(apart.gaussian, np.max(law.mu(np.zeros(1, np.int64)))),
        _coin=None,
    )


def _gaussian(mu: Floats) -> Game:
    """One Gaussian against another for each device."""
    distinct, of_device = np.unique(mu, return_inverse=True)
    return gaussians(distinct[:, None], np.ones((len(distinct), 1)), of_device.reshape(-1))


def _decided(network: Network) -> Floats:
    """μ of a noisy score that a device compares with its threshold (Scheme 2.1): the decision is a function of it."""
    chosen, nothing = decision(network.scheme), np.zeros(network.devices.count)
    if chosen is None:
        return nothing
    return nothing + ratio(chosen.score_high - chosen.score_low, chosen.noise_std)
