"""A network that meets a target ε or target odds in the claim it is given for, never above it.

The least noise, the largest weight or clip norm of each device, or the most inferences. The search by factor is
privacy/calibrate.py; the ε at each step is account.guarantee's.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args, overload

import numpy as np

from airpool._support.arrays import Floats, checked
from airpool._support.progress import automatic
from airpool._support.rounding import full, up
from airpool._support.search import smallest_number
from airpool._support.threads import single_thread
from airpool.account.assumptions import ALONE, GRID_REMOVED, reasons
from airpool.account.guarantee import device_epsilon, score_epsilon
from airpool.account.lifetime import most_inferences
from airpool.account.odds import device_odds, percent
from airpool.account.received import aggregate, covering_noise, require_supported, supports_live
from airpool.account.views import Question, at_server
from airpool.network import Claim, Neighbours, Network, require_claim, require_network, scored
from airpool.network.network import MOST_SLOTS
from airpool.privacy import calibrate as search
from airpool.privacy import compose, gaussian
from airpool.privacy.law import Arrivals
from airpool.privacy.odds import priors
from airpool.radio.fading import quantile
from airpool.radio.link import link_of
from airpool.radio.power import Transmitters

Adjust = Literal["noise", "weight", "clip", "slots", "inferences"]
# A factor is the largest if growing it by this share misses the target.
_TIGHT = 1e-6
# By so large a share factors may miss the best one: where every step computes a law, and where it draws beams for it.
_FINE, _COSTLY = 2e-10, 2e-4
# At a fixed γ nothing is tried that leaves a device silent in more than half of the inferences.
_MOST_OUTAGE = 0.5
# Factors on the noise between which the receiver's noise is asked to cover the grid.
_LEAST_NOISE, _MOST_NOISE = 1e-12, 1e12
# A receiver's noise that covers every grid.
_LOUD = 1e30


@overload
def calibrate(
    network: Network,
    claim: Claim = ...,
    *,
    epsilon: float | Sequence[float] | None = None,
    odds: float | None = None,
    prior: float = 0.5,
    share: float | None = None,
    adjust: Literal["noise", "weight", "clip", "slots"] = "noise",
    per_device: bool = False,
) -> Network: ...
@overload
def calibrate(
    network: Network,
    claim: Claim = ...,
    *,
    epsilon: float | Sequence[float] | None = None,
    adjust: Literal["inferences"],
) -> Claim: ...


def calibrate(
    network: Network,
    claim: Claim = Claim(),
    *,
    epsilon: float | Sequence[float] | None = None,
    odds: float | None = None,
    prior: float = 0.5,
    share: float | None = None,
    adjust: Adjust = "noise",
    per_device: bool = False,
) -> Network | Claim:
    """A new network whose ε meets a target, never above it: the least noise, the largest weight or clip norm, the most
    slots. Or a new claim, of the largest number of inferences.

    claim: what the target is for; `guarantee` with the same claim meets it. Of a `per_event` it is that of the stay.
        Live noise that arrives unaligned has to be louder.
    epsilon: one target for all devices or one for each; left out, the network's own `devices.epsilon`.
    odds: the target instead, of the worst device's guess; above its `prior` (as in `airpool.odds`). Noise alone.
    share: for Schemes 2.1 and 2.2, the score's part of ε, above 0 and below 1; sets the score's noise too. Of μ² in
        Scheme 2.2: (Δu/σ₀)² = share·μ²(ε). In Scheme 2.1 of ε: from σ₀ on, the decision alone costs at most share·ε.
    adjust: "noise" multiplies the noise of all devices by one factor; "weight" and "clip" change each device alone;
        "slots" and "inferences" leave the devices as they are and say how often they may be used.
    per_device: share the noise out in proportion to what each device would need by itself for its own target.

    Tight to 1e-3: with "noise" the device that is closest to its target, with "weight" and "clip" every device; with
    "slots" and "inferences" one more would exceed a target. Except where
        no noise at all is needed, or a device has no weight or takes part too rarely for its feature to count;
        a weight or clip norm is at the limit of the device's power (an outage of one half at a fixed γ) or 1e6 times
        what it was;
        ε jumps: 1e-6 more weight, or 1e-6 less noise, exceeds a target;
        the number of inferences is 2^20 or 1, or that of slots 4096 or 1 (a stream is accounted for on a coarser grid,
        rounded up).
    Edge cases: unreachable → an error that names the smallest ε that can be reached, or the power that limits it, and
        with a live claim what else would do.

    >>> from airpool import guarantee, odds, Channel, Ranking
    >>> net = calibrate(Network.uniform(num_devices=12, clip_norm=1.0), epsilon=2.0)
    >>> round(net.devices.noise_std[0], 5), bool(guarantee(net).worst <= 2.0)
    (0.04796, True)
    >>> weak = Network.uniform(num_devices=12, channel=Channel(fading="rician", power_rule="backoff"))
    >>> simulated, running = calibrate(weak, epsilon=2.0), calibrate(weak, Claim(live=True), epsilon=2.0)
    >>> [round(guarantee(each, Claim(live=True)).worst, 2) for each in (simulated, running)]
    [8.35, 2.0]
    >>> calibrate(net, epsilon=8.0, adjust="inferences").inferences
    11
    >>> calibrate(net, epsilon=8.0, adjust="slots").slots.count
    11
    >>> guessed = calibrate(Network.uniform(num_devices=12), odds=0.55)
    >>> round(guessed.devices.noise_std[0], 4), bool(0.5499 < odds(guessed).worst <= 0.55)
    (0.1914, True)
    >>> net = Network.uniform(num_devices=12, scheme=Ranking(score_bound=1.0, num_selected=8))
    >>> ours = calibrate(net, epsilon=2.0, share=0.1)
    >>> round(ours.scheme.score_noise_std, 3), round(ours.devices.noise_std[0], 4), guarantee(ours).worst <= 2
    (6.305, 0.0619, True)
    """
    require_network(network)
    require_claim(claim)
    if adjust not in get_args(Adjust):
        raise ValueError(f"adjust={adjust!r} must be one of {', '.join(get_args(Adjust))}")
    if claim.per_event is not None and adjust == "inferences":
        raise ValueError(f"per_event={claim.per_event} must be None: adjust='inferences' finds how many share ε")
    claim = claim.of_target
    if adjust not in ("slots", "inferences"):  # which ask for one of them
        require_supported(network, claim)
    if odds is not None:
        if epsilon is not None or share is not None or per_device or adjust != "noise":
            raise ValueError("odds set one factor on the noise: leave out epsilon, share, per_device and adjust")
    elif share is not None:
        if adjust != "noise" or per_device:
            raise ValueError("share sets the noise of scores and features: leave out adjust and per_device")
        if epsilon is None or np.ndim(epsilon) or not 0 < float(np.asarray(epsilon)) < np.inf:
            raise ValueError(f"epsilon={epsilon} must be one number > 0 and finite where share is given")
    with single_thread(), automatic("calibrating"):
        if odds is not None:
            return _with_odds(network, claim, odds, prior)
        target = targets(network, epsilon)
        if share is not None:
            network = _with_score_noise(network, claim, float(target[0]), share)
        network = with_column(network, "epsilon", target)
        return _met(network, claim, target, adjust, per_device=per_device, advise=claim.live)


def _met(
    network: Network, claim: Claim, target: Floats, adjust: Adjust, *, per_device: bool, advise: bool
) -> Network | Claim:
    """`calibrate` with its targets. advise: an error says what else would do."""

    def advice() -> str:
        return _what_would_do(network, claim, target, adjust, per_device=per_device) if advise else ""

    if adjust == "noise":
        return _with_least_noise(network, claim, target, advice, per_device=per_device)
    if adjust == "slots":
        return _with_most_slots(network, claim, target, advice)
    if adjust == "inferences":
        return _with_most_inferences(network, claim, target, advice)
    column = "weight" if adjust == "weight" else "clip_norm"
    start = np.array(getattr(network.devices, column))

    def meets(factor: Floats, *, rough: bool = False) -> Any:
        return device_epsilon(with_column(network, column, start * factor), claim, rough=rough) <= target

    factor = _largest_factor(network, claim, meets)
    if np.any(factor <= 0):
        bare = device_epsilon(with_column(network, column, start * 1e-12), claim)
        k = int(np.argmax(bare / target))
        raise search.UnreachableError(float(target[k]), float(bare[k]), advice())
    return with_column(network, column, start * factor)


def _largest_factor(network: Network, claim: Claim, meets: Callable[..., Any]) -> Floats:
    """Of each device, the largest factor on its weight or clip norm at which all targets are met; 0 where none is.

    Searched for all devices at once, and again until all are right together where power couples them (fading, a γ that
    follows the weights).
    """
    most = most_feature(network)
    if np.any(most <= 0):
        k = int(np.argmin(most))
        raise ValueError(
            f"device {k} has no power left for a feature: its noise takes all of power_dbm="
            f"{network.devices.column('power_dbm')[k]:g} at gamma={network.channel.gamma:g}; lower noise_std or gamma, "
            'or write gamma = "auto"'
        )
    strength = aggregate(network, claim).strength
    if strength is None:
        factor = search.seen_to_meet(meets, search.largest(meets, most))
        if np.all(factor > 0) and np.all((factor >= most) | ~meets(np.minimum(factor * (1 + _TIGHT), most))):
            return factor
        return search.balanced(meets, factor, most)
    # Every step is a new law: few steps, with few draws before the last ones.
    first = partial(meets, rough=True)
    about = search.largest(first, most, within=_COSTLY)
    about = search.balanced(first, about, most, within=_COSTLY / 4)
    if isinstance(strength, Arrivals) or not np.all(about > 0):
        about = search.balanced(meets, np.where(about > 0, about, 1e-3), most, within=_COSTLY / 4)
    return about


def targets(network: Network, epsilon: float | Sequence[float] | Floats | None) -> Floats:
    """One target ε per device, from a number, a list, or the network's own; checked."""
    wanted = network.devices.epsilon if epsilon is None else epsilon
    if wanted is None:
        raise ValueError("no target: give epsilon, or devices.epsilon in the network file")
    target = checked("epsilon", wanted, allowed="must be > 0 and finite", ok=lambda x: (x > 0) & np.isfinite(x))
    if target.ndim > 1 or (target.ndim == 1 and len(target) != network.devices.count):
        raise ValueError(f"epsilon has {target.size} values for {network.devices.count} devices; give one or one each")
    return np.broadcast_to(target, (network.devices.count,)).copy()


