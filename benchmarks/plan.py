"""How long proofs, choices by score and plans take, on the shipped model."""

import numpy as np

from airpool import Network, calibrate, load
from airpool._support.arrays import Floats
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.evaluation.plan import plan
from airpool.models.codecs.codec import matrices
from airpool.models.codecs.vote import SHARPNESS, fit
from airpool.network import Ranking, Slots
from airpool.schemes import ranking
from airpool_lab.theory.prediction import predict
from airpool_lab.theory.server import LayeredServer

from . import Row
from .privacy import timed


def drawn(scores: Floats, orders: int = 1_000) -> Floats:
    """How often each of twelve is among the nine lowest noisy scores, by simulation."""
    rng, found = np.random.default_rng(0), np.zeros_like(scores)
    for _ in range(orders):
        noisy = scores + 0.3 * rng.standard_normal(scores.shape)
        np.add.at(found, (np.arange(len(scores))[:, None], np.argpartition(noisy, 8, axis=1)[:, :9]), 1)
    return found / orders


def rows() -> list[Row]:
    model = load("modelnet40")
    codec, held, known = model.codec("compact"), model.held_out("test"), model.held_out("validation")
    plain = Network.uniform(num_devices=12, dimension=codec.dimension)
    net = calibrate(plain, epsilon=2.0)
    latents, labels = held.latents.double().numpy(), held.labels.numpy()
    examples = known.latents.double().numpy(), known.labels.numpy()

    def proofs() -> object:
        return predict(
            net, latents, labels, server=lambda level: LayeredServer(matrices(codec, level)), examples=examples
        )

    rng = np.random.default_rng(0)
    few, many = rng.uniform(0, 2, (2468, 12)), rng.uniform(0, 2, (1, 1000))
    ranked = calibrate(Network.uniform(num_devices=12, dimension=40, scheme=Ranking()), epsilon=2.0, share=0.05)

    def sent(network: Network, **scores: object) -> object:
        objects = EncodedObjects(held.latents, held.labels, codec.server, **scores)  # pyright: ignore[reportArgumentType]
        return evaluate(objects, network, trials=5)

    def voted() -> object:
        return evaluate(EncodedObjects(ballots, held.labels, vote.server), net, trials=5)

    def until_sure(slots: Slots) -> object:
        quiet = calibrate(Network.uniform(num_devices=12, dimension=40, slots=slots), epsilon=2.0)
        return evaluate(EncodedObjects(ballots, held.labels, vote.server), quiet, trials=5)

    vote, ballots = model.codec("vote"), model.held_out("test", codec="vote").latents
    first, _ = timed(lambda: sent(net))
    second, _ = timed(lambda: sent(ranked, posteriors=held.posteriors))
    (once, _), (often, _) = (timed(lambda n=n: until_sure(Slots(n, sure=0.99))) for n in (1, 16))
    return [
        Row(
            "vote",
            f"fit to {len(known)} objects",
            timed(lambda: fit(known.posteriors, known.labels))[0],
            "s",
            f"{len(SHARPNESS)} values of t",
        ),
        Row(
            "vote",
            f"{5 * len(held):,} inferences, 12 devices, r = 40",
            timed(voted)[0],
            "s",
            "with its evaluation",
            rival=first,
            beside="the trained codec",
        ),
        Row(
            "slots",
            f"{5 * len(held):,} inferences, up to 16 slots until sure",
            often,
            "s",
            "7.5 slots on average, cap ε = 2; calibration included",
            rival=once,
            beside="one slot",
        ),
        Row(
            "theory",
            "all certificates of 2,468 objects, both servers",
            timed(proofs)[0],
            "s",
            "ε = 2, p = 1",
            rival=first,
            beside="5 transmissions of each object simulated, which prove nothing",
        ),
        Row(
            "selection",
            "exact participation, 2,468 objects × 12 devices",
            timed(lambda: ranking.participation(few, score_noise_std=0.3, num_selected=9))[0],
            "s",
            rival=timed(lambda: drawn(few))[0],
            beside="1,000 orders of each object drawn and sorted: two digits",
        ),
        Row(
            "selection",
            "- 1,000 devices",
            timed(lambda: ranking.participation(many, score_noise_std=0.3, num_selected=700))[0],
            "s",
            limit=10.0,
        ),
        Row("selection", f"{5 * len(held):,} inferences, Scheme 2.2", second, "s", rival=first, beside="Scheme 1"),
        Row(
            "plan",
            "whole search at ε = 2, K = 12",
            timed(lambda: plan(plain, model=model, epsilon=2.0))[0],
            "s",
            "target: two minutes",
            120.0,
            timed(lambda: sent(calibrate(plain, epsilon=2.0)))[0],
            "no search: the noise for ε = 2, evaluated",
        ),
    ]
