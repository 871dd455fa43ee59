"""Reception of objects in repeated trials: over symbols, over a waveform's samples, or without noise."""

import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from airpool.network import Channel, Network
from airpool.protocol import inference
from airpool.protocol.inference import Baseline, centralised
from airpool.protocol.simulation import Drawn, receive
from airpool.protocol.waveform import Waveform, receive_waveform
from airpool.radio.link import ALWAYS_STRONG, Level, Link, level

SAMPLED = 2**9  # inferences per batch over a waveform


class Draws(NamedTuple):
    """Generators of the random draws: for symbols, and for samples.

    drawn: coins, scores and channel of an earlier slot, which serve once more.
    """

    symbols: torch.Generator
    samples: np.random.Generator
    drawn: Drawn | None = None

    def again(self) -> "Draws":
        """The same draws once more."""
        return Draws(self.symbols.clone_state(), copy.deepcopy(self.samples))


class Trials(NamedTuple):
    """Estimates (n, t, r), whether any device transmitted (n, t), and the energy of all devices (n, t).

    drawn: coins, scores and channel, over symbols.
    """

    estimate: Tensor
    any_signal: Tensor
    energy: Tensor
    drawn: Drawn | None = None


def draws(device: torch.device, seed: int) -> Draws:
    return Draws(torch.Generator(device).manual_seed(seed), np.random.default_rng(seed))


def heard(
    latents: Tensor,
    network: Network,
    draws: Draws,
    *,
    trials: int,
    link: Link | None = None,
    instead: Baseline | Waveform | None = None,
    scores: tuple[Tensor | None, int | None] = (None, None),
) -> Trials:
    """Estimates from latents (n, K, r), each sent in `trials` trials; all else as in `evaluate`.

    scores: raw, in bits, (n, K), and the number of classes behind them.
    """
    if isinstance(instead, Waveform):
        got = receive_waveform(
            latents.double().cpu().numpy(), network, rng=draws.samples, waveform=instead, trials=trials
        )
        parts = (got.estimate, got.transmitting.any(-1), got.energy)
        estimate, signal, energy = (torch.from_numpy(part).to(latents.device) for part in parts)
        return Trials(estimate.to(latents.dtype), signal, energy)
    if instead == "centralised":
        received = centralised(latents, network, trials)
    else:
        received = receive(
            latents,
            network,
            rng=draws.symbols,
            trials=trials,
            scores=scores[0],
            num_classes=scores[1],
            link=link,
            only_best=instead == "best-device",
            drawn=draws.drawn,
        )
    return Trials(received.estimate, received.any_signal, received.energy, received.drawn)


def level_of(network: Network, instead: Baseline | Waveform | None, participation: ArrayLike | None) -> Level:
    """Signal and noise of the estimate, which are public."""
    if isinstance(instead, Waveform):  # received over γ = 1
        of_devices = level(replace(network, channel=Channel(gamma=ALWAYS_STRONG)))
        return Level(of_devices.signal, float(np.hypot(of_devices.noise_std, network.channel.noise_std)))
    return inference.level_of(network, instead, participation=participation)