def with_column(network: Network, column: str, values: Floats) -> Network:
    """The network with one column of its devices changed."""
    return replace(network, devices=replace(network.devices, **{column: tuple(values.tolist())}))


def _with_least_noise(
    network: Network, claim: Claim, target: Floats, advice: Callable[[], str], *, per_device: bool
) -> Network:
    profile = np.array(network.devices.noise_std)
    if per_device:
        # What each device would need alone: a device with a stricter target carries more of the noise.
        alone = gaussian.noise_multiplier(target, claim.delta)
        profile = aggregate(network).distance(claim.neighbours) * alone
    try:
        return _least_noise(network, claim, profile, target, partial(device_epsilon, claim=claim))
    except search.UnreachableError as error:
        _require_feasible_scores(network, claim, target)
        hint = advice()
        if network.channel.gamma == "auto":
            if np.isinf(error.smallest) and not hint:
                ideal = Question(network, replace(claim, live=False)).situation
                hint = f" ({reasons(ideal, {'epsilon': at_server(ideal)}, {'epsilon': error.smallest})['epsilon']})"
            raise search.UnreachableError(error.target, error.smallest, hint) from None
        power = min(network.devices.column("power_dbm"))
        raise ValueError(
            f"ε={full(error.target)} cannot be met with power_dbm={power:g} at gamma={network.channel.gamma:g}: the "
            f"smallest ε that can is {up(error.smallest)}{hint}; "
            'with gamma = "auto" the power does not limit the noise'
        ) from None


