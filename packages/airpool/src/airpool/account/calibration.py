"""A network that meets a target ε: the least noise, or the largest weight or clip norm of each device.

The target holds for `network.inferences` inferences together (composition: privacy/compose.py). The search by factor is
privacy/calibrate.py; the ε at each step is account.guarantee's.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from airpool._support.arrays import Floats, checked
from airpool._support.progress import automatic
from airpool._support.rounding import full, up
from airpool._support.search import smallest_number
from airpool._support.threads import single_thread
from airpool.account.guarantee import aggregate, epsilon_after, paper_claim, score_epsilon
from airpool.account.guarantee import epsilon as device_epsilon
from airpool.account.reasons import ALONE, GRID_REMOVED, reasons
from airpool.account.received import covering_noise, require_supported, supports_live
from airpool.network import Neighbours, Network, require_network, scheme_rules, scored
from airpool.privacy import calibrate as search
from airpool.privacy import compose, gaussian
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.law import Arrivals, Strength
from airpool.radio.fading import quantile
from airpool.radio.link import link_of
from airpool.radio.power import Transmitters

Knob = Literal["noise", "weight", "clip", "inferences"]
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


def calibrate(
    network: Network,
    *,
    epsilon: float | Sequence[float] | None = None,
    delta: float | None = None,
    knob: Knob = "noise",
    per_device: bool = False,
    colluding: Sequence[int] = (),
    credit_channel_noise: bool = False,
    live: bool = False,
) -> Network:
    """A new network whose ε meets a target, never above it: the least noise, the largest weight or clip norm, or the
    largest number of inferences.

    epsilon: one target for all devices or one for each; left out, the network's own `devices.epsilon`.
    knob: "noise" multiplies the noise of all devices by one factor; "weight" and "clip" change each device for itself;
        "inferences" leaves the devices as they are and says how often they may be used.
    per_device: share the noise out in proportion to what each device would need by itself for its own target.
    colluding, credit_channel_noise, live: as in `guarantee`, whose ε with the same arguments meets the target. Live
        noise that arrives unaligned has to be louder.

    Tight to 1e-3: with "noise" the device that is closest to its target, with "weight" and "clip" every device; with
    "inferences" one more would exceed a target. Except where
        no noise at all is needed, or a device has no weight or takes part too rarely for its feature to count;
        a weight or clip norm is at the limit of the device's power (an outage of one half at a fixed γ) or 1e6 times
        what it was;
        ε jumps: 1e-6 more weight, or 1e-6 less noise, exceeds a target;
        the number of inferences is 2^20, or 1 (a stream is accounted for on a coarser grid, rounded up).
    Edge cases: unreachable → an error that names the smallest ε that can be reached, or the power that limits it, and
        with `live` what else would do.

    >>> from airpool import guarantee
    >>> net = calibrate(Network.uniform(num_devices=12, clip_norm=1.0), epsilon=2.0, delta=1e-5)
    >>> round(net.devices.noise_std[0], 5), bool(guarantee(net).worst <= 2.0)
    (0.04796, True)
    >>> from airpool import Channel
    >>> weak = Network.uniform(num_devices=12, channel=Channel(fading="rician", power_rule="backoff"))
    >>> simulated, running = calibrate(weak, epsilon=2.0), calibrate(weak, epsilon=2.0, live=True)
    >>> [round(guarantee(each, live=True).worst, 2) for each in (simulated, running)]
    [8.35, 2.0]
    """
    require_network(network)
    if delta is not None:
        network = replace(network, delta=delta)
    if live and knob != "inferences":
        require_supported(network)
    target = targets(network, epsilon)
    network = replace(network, devices=replace(network.devices, epsilon=tuple(target.tolist())))

    how: Any = {"colluding": colluding, "credit_channel_noise": credit_channel_noise, "live": live}
    with single_thread(), automatic("calibrating"):
        return _met(network, target, knob, per_device=per_device, how=how, advise=live)


def _met(
    network: Network, target: Floats, knob: Knob, *, per_device: bool, how: Mapping[str, Any], advise: bool
) -> Network:
    """`calibrate` with its targets; how: the options of `aggregate`. advise: an error says what else would do."""
    live: bool = how["live"]

    def epsilon_of(candidate: Network, *, rough: bool = False) -> Floats:
        return device_epsilon(candidate, aggregate(candidate, **how, rough=rough))

    def advice() -> str:
        return _what_would_do(network, target, knob, per_device=per_device, how=how) if advise else ""

    if knob == "noise":
        return _with_least_noise(network, target, epsilon_of, advice, per_device=per_device, live=live)
    if knob == "inferences":
        return _with_most_inferences(network, aggregate(network, **how), target, advice, live=live)
    if knob not in ("weight", "clip"):
        raise ValueError(f"knob={knob!r} must be one of {', '.join(get_args(Knob))}")
    column = "weight" if knob == "weight" else "clip_norm"
    start = np.array(getattr(network.devices, column))

    def meets(factor: Floats, *, rough: bool = False) -> Any:
        return epsilon_of(with_column(network, column, start * factor), rough=rough) <= target

    factor = _largest_factor(network, meets, live=live)
    if np.any(factor <= 0):
        bare = epsilon_of(with_column(network, column, start * 1e-12))
        k = int(np.argmax(bare / target))
        raise search.UnreachableError(float(target[k]), float(bare[k]), advice())
    return with_column(network, column, start * factor)


def _largest_factor(network: Network, meets: Callable[..., Any], *, live: bool) -> Floats:
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
    strength = aggregate(network, live=live).strength
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


def _closely(strength: Strength | Arrivals) -> float:
    """Relative tolerance of a search that computes a law at every step."""
    return _COSTLY if isinstance(strength, Arrivals) and strength.costly else _FINE


def calibrate_claim(network: Network, *, epsilon: float) -> Network:
    """The network with its noise scaled until the paper's Theorem 1 claims `epsilon` for its worst device.

    For comparison with the paper's tables, which are made this way. Not a valid bound: `guarantee` has the exact ε.

    >>> net = calibrate_claim(Network.uniform(num_devices=12, participation=0.9), epsilon=10.0)
    >>> round(net.devices.noise_std[0], 5)
    0.01862
    """
    require_network(network)
    epsilon = float(checked("epsilon", epsilon, allowed="must be > 0 and finite", ok=lambda x: (x > 0) & (x < np.inf)))
    start = np.array(network.devices.column("noise_std"))
    if not np.any(start > 0):
        raise ValueError("noise_std is 0 everywhere: nothing to scale")

    def scaled(log_factor: float) -> Network:
        return with_column(network, "noise_std", start * np.exp(log_factor))

    def beyond(log_factor: float) -> float:
        claimed = float(np.max(paper_claim(scaled(log_factor)).epsilon))
        return float(np.log(min(claimed, 1e300) / epsilon))

    found = smallest_number(beyond, -40.0, 40.0)
    if np.isinf(found):
        raise ValueError(f"Theorem 1 claims no ε as small as {epsilon} for this network, whatever the noise")
    return scaled(found)


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
    network: Network,
    target: Floats,
    epsilon_of: Callable[..., Floats],
    advice: Callable[[], str],
    *,
    per_device: bool,
    live: bool,
) -> Network:
    profile = np.array(network.devices.noise_std)
    if per_device:
        # What each device would need alone: a device with a stricter target carries more of the noise.
        alone = gaussian.noise_multiplier(target, network.delta)
        profile = aggregate(network).distance(network.neighbours) * alone
    try:
        return least_noise(network, profile, target, epsilon_of, live=live)
    except search.UnreachableError as error:
        _require_feasible_scores(network, target)
        hint = advice()
        if network.channel.gamma == "auto":
            if np.isinf(error.smallest) and not hint:
                why = reasons(network, aggregate(network), live=False, epsilon=error.smallest)["epsilon"]
                hint = f" ({why})"
            raise search.UnreachableError(error.target, error.smallest, hint) from None
        power = min(network.devices.column("power_dbm"))
        raise ValueError(
            f"ε={full(error.target)} cannot be met with power_dbm={power:g} at gamma={network.channel.gamma:g}: the "
            f"smallest ε that can is {up(error.smallest)}{hint}; "
            'with gamma = "auto" the power does not limit the noise'
        ) from None


def least_noise(
    network: Network, profile: Floats, target: Floats, spent_by: Callable[..., Floats], *, live: bool = False
) -> Network:
    """The network with the least multiple of a profile of noise at which what each device spends meets its target.

    live: what is spent is that of live noise, which the receiver's noise may cover only where there is little of it.
    Edge cases: out of reach → `UnreachableError`, which names the least that is spent.
    """
    if not np.any(profile > 0):
        profile = np.ones_like(profile)
    if live and np.any(profile <= 0):
        raise ValueError(
            f"device {int(np.argmin(profile))} would have noise_std=0: live, every device needs some noise"
        )

    def scaled(factor: float) -> Network:
        return with_column(network, "noise_std", profile * factor)

    def spent(factor: float, **rough: bool) -> Floats:
        # Without any noise no device goes live.
        return spent_by(scaled(factor), **rough) if factor > 0 or not live else np.full(len(profile), np.inf)

    transmitters, most = _power_limit(network)
    spare, noisy = np.maximum(most - transmitters.feature_norm**2, 0.0), profile > 0
    # The largest multiple of the profile that leaves every device within its power.
    limit = float(np.min(np.sqrt(spare[noisy] / network.coordinates) / profile[noisy], initial=np.inf))
    # More noise is more outages at a fixed γ, and shows more where a device is removed.
    falling = np.isinf(limit) and network.neighbours.keeps_noise
    strength = aggregate(scaled(1.0) if live else network, live=live).strength

    def searched(most: float) -> float:
        how: Any = {"most": most, "falling": falling}
        if strength is not None:  # every step may be a new law
            how["within"] = _closely(strength)
        if isinstance(strength, Arrivals):
            with suppress(search.UnreachableError):
                about = search.smallest_factor(partial(spent, rough=True), target, **how)
                how["near"] = about or None
        return search.smallest_factor(spent, target, **how)

    if not live or network.channel.noise_std == 0 or limit <= _LEAST_NOISE:
        return scaled(searched(limit))
    return scaled(_least_covered_or_not(network, scaled, searched, limit))


def _least_covered_or_not(
    network: Network, scaled: Callable[[float], Network], searched: Callable[[float], float], limit: float
) -> float:
    """The least factor that meets the targets live: ε jumps up at the noise that the receiver's no longer covers."""

    def lacking(factor: float) -> float:
        return covering_noise(scaled(factor)) - network.channel.noise_std

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


