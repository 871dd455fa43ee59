"""Odds of a network: how often a guess at a secret of one view, or of the object, is right (theory/guarantee.md §11).

Each of the three ε has its odds, and so has an eavesdropper. Which of them bounds an attack is decided by what the
attacker hears and by who shows the secret: what several views show is the object's (docs/proofs/odds.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, overload

import numpy as np

from airpool._support.arrays import Floats, Integers
from airpool._support.threads import single_thread
from airpool.account.eavesdropper import at_the_eavesdropper, why_local
from airpool.account.games import decision, game
from airpool.account.guesses import REPORTED, Odds
from airpool.account.received import aggregate
from airpool.account.stream import COMPOSED_CELLS, StillStream, exceeded, in_common, most_draws, worst_of_draws
from airpool.network import Neighbours, Network, require_network, scheme_rules
from airpool.privacy import compose, device
from airpool.privacy import odds as bounds
from airpool.privacy.aggregate import Aggregate, ratio
from airpool.privacy.game import Game, gaussians
from airpool.privacy.leakage import public_score_game
from airpool.privacy.object import object_game

# Cells of a noise law and points of a curve where a stream of Scheme 2.1 is composed for its odds.
_CELLS, _POINTS = 2**6, 2**7


@overload
def odds(
    network: Network,
    prior: float = 0.5,
    *,
    colluding: Sequence[int] = (),
    credit_channel_noise: bool = False,
    live: bool = False,
) -> Odds: ...
@overload
def odds(
    network: Network,
    prior: Sequence[float],
    *,
    colluding: Sequence[int] = (),
    credit_channel_noise: bool = False,
    live: bool = False,
) -> tuple[Odds, ...]: ...


def odds(
    network: Network,
    prior: float | Sequence[float] = 0.5,
    *,
    colluding: Sequence[int] = (),
    credit_channel_noise: bool = False,
    live: bool = False,
) -> Odds | tuple[Odds, ...]:
    """The largest probability that a guess is right, of every device and of the object; rounded up.

    prior: of the best guess without the signals, ½ for a yes-or-no question; several give several `Odds`.
    colluding, credit_channel_noise, live: as in `guarantee`. The number of inferences and slots is the network's: all
    of them show the same secret. Odds do not depend on the neighbours that ε is about, nor on δ.

    >>> from airpool import calibrate
    >>> net = calibrate(Network.uniform(num_devices=12, clip_norm=1.0), epsilon=1.0, delta=1e-5)
    >>> found = odds(net, prior=0.5)
    >>> round(found.worst, 4), round(float(found.local[0]), 4), round(found.object, 4)
    (0.6057, 0.8234, 0.9994)
    """
    require_network(network)
    kappa = bounds.priors(prior)
    network = zeroed(network)
    how: Any = {"colluding": colluding, "credit_channel_noise": credit_channel_noise, "live": live}
    found = odds_of(network, aggregate(network, **how), kappa, live=live)
    return found[0] if np.ndim(prior) == 0 else found


def zeroed(network: Network) -> Network:
    """The network with the neighbours that odds are about: a zeroed feature."""
    return network if network.neighbours is Neighbours.ZERO_OUT else replace(network, neighbours=Neighbours.ZERO_OUT)


def reported(
    network: Network, received: Callable[[Network], Aggregate], played: Callable[[], Game], *, live: bool
) -> tuple[Odds, ...]:
    """Odds of a report at the priors `REPORTED`. received, played: what the report computed ε from."""
    plain, again = zeroed(network), None
    if network.neighbours is Neighbours.ZERO_OUT:
        again = played
    elif network.neighbours is Neighbours.REPLACE and not (scheme_rules(network.scheme).scored or network.cover_noise):
        again = partial(bounds.halved, played())
    return odds_of(plain, received(plain), np.array(REPORTED), live=live, played=again)


def odds_of(
    network: Network,
    received: Aggregate,
    prior: Floats,
    *,
    live: bool = False,
    played: Callable[[], Game] | None = None,
) -> tuple[Odds, ...]:
    """Odds at each prior, from what is received; zero-out neighbours. played: its game, where there is one already."""
    local = _local(network, received, prior)
    found = np.minimum(_device(network, received, prior, played), local)
    every, heard = _object(network, received, prior), _eavesdropper(network, received, prior, local, live=live)
    return tuple(
        Odds(float(kappa), found[i], local[i], float(every[i]), None if heard is None else heard[i])
        for i, kappa in enumerate(prior)
    )


def device_odds(network: Network, received: Aggregate, prior: Floats) -> Floats:
    """Odds (priors, devices) from the sum, without the rest; zero-out neighbours."""
    return np.minimum(_device(network, received, prior, None), _local(network, received, prior))


def _missed(found: Floats, missed: Floats | float) -> Floats:
    """Odds where the law is missed with this probability: a guess may then be right every time."""
    return np.minimum(found + missed, 1.0)


def _local(network: Network, received: Aggregate, prior: Floats) -> Floats:
    """Odds from a device's own signal; it includes what score and decision leak."""
    alone = replace(received, alone=True, extra=0.0)
    if scheme_rules(network.scheme).scored:
        found = _fresh(network, alone, prior)
    else:
        mu = ratio(alone.shift, np.sqrt(alone.variance)) * np.sqrt(network.uses)
        found = bounds.of_gaussian(prior[:, None], mu)
    return _missed(found, np.minimum(network.uses * alone.misses, 1.0))