def _least_noise(
    network: Network, claim: Claim, profile: Floats, target: Floats, spent_by: Callable[..., Floats]
) -> Network:
    """The network with the least multiple of a profile of noise at which what each device spends meets its target.

    Live noise may be covered by the receiver's noise only where there is little of it.
    Edge cases: out of reach → `UnreachableError`, which names the least that is spent.
    """
    live = claim.live
    if not np.any(profile > 0):
        profile = np.ones_like(profile)
    if live and np.any(profile <= 0):
        raise ValueError(
            f"device {int(np.argmin(profile))} would have noise_std=0: live, every device needs some noise"
        )

    def scaled(factor: float) -> Network:
        return with_column(network, "noise_std", profile * factor)

    def spent(factor: float, *, rough: bool = False) -> Floats:
        # Without any noise no device goes live.
        return spent_by(scaled(factor), rough=rough) if factor > 0 or not live else np.full(len(profile), np.inf)

    transmitters, most = _power_limit(network)
    spare, noisy = np.maximum(most - transmitters.feature_norm**2, 0.0), profile > 0
    # The largest multiple of the profile that leaves every device within its power.
    limit = float(np.min(np.sqrt(spare[noisy] / network.coordinates) / profile[noisy], initial=np.inf))
    # More noise is more outages at a fixed γ, and shows more where a device is removed.
    falling = np.isinf(limit) and claim.neighbours.keeps_noise
    strength = aggregate(scaled(1.0) if live else network, claim).strength

    def searched(most: float) -> float:
        near, within = None, 0.0 if strength is None else _FINE  # every step may be a new law
        if isinstance(strength, Arrivals):
            within = _COSTLY if strength.costly else _FINE
            with suppress(search.UnreachableError):
                rough = partial(spent, rough=True)
                near = search.smallest_factor(rough, target, most=most, falling=falling, within=within) or None
        return search.smallest_factor(spent, target, most=most, falling=falling, within=within, near=near)

    if not live or network.channel.noise_std == 0 or limit <= _LEAST_NOISE:
        return scaled(searched(limit))
    return scaled(_least_covered_or_not(network, claim, scaled, searched, limit))


