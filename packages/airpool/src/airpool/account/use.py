"""One use of a network by one device, as the leaks that a ledger stores and adds up (privacy/together.py)."""

from dataclasses import replace

from airpool.account.received import aggregate
from airpool.account.views import Situation, at_server, certain, most_draws, stays
from airpool.network import Claim, Network
from airpool.privacy.leak import Draws
from airpool.privacy.together import Use, of_one

_ENDLESS = 2**62  # uses: more than there are surroundings


def use(network: Network, claim: Claim, device: int) -> Use:
    """One use of the network by a device, for the claim's neighbours and noise.

    Where a channel stays and it is not certain who takes part, own noise alone counts, and no silence that is common to
    a stream.
    """
    one = Situation(network, claim, aggregate(network, claim), 1)
    still, keeps = stays(network, one.here), network.scheme.independent and claim.neighbours.keeps_noise
    alone = one.own.of(device) if still and keeps else one.alone.of(device)
    missed = tuple(float(each.misses[device]) for each in (one.here, one.without_others))
    counted = not still or certain(network, claim, one.here)
    once = one.once.of(device)
    return Use(
        once=of_one(at_server(one), device),
        often=of_one(at_server(replace(one, many=True)), device),
        mixed=alone if not counted else Draws(1, 1, once) if still else once,
        alone=alone,
        missed=(missed[not counted], missed[1]),
        surroundings=0 if not still else most_draws(network, _ENDLESS, 1) if counted else 1,
    )
