"""From a network to its privacy report (docs/theory/leaks.md).

`guarantee` asks a question: what is received (received.py), what each adversary sees of it as a leak (views.py), and
the ε of that leak (privacy/epsilon.py). What each ε means: report.py; what it assumes: assumptions.py.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats
from airpool._support.progress import automatic
from airpool._support.threads import single_thread
from airpool.account.received import aggregate, require_supported
from airpool.account.report import PrivacyReport
from airpool.account.views import VIEWS, Question, Situation, at_server
from airpool.network import Claim, Network, require_claim, require_network
from airpool.privacy import gaussian
from airpool.privacy.aggregate import Aggregate, ratio
from airpool.privacy.epsilon import epsilon, lower


def guarantee(network: Network, claim: Claim = Claim()) -> PrivacyReport:
    """The exact (ε, δ) of every device, beside the paper's claim.

    claim: what is asked, by default one inference at δ = 1e-5 under zero-out. With `claim.per_event` the report also
    has ε of everything about one stay (`report.event`).

    >>> net = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, participation=0.9)
    >>> float(guarantee(net).epsilon[0].round(4))
    2.0639
    """
    require_network(network)
    require_claim(claim)
    network.require_same_coins()
    return answered(Question(network, claim))


def answered(question: Question) -> PrivacyReport:
    """The report that answers a question."""
    with single_thread(), automatic("computing ε"):
        situation = question.situation
        network, claim, here = situation.network, situation.claim, situation.here
        require_supported(network, claim)
        leaks = {name: leak for name, view in VIEWS.items() if (leak := view(situation)) is not None}
        found = {name: epsilon(leak, claim.delta) for name, leak in leaks.items()}
        # The upper law of a removal among random strengths is too dear.
        bracket = claim.neighbours.keeps_noise or here.strength is None
        bracket &= question.carrier is None or question.carrier.exact
        end = lower(leaks["epsilon"], claim.delta) if bracket else None
        for values in (*found.values(), *([] if end is None else [end])):
            values.setflags(write=False)  # reports are shared
        report = PrivacyReport(
            question=question,
            leaks=leaks,
            epsilon=found["epsilon"],
            epsilon_lower=end,
            epsilon_local=found["epsilon_local"],
            epsilon_object=float(found["epsilon_object"][0]),
            epsilon_eavesdropper=found.get("epsilon_eavesdropper"),
        )
        if claim.per_event is None:
            return report
        return replace(report, event=answered(replace(question, claim=claim.of_target)).as_event)


def realised_epsilon(network: Network, alignment: ArrayLike, claim: Claim = Claim()) -> Floats:
    """ε of each device given the realised alignments (..., K), 0 where silent.

    The maximum over the given inferences, conditional on who was received. The report's ε averages over that draw: it
    is smaller where few were received, and larger where all were. Colluders, dropouts and access as in the report.
    Holds for: one inference of Scheme 1, zero-out or replace, alignments that do not depend on the noise.
    """
    g = np.atleast_2d(np.asarray(alignment, dtype=np.float64))
    count, rule = network.devices.count, network.channel.power_rule
    if g.shape[-1] != count:
        raise ValueError(f"alignment has shape {g.shape}, must end with the {count} devices")
    if claim.inferences * network.slots.count > 1:
        slots = f"inferences={claim.inferences}, slots.count={network.slots.count}"
        raise ValueError(f"{slots} must be 1: realised_epsilon is that of one slot")
    if not claim.neighbours.keeps_noise or not network.scheme.independent:
        raise ValueError(
            f"neighbours={claim.neighbours!r} and scheme {network.scheme.name}: realised_epsilon needs zero-out or "
            "replace, and Scheme 1"
        )
    if rule == "paper":
        raise ValueError(f"channel.power_rule={rule!r} lets the alignment depend on the noise, so it cannot be given")
    # Alignments are what one antenna receives. Under errors others may receive more, and the server's other antennas
    # receive other sums of the same signals: own noise alone counts.
    received, channel = aggregate(network, claim), network.channel
    received = received if channel.aligned else replace(received, alone=True)
    worst = np.zeros(count)
    for once in np.unique(np.abs(g).reshape(-1, count), axis=0):
        there = replace(received, shift=once * received.shift, variance=once**2 * received.variance)
        worst = np.maximum(worst, ratio(there.distance(claim.neighbours), np.sqrt(there.fixed_variance())))
    return gaussian.epsilon(worst, claim.delta)


def device_epsilon(
    network: Network, claim: Claim = Claim(), here: Aggregate | None = None, *, rough: bool = False
) -> Floats:
    """The proven ε of each device, without the rest of the report. here: what is received, where it is known."""
    with single_thread():
        here = aggregate(network, claim, rough=rough) if here is None else here
        return epsilon(at_server(Situation(network, claim, here, network.uses(claim))), claim.delta)


def score_epsilon(network: Network, claim: Claim = Claim()) -> Floats:
    """ε that the score (2.2) or the decision made of it (2.1) costs each device if the features cost nothing.

    The smallest ε that noise on the features can reach.

    >>> from airpool import Network, Threshold
    >>> net = Network.uniform(num_devices=12, scheme=Threshold(score_noise_std=0.5, threshold=0.5))
    >>> float(score_epsilon(net)[0].round(4))
    1.6683
    """
    nothing = np.zeros(network.devices.count)
    if network.scheme.independent:
        return nothing
    return device_epsilon(network, claim, Aggregate(shift=nothing, variance=nothing, participation=nothing))