def _least_covered_or_not(
    network: Network, claim: Claim, scaled: Callable[[float], Network], searched: Callable[[float], float], limit: float
) -> float:
    """The least factor that meets the targets live: ε jumps up at the noise that the receiver's no longer covers."""

    def lacking(factor: float) -> float:
        return covering_noise(scaled(factor), claim) - network.channel.noise_std

    missed: search.UnreachableError | None = None
    try:
        found = searched(limit)
        if lacking(found) <= 0:
            return found
    except search.UnreachableError as error:
        missed, found = error, min(limit, _MOST_NOISE)
    if lacking(_LEAST_NOISE) > 0 or lacking(found) <= 0:
        if missed is not None:
            raise missed
        return found
    # The largest factor that is covered, by the search for the smallest −ln of one.
    ends = -float(np.log(found)), -float(np.log(_LEAST_NOISE))
    most = smallest_number(lambda x: lacking(float(np.exp(-x))), *ends, within=_TIGHT / 1e3)
    try:
        return searched(float(np.exp(-most)))
    except search.UnreachableError as error:
        if missed is not None:
            raise min(missed, error, key=lambda each: each.smallest) from None
        return found


def _what_would_do(network: Network, claim: Claim, target: Floats, adjust: Adjust, *, per_device: bool) -> str:
    """Changes with which live noise meets the targets, each of them tried; nothing where the grid is not in the way."""
    std, channel, found = np.array(network.devices.column("noise_std")), network.channel, list[str]()
    noisy = with_column(network, "noise_std", np.where(std > 0, std, 1.0))
    if covering_noise(noisy, claim) <= channel.noise_std:
        return ""

    def met(changed: Network, **claimed: Any) -> Network | None:
        asked = replace(claim, credit_channel_noise=False, **claimed)
        with suppress(ValueError):
            found = _met(changed, asked, target, adjust, per_device=per_device, advise=False)
            return found if isinstance(found, Network) else changed
        return None

    if (
        channel.rules.radio
        and (covered := met(replace(network, channel=replace(channel, noise_std=_LOUD)))) is not None
    ):
        found.append(f"channel.noise_std >= {up(covering_noise(covered, claim))} (case c of the live-noise theorem)")
    if (
        channel.power_rule == "backoff"
        and met(replace(network, channel=replace(channel, power_rule="truncate"))) is not None
    ):
        found.append('power_rule = "truncate"')
    if not claim.neighbours.keeps_noise and met(network, neighbours=Neighbours.ZERO_OUT) is not None:
        found.append('neighbours = "zero-out"')
    why = ALONE if claim.neighbours.keeps_noise else GRID_REMOVED
    return f"; {why}: {' or '.join(found)} would do" if found else ""


