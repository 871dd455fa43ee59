"""Bring your own backbone and data set: from meshes and a network of your own to labels over a fading channel.

    python examples/own_backbone.py

A minute or two on two cores. The objects are airpool's own 112 shapes of 26 kinds, the last variant of each kind kept
aside for testing; the backbone is a small convolutional network. Put yours in their place: images (N, K, C, H, H) of K
views of N objects, and any torch module that makes maps (B, F, h, w) of images (B, C, H, H).
"""

import time
from dataclasses import replace

import numpy as np
import torch
from torch import nn

import airpool
from airpool.models.codecs import vote as votes
from airpool.models.codecs.dense import CodecShape
from airpool.models.codecs.training import CodecRecipe, fit, setting
from airpool.models.local import local_distribution
from airpool.models.vision import shapes
from airpool.models.vision.features import Images, pooled
from airpool.models.vision.mvcnn import MVCNN, TRUNKS, Architecture, Trunk
from airpool.models.vision.views import Cameras, views
from airpool.protocol.inference import Inference, Simulation, infer_features
from airpool.radio.link import Level, level
from airpool_lab.vision.training import TrunkRecipe, augmented, train

PIXELS = 32
FEATURES = 128  # F, of the backbone
DIMENSION = 32  # numbers that each device sends
BUDGETS = (1.0, 2.0, 10.0)
COPIES = 3
TRIALS = 200  # of every test object over the air


def data(rng: np.random.Generator) -> tuple[Images, Images]:
    """Objects to train on, and objects to test on: views (N, 12, 2, 32, 32) and labels (N,).

    Three variants of a kind are few, so that each one is also shown turned, and stretched along every axis.
    """
    everything = shapes.all()
    kinds = sorted({shape.label for shape in everything})
    last = {shape.label: shape.variant for shape in everything}  # variants come in order
    meshes: tuple[list[tuple[np.ndarray, np.ndarray]], ...] = ([], [])
    labels: tuple[list[int], ...] = ([], [])
    for shape in everything:
        aside = shape.variant == last[shape.label]
        for copy in range(1 if aside else COPIES):
            vertices = changed(shape.vertices, rng) if copy else shape.vertices
            meshes[aside].append((vertices, shape.faces))
            labels[aside].append(kinds.index(shape.label))
    cameras = Cameras(resolution=PIXELS)
    train, test = (
        Images(views(meshes[aside], cameras, dtype=torch.uint8), torch.tensor(labels[aside])) for aside in (False, True)
    )
    return train, test


def changed(vertices: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Vertices (V, 3) of another object of the same kind: stretched by up to a quarter, and turned about the z axis."""
    angle, stretch = rng.uniform(0, 2 * np.pi), np.exp(rng.uniform(-0.25, 0.25, 3))
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    return (vertices * stretch) @ turn.T


def backbone(architecture: Architecture) -> nn.Sequential:
    """Images (B, in_channels, 32, 32) to maps (B, 128, 4, 4)."""

    def block(before: int, after: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(before, after, kernel_size=3, padding=1), nn.BatchNorm2d(after), nn.ReLU())

    return nn.Sequential(
        nn.Conv2d(architecture.in_channels, 24, kernel_size=5, padding=2, stride=2),
        *(nn.BatchNorm2d(24), nn.ReLU()),
        *(block(24, 48), nn.MaxPool2d(2)),
        *(block(48, 96), nn.MaxPool2d(2)),
        block(96, FEATURES),
    )


# One more trunk beside VGG11 and EfficientNet-Lite; from here on it is trained and used as they are.
TRUNKS["small"] = Trunk(backbone, channels=FEATURES, resolutions=(PIXELS,), side=4)


def taught(images: Images, num_classes: int, recipe: TrunkRecipe) -> MVCNN:
    """The backbone and a classifier of its features, trained to tell kinds apart, above all by single views.

    Single ones, since the radio adds the devices up: what they agree on stands out from the noise.
    """
    return train(recipe, Architecture("small", num_classes=num_classes), images).model


def network(epsilon: float) -> airpool.Network:
    """Twelve devices over a fading channel, with the least noise that keeps each one's ε at or below this."""
    channel = airpool.Channel(fading="rician", noise_std=0.3162)
    net = airpool.Network.uniform(num_devices=12, participation=0.9, dimension=DIMENSION, channel=channel)
    return airpool.calibrate(net, airpool.Claim(delta=1e-5), epsilon=epsilon)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # steps are so small that sharing them costs more than it saves
    start = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - start:5.0f} s  {text}", flush=True)

    say("showing our shapes to twelve cameras")
    seen, unseen = data(np.random.default_rng(0))
    truth, num_classes = unseen.labels, len(unseen)  # one object of each kind
    say(f"teaching a backbone on {len(seen)} objects")
    how = TrunkRecipe(epochs=16, objects=16, views=8, learning_rate=4e-3, object_loss=0.0, view_loss=1.0, average=0.9)
    model = taught(seen, num_classes, how)
    trunk, even = model.features, torch.ones(12)  # temperatures
    say("training one codec for all budgets, through fading and noise")
    settings = {epsilon: setting(network(epsilon)) for epsilon in BUDGETS}
    recipe = CodecRecipe(epochs=60, objects=64, trials=4, learning_rate=3e-3)
    shape = CodecShape(features=FEATURES, dimension=DIMENSION, num_classes=num_classes, hidden=256, server_hidden=256)
    codec = fit(recipe, shape, pooled(trunk, seen), seen.labels, settings=list(settings.values()))
    # The vote, which the codec should beat, needs posteriors alone; of views moved anew, where they are less sure.
    moved, _ = augmented(seen.views.flatten(0, 1), how, torch.Generator().manual_seed(0))
    again = pooled(trunk, moved.view_as(seen.views))
    vote = votes.fit(local_distribution(again, model.classifier, even), seen.labels)
    say(f"testing on {len(unseen)} objects that nothing was trained on, {TRIALS} inferences each\n")
    features, rng = pooled(trunk, unseen), torch.Generator().manual_seed(1)

    def show(what: str, out: Inference) -> None:
        print(f"{what:28} {float((out.label == truth[:, None]).float().mean()):.3f}")

    with torch.no_grad():
        print(f"{'chance':28} {1 / num_classes:.3f}")
        for here in settings.values():
            # All that the server is told beforehand is public: how loud and how noisy the sum will be.
            server = codec.server(here.level)
            out = infer_features(
                features,
                here.network,
                encoder=codec.encoder,
                server=server,
                rng=rng,
                simulation=Simulation(trials=TRIALS),
            )
            show(f"over the air, ε = {out.report.worst:.4f}", out)
            cast = vote.encoder(local_distribution(features, model.classifier, even))
            net = replace(here.network, dimension=num_classes)
            show(
                "- by the vote",
                infer_features(
                    cast,
                    net,
                    server=vote.server(level(net)),
                    rng=rng,
                    simulation=Simulation(trials=TRIALS),
                ),
            )
        server = codec.server(Level(signal=1.0, noise_std=0.0))
        net = next(iter(settings.values())).network
        out = infer_features(
            features, net, encoder=codec.encoder, server=server, rng=rng, simulation=Simulation(baseline="centralised")
        )
        show("no noise, no radio", out)


if __name__ == "__main__":
    main()