def _what_would_do(network: Network, target: Floats, knob: Knob, *, per_device: bool, how: Mapping[str, Any]) -> str:
    """Changes with which live noise meets the targets, each of them tried; nothing where the grid is not in the way."""
    std = np.array(network.devices.column("noise_std"))
    if covering_noise(with_column(network, "noise_std", np.where(std > 0, std, 1.0))) <= network.channel.noise_std:
        return ""
    channel, found, uncredited = network.channel, list[str](), {**how, "credit_channel_noise": False}

    def met(**changed: Any) -> Network | None:
        with suppress(ValueError):
            changed_network = replace(network, **changed)
            return _met(changed_network, target, knob, per_device=per_device, how=uncredited, advise=False)
        return None

    if (covered := met(channel=replace(channel, noise_std=_LOUD))) is not None:
        found.append(f"channel.noise_std >= {up(covering_noise(covered))} (case c of the live-noise theorem)")
    if channel.power_rule == "backoff" and met(channel=replace(channel, power_rule="truncate")) is not None:
        found.append('power_rule = "truncate"')
    if not network.neighbours.keeps_noise and met(neighbours=Neighbours.ZERO_OUT) is not None:
        found.append('neighbours = "zero-out"')
    why = ALONE if network.neighbours.keeps_noise else GRID_REMOVED
    return f"; {why}: {' or '.join(found)} would do" if found else ""