def _require_feasible_scores(network: Network, claim: Claim, target: Floats) -> None:
    """Raises where the scores of Scheme 2.1 or 2.2 alone cost more than a target."""
    if network.scheme.independent:
        return
    spent = score_epsilon(network, claim)
    k = int(np.argmax(spent / target))
    if spent[k] > target[k]:
        cost = f"which is what the scores cost at score_noise_std={scored(network.scheme).score_noise_std:g}"
        advice = f", {cost}: raise it (share, or --share, does)"
        raise search.UnreachableError(float(target[k]), float(spent[k]), advice) from None


def _with_most_inferences(network: Network, claim: Claim, target: Floats, advice: Callable[[], str]) -> Claim:
    """The claim with as many inferences as the tightest target allows; an error where one is too many."""
    situation = Question(network, replace(claim, inferences=1)).situation
    require_supported(network, situation.claim)
    once = device_epsilon(network, situation.claim, situation.here)
    _require_one("inference", once, target, advice)
    return replace(claim, inferences=most_inferences(situation, target))


def _with_most_slots(network: Network, claim: Claim, target: Floats, advice: Callable[[], str]) -> Network:
    """The network with as many slots an inference as the tightest target allows; an error where one is too many."""

    def of(count: int) -> Network:
        return replace(network, slots=replace(network.slots, count=count))

    def fits(count: int) -> bool:
        drawn = not claim.live or supports_live(of(count), claim)
        return drawn and bool(np.all(device_epsilon(of(count), claim) <= target))

    require_supported(of(1), claim)
    _require_one("slot", device_epsilon(of(1), claim), target, advice)
    return of(compose.most_inferences(fits, limit=MOST_SLOTS))


def _require_one(what: str, once: Floats, target: Floats, advice: Callable[[], str]) -> None:
    """Raises a ValueError where a single inference, or slot, is more than a target allows."""
    if np.any(once > target):
        k = int(np.argmax(once / target))
        spent = f"device {k} spends {up(once[k])} on it"
        raise ValueError(f"ε={full(target[k])} does not allow one {what}: {spent}{advice()}")


def _power_limit(network: Network) -> tuple[Transmitters, Floats]:
    """The devices without noise, and the largest w²C² + rσ² that each may send at a fixed γ."""
    quiet = link_of(with_column(network, "noise_std", np.zeros(network.devices.count)))
    gamma = network.channel.gamma
    if gamma == "auto":
        return quiet.transmitters, np.full(network.devices.count, np.inf)
    needed = quantile(quiet.fading, _MOST_OUTAGE, csi_error_std=network.channel.csi_error_std)
    reach = needed / (gamma * (1 + quiet.transmitters.margin))
    # A margin, so that the network at this limit is itself within its power.
    return quiet.transmitters, quiet.transmitters.power_max * reach**2 * (1 - 1e-12)


