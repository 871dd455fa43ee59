"""Random networks over all options against an independent account in plain loops (tests/oracle.py).

Where channels are not known exactly the loops count own noise alone, and ε must not be above that; how much less it may
be is for tests/account/test_random_radios.py.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import ncx2

from airpool.account.guarantee import guarantee
from airpool.account.received import aggregate
from airpool.network import Claim, Coin, Devices, Network
from tests.oracle import DIGITS, Oracle, Real, noncentral
from tests.random_networks import any_network

pytestmark = pytest.mark.usefixtures("few_draws", "few_cells")

# How far below the oracle's an ε may lie, relative; and how far above it where the law is exact.
TOO_SMALL, TOO_LARGE = 1e-9, 1e-6
# Beyond this ε, tails below e^-400 are rounded to the safe side, or ε is inf.
BEYOND = 400


def question(rng: np.random.Generator) -> tuple[Network, Claim]:
    """A network, and what is claimed of it."""
    network, claim = any_network(rng)
    named = (int(rng.integers(network.devices.count)),) if rng.random() < 0.15 else ()
    return network, replace(claim, colluding=named, credit_channel_noise=bool(rng.random() < 0.3))


@mp.workdps(DIGITS)
def findings(network: Network, claim: Claim) -> list[str]:
    """What is wrong with the report of a network, in words."""
    report, oracle = guarantee(network, claim), Oracle(network, claim)
    selected, removed = not isinstance(network.scheme, Coin), claim.neighbours == "remove"
    absent = network.colluders or network.dropouts or claim.colluding
    counted = aggregate(network, claim).strength is not None
    ends = report.epsilon if counted else report.epsilon_lower
    assert ends is not None
    found: list[str] = []

    def compare(
        name: str, epsilon: float, delta_of: Callable[[Real], Real], *, exact: float | None, least: bool = True
    ) -> None:
        """ε must not be too small, unless `least` is False; nor, where the account is exact, a lower end too large."""
        claimed = mp.mpf(float(epsilon))
        if least and claimed < mp.inf and (got := delta_of(claimed * (1 + TOO_SMALL))) > claim.delta:
            found.append(f"{name}: ε={epsilon} is too small, δ={float(got)} > {claim.delta}")
        lower = mp.mpf(min(float(exact or 0), BEYOND))
        if lower > 0 and (got := delta_of(lower * (1 - TOO_LARGE))) < claim.delta:
            found.append(f"{name}: ε={exact} is too large, δ={float(got)} < {claim.delta}")

    # Where scores select, a device's own outage is not to its advantage, and with ranks nobody's noise counts then.
    sure = not selected or all(chance == 1 for chance in oracle.lends)
    for k in oracle.devices:
        # A removed device that is heard by itself counts as seen at once, whatever the receiver's noise.
        lower = ends[k] if sure and not (removed and oracle.alone) else None
        compare(f"device {k}", report.epsilon[k], lambda e, k=k: oracle.delta(k, e), exact=lower, least=not counted)
        local = report.epsilon_local[k]
        compare(f"local {k}", local, lambda e, k=k: oracle.local(k, e), exact=local if sure and not removed else None)
    if not (selected or absent or removed):
        whole = network.channel.power_rule == "truncate" and not network.cover_noise and not oracle.alone
        whole &= not network.channel.phase_error_std  # turned views add up to less than aligned ones
        value = report.epsilon_object
        compare("object", value, oracle.object, exact=value if whole else None)
    for missing, worst in [] if counted else list(enumerate(report.epsilon_if_absent))[1:]:
        fewer = Oracle(replace(network, dropouts=missing), claim)
        compare(f"without {missing}", worst, lambda e, few=fewer: max(few.delta(k, e) for k in few.devices), exact=None)
    return found


def check(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    for index in range(count):
        network, claim = question(rng)
        assert not (wrong := findings(network, claim)), (index, wrong, network, claim)


def test_forty_random_networks_agree_with_plain_loops():
    check(0, 40)


@pytest.mark.check
@pytest.mark.parametrize("seed", range(1, 21))
def test_a_thousand_random_networks_agree_with_plain_loops(seed: int):
    check(seed, 50)


@pytest.mark.check
@pytest.mark.parametrize("seed", range(3))
def test_the_grid_for_many_unlike_devices_encloses_all_million_patterns(seed: int):
    rng = np.random.default_rng(seed)
    count = 21
    shift, std, p = (rng.uniform(low, high, count) for low, high in ((0.5, 2), (0.2, 1), (0.5, 0.99)))
    weight, noise_std, participation = (tuple(column.tolist()) for column in (shift, std, p))
    network = Network(Devices(count=count, weight=weight, noise_std=noise_std, participation=participation))
    report = guarantee(network)
    assert report.epsilon_lower is not None
    for k in (0, count - 1):
        chance, noise = np.array([p[k]]), np.array([std[k] ** 2])
        for i in set(range(count)) - {k}:
            chance = np.concatenate([chance * (1 - p[i]), chance * p[i]])
            noise = np.concatenate([noise, noise + std[i] ** 2])
        mu = shift[k] / np.sqrt(noise)

        def delta(e: float, chance: Any = chance, mu: Any = mu) -> float:
            return float(chance @ (np.exp(log_ndtr(mu / 2 - e / mu)) - np.exp(e + log_ndtr(-mu / 2 - e / mu))))

        assert delta(report.epsilon[k] * (1 + TOO_SMALL)) <= 1e-5
        assert delta(report.epsilon_lower[k] * (1 - TOO_SMALL)) >= 1e-5
        assert report.epsilon_lower[k] >= 0.99 * report.epsilon[k]


def test_the_oracles_noncentral_law_is_scipys():
    for r, centre, x in ((1, 0.3, 2.0), (2, 50.0, 90.0), (64, 1000.0, 900.0), (16, 0.0, 40.0)):
        law = ncx2(r, centre) if centre else ncx2(r, 1e-300)
        assert noncentral(x, r, centre) == pytest.approx((law.cdf(x), law.sf(x)), rel=1e-10)


def test_the_oracle_notices_a_variance_that_is_a_ten_millionth_too_large(monkeypatch: pytest.MonkeyPatch):
    from airpool.account import views as asked

    rng = np.random.default_rng(5)
    networks = [question(rng) for _ in range(12)]
    true = asked.aggregate

    def louder(*args: Any, **kwargs: Any) -> Any:
        heard = true(*args, **kwargs)
        return replace(heard, variance=heard.variance * (1 + 1e-7))

    monkeypatch.setattr(asked, "aggregate", louder)
    bare = {"colluding": (), "credit_channel_noise": False}
    assert any("too small" in each for network, claim in networks for each in findings(network, replace(claim, **bare)))