def _device(network: Network, received: Aggregate, prior: Floats, played: Callable[[], Game] | None) -> Floats:
    if network.uses > 1 and in_common(network, received):
        found = _common(network, received, prior)
    else:
        found = _fresh(network, received, prior, played)
    return _missed(found, np.minimum(network.uses * received.misses, 1.0))


def _fresh(network: Network, received: Aggregate, prior: Floats, known: Callable[[], Game] | None = None) -> Floats:
    """Odds over as many draws of coins and channel as there are uses."""
    known = None if scheme_rules(network.scheme).ranked else known
    played = game(network, received, public_score=True) if known is None else known()
    chosen = decision(network.scheme)
    if chosen is not None:
        if network.uses == 1:
            return bounds.decided(played, chosen, prior)
        public = bounds.public_score(chosen, _mean_square(played))
        return _by_losses(public_score_game(received, chosen, public, cells=_CELLS), prior, network.uses, _POINTS)
    return _drawn(received, played, prior, network.uses)


def _drawn(received: Aggregate, played: Game, prior: Floats, uses: int) -> Floats:
    """Odds over draws that the adversary sees, but for coins under cover noise."""
    if uses == 1:
        return bounds.averaged(played, prior)
    hidden = received.cover_noise and bool(np.any(received.participation < 1)) and played.gaussian is None
    return (_by_losses if hidden else bounds.repeated)(played, prior, uses)


def _by_losses(played: Game, prior: Floats, uses: int, points: int = 2**10) -> Floats:
    with single_thread():
        streams = (compose.stream(played, kind, points=points) for kind in range(played.num_kinds))
        each = [bounds.composed(one.repeated(uses), prior) for one in streams]
    return np.array(each).T[:, played.of_device]


def _mean_square(played: Game) -> Floats:
    """Mean μ² of each device where it transmits, of its worst pair."""
    law, pairs = played.distances, np.arange(len(played.kind))
    assert law is not None
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.einsum("ij,ij->i", law.mass(pairs), np.minimum(law.mu(pairs), 1e6) ** 2)
    return played.worst(found)[played.of_device]


def _common(network: Network, received: Aggregate, prior: Floats) -> Floats:
    """Odds of a stream over one draw of the channel, or a few: E[Φ(Φ⁻¹(κ) + √T·μ)]; 1 where that is not known."""
    out = np.ones((len(prior), received.num_devices))
    if scheme_rules(network.scheme).scored or np.any(received.participation < 1):
        return out
    if (draws := most_draws(network, network.uses, 1)) == 1:
        together = replace(received, shift=received.shift * np.sqrt(network.uses))
        return bounds.averaged(device.game(together, Neighbours.ZERO_OUT), prior)
    kinds: Integers = device.game(received, Neighbours.ZERO_OUT).of_device
    for kind in np.unique(kinds):
        law = exceeded(network, received, int(np.argmax(kinds == kind)))
        assert law is not None  # all take part, and the neighbours are zero-out
        mu, mass = worst_of_draws([StillStream(law, network.uses, draws)])
        one = gaussians(mu[None], mass[None], np.zeros(1, dtype=np.int64))
        out[:, kinds == kind] = bounds.averaged(one, prior)
    return out


def _object(network: Network, received: Aggregate, prior: Floats) -> Floats:
    """Odds of what all views show. Scores may all change as well: nothing is claimed then."""
    if scheme_rules(network.scheme).scored:
        return np.ones(len(prior))
    if network.uses > 1 and in_common(network, received):
        received = replace(received, alone=True, extra=0.0)  # a bound for every draw of the channel
    played = object_game(received)
    found = bounds.averaged(played, prior) if network.uses == 1 else bounds.repeated(played, prior, network.uses)
    return _missed(found[:, 0], min(network.uses * float(np.sum(received.failure)), 1.0))


def _eavesdropper(network: Network, received: Aggregate, prior: Floats, local: Floats, *, live: bool) -> Floats | None:
    """Odds from antennas elsewhere, as in `eavesdropper.eavesdropped`; never above the local ones."""
    if not network.adversary.antennas:
        return None
    if why_local(network, live=live) is not None:
        return local.copy()
    there = at_the_eavesdropper(network, received)
    found = _common(network, there, prior) if network.uses > 1 else _drawn(there, _played(there), prior, 1)
    if network.uses > 1:
        found = np.maximum(found, _drawn(there, _played(there, COMPOSED_CELLS), prior, network.uses))
    return np.minimum(_missed(found, np.minimum(network.uses * there.misses, 1.0)), local)


def _played(there: Aggregate, cells: int | None = None) -> Game:
    return device.game(there, Neighbours.ZERO_OUT, cells=cells)