def most_feature(network: Network) -> Floats:
    """Of each device, the largest factor on its weight or clip norm that its power can carry."""
    transmitters, limit = _power_limit(network)
    noise = network.coordinates * np.array(network.devices.column("noise_std")) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.sqrt(np.maximum(limit - noise, 0.0)) / transmitters.feature_norm
    return np.minimum(np.where(transmitters.feature_norm > 0, factor, np.inf), 1e6)


def _with_odds(network: Network, claim: Claim, odds: float, prior: float) -> Network:
    """The network with the least noise at which the odds of its worst device are at most `odds`; one factor for all."""
    kappa = priors(prior)
    if np.ndim(prior) or not prior < odds < 1:
        raise ValueError(f"odds={odds} must be > prior={prior} and < 1: no noise makes a guess worse than its prior")

    def gained(candidate: Network, *, rough: bool = False) -> Floats:
        """The worst guess's gain over the prior, as a share of what it may be."""
        found = device_odds(Question(candidate, claim), kappa, rough=rough)[0]
        return (found - prior) / (odds - prior)

    try:
        profile, one = np.array(network.devices.noise_std), np.ones(network.devices.count)
        return _least_noise(network, claim, profile, one, gained)
    except search.UnreachableError as error:
        least = prior + error.smallest * (odds - prior)
        asked = f"odds of {percent(odds)} at a prior of {percent(prior)}"
        raise ValueError(f"{asked} cannot be met by adding noise: the least that can is {percent(least)}") from None


# The least noise on the score that is tried, in units of its range: practically none.
_LEAST = 2.0**-20


def _with_score_noise(network: Network, claim: Claim, epsilon: float, share: float) -> Network:
    """The network with the noise on its score that leaves the rest of ε to the features."""
    scheme, name = network.scheme, network.scheme.name
    if scheme.independent:
        raise ValueError(f"scheme.name={name!r} has no score: share is for 2.1 and 2.2")
    if not 0 < share < 1:
        raise ValueError(f"share={share} must be > 0 and < 1: both score and feature need some of ε")
    if scheme.needs_ranking_server:
        return _with(network, _gaussian_noise(network, claim, epsilon) / float(np.sqrt(share)))
    return _with(network, _decision_noise(network, claim, epsilon * share))


def _with(network: Network, std: float) -> Network:
    return replace(network, scheme=replace(scored(network.scheme), score_noise_std=std))


def _gaussian_noise(network: Network, claim: Claim, epsilon: float) -> float:
    """σ₀ = Δu √T/μ(ε), T inferences: at this noise the score may be published; with a margin for rounding."""
    low, high = scored(network.scheme).score_range()
    once = float(gaussian.noise_multiplier(epsilon, claim.delta))
    return (high - low) * once * float(np.sqrt(network.uses(claim))) * (1 + 1e-12)


def _decision_noise(network: Network, claim: Claim, target: float) -> float:
    """The smallest σ₀ from which on the decision to transmit costs at most `target`.

    The decision is a function of the noisy score, so the noise at which the score itself may be published suffices.
    The search goes down from there to the first noise that is too small: the cost falls with σ₀ where η lies within
    the range of scores, but first rises where η lies outside, since without noise all devices decide alike.
    """
    unit = scored(network.scheme).score_range().high

    def excess(std: float) -> float:
        return float(np.max(score_epsilon(_with(network, std), claim))) - target

    good = _gaussian_noise(network, claim, target)
    while good > unit * _LEAST and excess(good / 2) <= 0:
        good /= 2
    if good <= unit * _LEAST:
        return good
    return smallest_number(excess, good / 2, good)
