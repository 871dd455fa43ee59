"""One of airpool's own objects through the private pipeline: mesh, twelve views, latents, channel, label."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from airpool._support.brief import Brief
from airpool.account.report import number
from airpool.models.pretrained import Pretrained, infer
from airpool.models.vision import shapes
from airpool.models.vision.shapes import Shape
from airpool.models.vision.views import Cameras, views
from airpool.network import Network
from airpool.protocol.inference import Inference, Simulation, centralised
from airpool.protocol.server import NO_ANSWER
from airpool_lab.demo import comparison

REPEATS = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Sent(Brief):
    """One object transmitted once, and how often each class is named when it is transmitted REPEATS times more.

    views: (K, 2, H, H), shading and depth. ideal: Σ w z, (r,), the estimate without noise and silence.
    probability: (C,), the server's, of the one transmission. frequency: (C,), over the others. epsilon: the budget.
    """

    shape: Shape
    network: Network
    views: Tensor
    out: Inference
    ideal: Tensor
    probability: Tensor
    frequency: Tensor
    classes: tuple[str, ...]
    epsilon: float

    @property
    def step_deg(self) -> float:
        """The angle between neighbouring cameras."""
        return 360 / len(self.views)

    @property
    def label(self) -> str | None:
        """The server's label; None if no device transmitted."""
        found = int(self.out.label)
        return None if found == NO_ANSWER else self.classes[found]

    @property
    def is_right(self) -> bool:
        return self.label == self.shape.label

    @property
    def answer(self) -> str:
        """The label, and whether it is the true one."""
        verdict = "right" if self.is_right else f"WRONG: the true class is {self.shape.label}"
        return f"{self.label or 'no answer'}, {verdict}."

    @property
    def estimate(self) -> Tensor:
        """ẑ, (r,): all that the server receives."""
        return self.out.received.estimate[0, 0]

    @property
    def devices(self) -> list[dict[str, Any]]:
        """Record of each device: |h|, whether it drew participation, whether it transmitted, and its ε.

        A device that takes part stays silent if its channel is too weak.
        """
        received, report = self.out.received, self.out.report
        columns = {
            "gain": received.gain[0, 0].tolist(),
            "took_part": received.taking_part[0, 0].tolist(),
            "on_the_air": (received.alignment[0, 0] != 0).tolist(),
            "epsilon": [number(value) for value in report.epsilon],
            "epsilon_local": [number(value) for value in report.epsilon_local],
        }
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    @property
    def silent(self) -> list[int]:
        """The devices that did not transmit."""
        return [k for k, device in enumerate(self.devices) if not device["on_the_air"]]

    def top(self, count: int = 5) -> list[tuple[str, float, float]]:
        """The likeliest classes, each with its probability and frequency."""
        order = self.probability.argsort(descending=True)[:count].tolist()
        return [(self.classes[c], float(self.probability[c]), float(self.frequency[c])) for c in order]

    def record(self) -> dict[str, Any]:
        return {
            "name": self.shape.name,
            "truth": self.shape.label,
            "label": self.label,
            "right": self.is_right,
            "top": [{"label": name, "probability": p, "frequency": f} for name, p, f in self.top()],
            "repeats": REPEATS,
            "devices": self.devices,
            "epsilon_object": number(self.out.report.epsilon_object),
            "received": self.estimate.tolist(),
            "ideal": self.ideal.tolist(),
        }


def find(name: str) -> Shape:
    """A shape by its name ("chair_2"), or the first of a class ("chair")."""
    known = shapes.all()
    for shape in known:
        if name in (shape.name, shape.label):
            return shape
    labels = ", ".join(dict.fromkeys(shape.label for shape in known))
    raise ValueError(f"no object {name!r}: there are {labels}, and variants of each, such as {known[0].name}")


def send(model: Pretrained, shape: Shape, *, epsilon: float = 2.0, seed: int = 0) -> Sent:
    """A shape's twelve views through our network at a budget, as `airpool.infer` does it."""
    network = comparison.network("ours", epsilon, dimension=model.codec().dimension)
    seen = views([(shape.vertices, shape.faces)], Cameras(resolution=model.trunk.architecture.resolution))
    rng = torch.Generator().manual_seed(seed)
    out = infer(model, seen, network=network, rng=rng)
    repeated = Simulation(REPEATS, report=out.report)
    again = infer(model, seen, network=network, rng=rng, simulation=repeated)
    named = again.label[again.label != NO_ANSWER]
    return Sent(
        shape=shape,
        network=network,
        views=seen[0],
        out=out,
        ideal=centralised(out.latents, network).estimate[0, 0],
        probability=out.logits[0, 0].softmax(-1),
        frequency=torch.bincount(named, minlength=len(model.classes)) / REPEATS,
        classes=model.classes,
        epsilon=epsilon,
    )
