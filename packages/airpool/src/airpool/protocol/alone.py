"""One device by itself: what it transmits of one latent, and what it tells the ranking server.

A live device (live.py) and a seeded one (runtime/seeded.py) call this with their own source of randomness.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Array, Floats
from airpool.account.report import PrivacyReport
from airpool.network import Claim, Network, require_network, scored
from airpool.protocol import device as stations
from airpool.protocol.device import Randomness, Senders
from airpool.radio.link import link_of


@dataclass(frozen=True, eq=False)
class Signal:
    """Transmission x of one device, zeros where it is silent; (r,), or (r + 1,) where an odd r is padded with noise.

    scale: α/p, 0 where silent; from public numbers alone. Secrets of the device
    are not included. report: what the network leaks, with the δ that live noise costs; None: the noise is seeded.
    """

    samples: Floats
    scale: float
    report: PrivacyReport | None

    @property
    def sends(self) -> bool:
        """Whether it transmits at all, which is visible nearby."""
        return self.scale > 0

    @property
    def power(self) -> float:
        """‖x‖², in mW."""
        return float(self.samples @ self.samples)


@dataclass(frozen=True)
class Choice:
    """Input of a scheme that chooses devices by scores.

    score: Scheme 2.1, the raw uncertainty in bits. num_classes: of its posterior, where the score rule is `scale`.
    selected: Scheme 2.2, the ranking server's answer to `noisy_score`.
    takes_part: of any scheme, what an earlier slot has decided (`takes_part`) where one draw serves all slots.
    """

    score: float | None = None
    num_classes: int | None = None
    selected: bool | None = None
    takes_part: bool | None = None


def takes_part(network: Network, source: Randomness, *, device: int, choice: Choice = Choice()) -> bool:  # noqa: B008
    """τ of a device, for all slots of an inference. A secret of the device wherever its silence is not seen."""
    _check(choice, network)
    return bool(_drawn(_senders(network, device), source, np.ones((1, 1, 1)), choice)[0, 0, 0])


@np.errstate(all="ignore")
def signal(
    latent: ArrayLike,
    network: Network,
    source: Randomness,
    claim: Claim = Claim(),
    *,
    device: int,
    gain: float,
    choice: Choice = Choice(),  # noqa: B008
) -> Signal:
    """One transmission of one latent, (r,), over a channel of known gain h; see live.signal."""
    require_network(network)
    if isinstance(device, bool) or not isinstance(device, int | np.integer):
        raise TypeError(f"device={device!r} must be a whole number")
    if not 0 <= device < network.devices.count:
        raise ValueError(f"device={device} must be from 0 to {network.devices.count - 1}")
    if np.iscomplexobj(latent):
        raise TypeError("latent is complex, must be real: two real coordinates share one symbol")
    z = np.asarray(latent, dtype=np.float64)
    if z.shape != (network.dimension,):
        raise ValueError(f"latent has shape {z.shape}, must be ({network.dimension},)")
    if not np.isfinite(gain) or gain < 0:
        raise ValueError(f"gain={gain} must be >= 0 and finite")
    if gain != 1 and not network.channel.rules.radio:
        raise ValueError(f"gain={gain} must be 1: access = {network.channel.access} has no radio")
    report, senders, h = source.report(network, claim), _senders(network, int(device)), np.full((1, 1, 1), float(gain))
    _check(choice, network)
    out = stations.transmit(z[None, None], senders, source, gain=h, takes_part=_drawn(senders, source, h, choice))
    # Adding zero turns the −0 of a silent device into 0: its sign would be a bit of z̃.
    return Signal(out.samples[0, 0, 0] + 0.0, float(out.sent.scale[0, 0, 0]), report)


@np.errstate(all="ignore")
def noisy_score(
    score: float, network: Network, source: Randomness, claim: Claim = Claim(), *, num_classes: int | None = None
) -> float:
    """ũ = u + v for the ranking server of Scheme 2.2; see live.noisy_score."""
    require_network(network)
    if not network.scheme.needs_ranking_server:
        raise ValueError(f"scheme.name={network.scheme.name!r} must be 2.2: otherwise no score leaves the device")
    scheme = scored(network.scheme)
    if source.on_grid and scheme.score_noise_std == 0:
        raise ValueError("scheme.score_noise_std=0 must be > 0: a score without noise must not leave the device")
    source.report(network, claim)
    u = scheme.bounded(np.array([[score]], dtype=np.float64), num_classes)
    drawn = stations.noisy(u, scheme.score_noise_std, trials=1, source=source, limit=scheme.score_range().high)
    return float(drawn[0, 0, 0])


@np.errstate(all="ignore")
def _drawn(senders: Senders, source: Randomness, gain: Floats, choice: Choice) -> Array:
    scores = None if choice.score is None else np.array([[choice.score]], dtype=np.float64)
    known = choice.selected if choice.takes_part is None else choice.takes_part
    classes = choice.num_classes
    return stations.taking_part(senders, source, gain, scores=scores, num_classes=classes, selected=known)[0]


def _check(choice: Choice, network: Network) -> None:
    if choice.takes_part is not None:
        return
    scheme, ranked = network.scheme, network.scheme.needs_ranking_server
    wanted = "selected" if ranked else "score" if scheme.needs_posteriors else None
    for name in ("score", "selected"):
        if (getattr(choice, name) is not None) != (name == wanted):
            verb = "needs" if name == wanted else "takes no"
            raise ValueError(f"scheme {scheme.name} {verb} {name}: 2.1 goes by a score, 2.2 by being selected")
    if ranked and not isinstance(choice.selected, bool | np.bool_):
        raise ValueError(f"selected={choice.selected!r} must be true or false, what the ranking server answered")


@lru_cache(maxsize=64)
def _senders(network: Network, device: int) -> Senders:
    return Senders(network, link_of(network), only=device)
