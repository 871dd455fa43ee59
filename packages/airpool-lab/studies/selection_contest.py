"""The contestants of studies/selection_study.py: which networks each scheme may choose from, and how one is judged.

All of them meet the same total ε of every device, scores included. Each has parameters of its own, chosen on validation
objects; and each may tell the decoder a share of the level (`told`), since corrupted views add up to less.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import inf, log2, sqrt
from typing import Any

import torch
from torch import Tensor

from airpool import Channel, Claim, Network, calibrate, load
from airpool._support import files
from airpool.account import theorem1
from airpool.models.pretrained import HeldOut, Objects
from airpool.network import Coin, Neighbours, Ranking, Scheme, Threshold, scored
from airpool.protocol.server import labels
from airpool.protocol.simulation import receive
from airpool.radio.link import Level, level
from airpool.schemes.scores import expected_participation, uncertainty
from airpool_lab.paper.formulas import theorem3
from studies.soft import attenuation

R, CLASSES = 40, 40
RECEIVER_STD = sqrt(0.1)
TOLD = (1.0, 0.65, 0.4)
EXPONENTS, FREE_BITS = (0.25, 0.5, 1.0, 2.0, 4.0, inf), (0.0, 1.0, 2.0)
BAD_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
BOUNDS = (0.5, 1.0, 2.5)
NUM_SELECTED = {12: (4, 6, 8, 10, 11), 50: (3, 6, 12, 24, 45), 200: (6, 12, 25, 50, 120, 180)}
SHARES = (0.01, 0.05, 0.2, 0.6, 0.9)
# Thresholds in units of the bound: with the last one nearly everybody speaks, whatever the score.
THRESHOLDS, SHARES_21 = (0.8, 1.5, 3.0, 8.0), (0.3, 0.7)
SCORE_STD = sqrt(0.1)  # of the paper's Table 1, whose scores are not bounded by anything but log₂ L
PAPER_THRESHOLDS = (0.3, 0.5, 1.0, 2.0, 3.0, 5.0)


@dataclass(frozen=True, eq=False)
class Views:
    """Latents (n, K, r), labels (n,), uncertainty in bits (n, K), and which cameras are bad (n, K)."""

    latents: Tensor
    labels: Tensor
    bits: Tensor
    bad: Tensor


@cache
def corrupted(split: HeldOut) -> Objects:
    """The held-out objects with every view blurred, occluded or noisy (studies/corruption.py), as the vote sends it."""
    posteriors = files.read_tensors(load().file(f"corrupted-{split}.safetensors"))[0]["posteriors"].float()
    return Objects(load().codec().encoder(posteriors), load().held_out(split).labels, posteriors)


@cache
def views(split: HeldOut, *, bad_share: float, num_devices: int, seed: int, step: int) -> Views:
    """Every step-th object; its twelve views, or as many drawn from them with replacement, each bad with a chance."""
    clean, bad = load().held_out(split), corrupted(split)
    rng = torch.Generator().manual_seed(seed)
    shape = (len(clean.labels[::step]), num_devices)
    seen = torch.arange(12).expand(shape) if num_devices == 12 else torch.randint(12, shape, generator=rng)
    hit = torch.rand(shape, generator=rng) < bad_share

    def mixed(good: Tensor, gone: Tensor) -> Tensor:
        rows = torch.arange(shape[0])[:, None]
        return torch.where(hit[..., None], gone[::step][rows, seen], good[::step][rows, seen])

    bits = (uncertainty(each.posteriors, "shannon")[..., None] for each in (clean, bad))
    return Views(mixed(clean.latents, bad.latents), clean.labels[::step], mixed(*bits)[..., 0], hit)


@dataclass(frozen=True)
class Setting:
    epsilon: float
    num_devices: int = 12
    fading: str = "none"
    neighbours: Neighbours = Neighbours.ZERO_OUT

    @property
    def claim(self) -> Claim:
        return Claim(neighbours=self.neighbours)

    def network(self, scheme: Scheme | None = None, *, cover: bool = False) -> Network:
        channel = Channel() if self.fading == "none" else Channel(self.fading, noise_std=RECEIVER_STD)
        return Network.uniform(
            num_devices=self.num_devices,
            dimension=R,
            channel=channel,
            scheme=scheme or Coin(),
            cover_noise=cover,
        )


@dataclass(frozen=True, eq=False)
class Candidate:
    """A network with its parameters in words; `weight`: what each camera multiplies its latent by, (n, K)."""

    network: Network
    parameters: dict[str, Any]
    weight: Callable[[Views], Tensor] = lambda seen: torch.ones_like(seen.bits)


def candidates(method: str, setting: Setting) -> Iterator[Candidate]:
    match method:
        case "1":
            yield Candidate(_plain(setting), {})
        case "soft":
            yield Candidate(_plain(setting), {"exponent": 0.0, "free_bits": 0.0})
            for exponent, free in product(EXPONENTS, FREE_BITS):
                if (exponent, free) != (inf, 0.0):
                    yield _soft(_plain(setting), exponent, free)
        case "oracle":
            for kept in BAD_WEIGHTS:
                yield _oracle(_plain(setting), kept)
        case "2.1" | "2.1 cover":
            for ratio, share, bound in product(THRESHOLDS, SHARES_21, BOUNDS):
                network = _with_bound(_threshold(setting, ratio, share, method == "2.1 cover"), bound)
                yield Candidate(network, {"threshold": ratio * bound, "score_bound": bound, "share": share})
        case "2.2":
            for count, share, bound in product(NUM_SELECTED[setting.num_devices], SHARES, BOUNDS):
                network = _with_bound(_ranked(setting, count, share), bound)
                yield Candidate(network, {"num_selected": count, "score_bound": bound, "share": share})
        case _:
            raise ValueError(f"method={method!r} must be 1, soft, 2.1, 2.1 cover, 2.2 or oracle")


def _soft(network: Network, exponent: float, free: float) -> Candidate:
    about = {"exponent": exponent, "free_bits": free}
    return Candidate(network, about, lambda seen: attenuation(seen.bits, exponent=exponent, free_bits=free))


def _oracle(network: Network, kept: float) -> Candidate:
    return Candidate(network, {"bad_weight": kept}, lambda seen: 1 - (1 - kept) * seen.bad.float())


@cache
def _plain(setting: Setting) -> Network:
    return calibrate(setting.network(), setting.claim, epsilon=setting.epsilon)


@cache
def _threshold(setting: Setting, ratio: float, share: float, cover: bool) -> Network:
    start = setting.network(Threshold(score_bound=1.0, threshold=ratio), cover=cover)
    return calibrate(start, setting.claim, epsilon=setting.epsilon, share=share)


@cache
def _ranked(setting: Setting, count: int, share: float) -> Network:
    start = setting.network(Ranking(score_bound=1.0, num_selected=count))
    return calibrate(start, setting.claim, epsilon=setting.epsilon, share=share)


def _with_bound(network: Network, bound: float) -> Network:
    """The same leakage with another Γ: η and σ₀ in units of it stay; features get a margin for rounding."""
    s = scored(network.scheme)
    scaled = replace(s, score_bound=bound, score_noise_std=s.score_noise_std * bound)
    if isinstance(scaled, Threshold):
        scaled = replace(scaled, threshold=scaled.threshold * bound)
    std = tuple(each * (1 + 1e-12) for each in network.devices.column("noise_std"))
    return replace(network, scheme=scaled, devices=replace(network.devices, noise_std=std))


def claimed(method: str, epsilon: float, seen: Views) -> Iterator[Candidate]:
    """Networks for which the paper's Theorem 1 and lemma together claim ε; scores unbounded, charged as in Table 1.

    "1, p = 1": Scheme 1 with nobody silent, which is what Scheme 2.1 amounts to at the paper's η = 5.
    """
    start = Network.uniform(num_devices=12, dimension=R, participation=1.0 if method == "1, p = 1" else 0.9)
    if method.startswith("1"):
        yield Candidate(theorem1.calibrate(start, epsilon=epsilon), {})
        return
    known: Any = {"score_bound": log2(CLASSES), "score_noise_std": SCORE_STD}
    if method == "2.2":
        schemes = [Ranking(**known, num_selected=count) for count in NUM_SELECTED[12]]
    else:
        schemes = [Threshold(**known, threshold=threshold) for threshold in PAPER_THRESHOLDS]
    for scheme in schemes:
        if isinstance(scheme, Ranking):
            p, spent = (scheme.num_selected / 12,) * 12, float(theorem3.score_epsilon(1.0))
            about = {"num_selected": scheme.num_selected}
        else:
            p = tuple(expected_participation(seen.bits.numpy(), scheme).tolist())
            spent, about = float(theorem3.score_epsilon(p).max()), {"threshold": scheme.threshold}
        network = replace(start, scheme=scheme, devices=replace(start.devices, participation=p))
        try:
            network = theorem1.calibrate(network, epsilon=epsilon - spent)
        except ValueError:  # Theorem 1 is undefined where so few speak
            continue
        yield Candidate(network, about | {"score_epsilon_claimed": spent})


@dataclass(frozen=True)
class Judged:
    """Of one run: accuracy for each `told`, and energy of an inference in mW · channel uses."""

    accuracy: dict[float, float]
    energy: float


def judged(candidate: Candidate, seen: Views, *, reference: Views, seed: int, told: tuple[float, ...] = TOLD) -> Judged:
    """What becomes of views sent through a candidate. What is public about their scores comes from `reference`."""
    network = candidate.network
    chooses = not isinstance(network.scheme, Coin)
    often = (
        expected_participation(reference.bits.numpy(), network.scheme)
        if isinstance(network.scheme, Threshold)
        else None
    )
    loud = level(network, participation=often)
    signal = loud.signal * float(candidate.weight(reference).mean())
    with torch.no_grad():
        heard = receive(
            seen.latents * candidate.weight(seen)[..., None],
            network,
            rng=torch.Generator().manual_seed(seed),
            scores=seen.bits if chooses else None,
        )
        found = {
            share: labels(
                load().codec().server(Level(signal * share, loud.noise_std))(heard.estimate), heard.any_signal
            )
            for share in told
        }
    right = {share: float((label == seen.labels[:, None]).double().mean()) for share, label in found.items()}
    return Judged(right, float(heard.energy.mean()))