def _require_feasible_scores(network: Network, target: Floats) -> None:
    """Raises where the scores of Scheme 2.1 or 2.2 alone cost more than a target."""
    if not scheme_rules(network.scheme).scored:
        return
    spent = score_epsilon(network)
    k = int(np.argmax(spent / target))
    if spent[k] > target[k]:
        cost = f"which is what the scores cost at score_noise_std={scored(network.scheme).score_noise_std:g}"
        advice = f", {cost}: raise it (account.budget.split, or --share, does)"
        raise search.UnreachableError(float(target[k]), float(spent[k]), advice) from None


def _with_most_inferences(
    network: Network, received: Aggregate, target: Floats, advice: Callable[[], str], *, live: bool
) -> Network:
    """As many inferences as the tightest target allows; an error where one is too many."""
    one, slots = replace(network, inferences=1), replace(network, inferences=1).uses
    if live:
        require_supported(one)
    once = device_epsilon(one, received)
    if np.any(once > target):
        k = int(np.argmax(once / target))
        spent = f"device {k} spends {up(once[k])} on it"
        raise ValueError(f"ε={full(target[k])} does not allow one inference: {spent}{advice()}")
    stream = epsilon_after(replace(network, inferences=2), received)
    # A stream is accounted for on a coarser grid than a single inference, rounded up: one fits all the same.

    def fits(number: int) -> bool:
        if live and not supports_live(replace(network, inferences=number)):
            return False
        return number == 1 or bool(np.all(stream(number * slots) <= target))

    most = compose.most_inferences(fits)
    return replace(network, inferences=most)


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
