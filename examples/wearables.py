"""Five motion sensors on one body tell nineteen activities of people they have never seen, privately.

    python examples/wearables.py dsads_wearables.npz --out wearables

Data: Daily and Sports Activities (UCI, CC BY 4.0), 9,120 segments of 5 s of 8 subjects: x (9120, 5, 9, 125), scale
(5, 9), label, subject, classes, units. Each subject in turn is the test subject, the next one validation, the other six
train; every number is a mean and standard deviation over the eight. Some minutes; what is fitted is kept in --out.
The figures are drawn again from the results by
`python examples/wearables.py packages/airpool-lab/studies/results/wearables.json`.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import airpool
from airpool._support.figures import BLUE, GREEN, GREY, PURPLE, canvas, figure
from airpool._support.version import __version__
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.models.model import Model
from airpool.models.sensors.fitting import FitRecipe
from airpool.network import Network, Ranking
from airpool.protocol.simulation import receive
from airpool.radio.link import Level, level
from airpool_lab.paper.figures.fig_hetero_16 import WAYS, designed

BUDGETS = (1.0, 2.0, 4.0, 8.0, 16.0)
TRAINED = (2.0, 4.0, 8.0)  # budgets of the codec
MINUTE = 12  # segments
WINDOWS = (1, 2, 3, 4, 6, 12)
STRICT, LOOSE = 4.0, 16.0  # ε of the arms, and of torso and legs
TRIALS = 10
RECIPE = FitRecipe(hidden=(0,), head_steps=200, codec_steps=500)

Numbers = NDArray[np.float32]


def features(x: Numbers) -> Numbers:
    """(n, K, 252) of segments (n, K, 9, 125): level, spread, spectrum and correlation of channels and their norms."""
    n, units, _, samples = x.shape
    norms = np.sqrt(np.square(x.reshape(n, units, 3, 3, samples)).sum(3))
    a = np.concatenate([x, norms], axis=2)
    mean, std = a.mean(-1), a.std(-1)
    c = a - mean[..., None]
    power = np.square(np.abs(np.fft.rfft(c, axis=-1)))
    edges = (1, 3, 5, 8, 12, 18, 28, 63)
    bands = [np.log(power[..., low:high].sum(-1) / samples + 1e-3) for low, high in pairwise(edges)]
    lags = [(c[..., :-lag] * c[..., lag:]).mean(-1) / (std**2 + 1e-2) for lag in (3, 6, 12, 25)]
    i, j = np.triu_indices(9, 1)
    along = (c[:, :, i] * c[:, :, j]).mean(-1) / (std[:, :, i] * std[:, :, j] + 1e-2)
    spread = np.moveaxis(np.quantile(a, (0.1, 0.25, 0.75, 0.9), axis=-1), 0, -1).reshape(n, units, -1)
    peak = power[..., 1:].argmax(-1) / 63
    by_channel = [np.stack(each, -1).reshape(n, units, -1) for each in (bands, lags)]
    whole = [mean, np.log(std + 1e-2), spread, by_channel[0], peak, along, by_channel[1]]
    return np.concatenate(whole, axis=-1).astype(np.float32)


def models(data: Path, out: Path) -> dict[int, Model]:
    """A model for each test subject; fitted where its file is not there yet."""
    subjects = range(1, 9)
    files = {each: out / f"subject-{each}.safetensors" for each in subjects}
    if not all(file.exists() for file in files.values()):
        z, cache = np.load(data), out / "features.npy"
        if not cache.exists():
            x = z["x"] * z["scale"][:, :, None].astype(np.float32)
            np.save(cache, np.concatenate([features(x[i : i + 500]) for i in range(0, len(x), 500)]))
        seen = np.load(cache)
        label, subject = z["classes"][z["label"]], z["subject"]
        for test in (each for each in subjects if not files[each].exists()):
            split = np.where(subject == test, "test", np.where(subject == test % 8 + 1, "validation", "train"))
            # A list: the units are worn in different places, so each has a network of its own.
            made = airpool.fit(
                [seen[:, k] for k in range(5)],
                label,
                groups=subject,
                split=split,
                epsilon=TRAINED,
                recipe=RECIPE,
                name=f"wearables, subject {test}",
            )
            made.save(files[test])
            print(f"subject {test}: {made.about['validation']}", flush=True)
    return {each: airpool.load(file) for each, file in files.items()}


def network(model: Model, **more: Any) -> Network:
    return Network.uniform(num_devices=5, dimension=model.codec(more.pop("codec", None)).dimension, **more)


def over(subjects: dict[int, Model], measure: Callable[[Model], Any]) -> dict[str, Any]:
    """Mean and standard deviation over subjects of what is measured on each, numbers or lists of numbers."""
    each = np.array([measure(model) for model in subjects.values()])
    return {"mean": each.mean(0).tolist(), "std": each.std(0, ddof=1).tolist(), "each": each.tolist()}


def without_noise(model: Model, codec: str | None = None, keep: Sequence[int] = range(5)) -> float:
    held = model.held_out("test", codec=codec)
    net = Network.uniform(num_devices=len(keep), dimension=held.latents.shape[2])
    latents = held.latents[:, list(keep)]
    run = evaluate(
        EncodedObjects(latents, held.labels, model.codec(codec).server), net, instead="centralised", trials=1
    )
    return run.accuracy_mean


def by_epsilon(model: Model, codec: str | None = None) -> list[float]:
    nets = [airpool.calibrate(network(model, codec=codec), epsilon=each) for each in BUDGETS]
    return [evaluate(held_out(model, net, codec=codec), net, trials=TRIALS).accuracy_mean for net in nets]


def alone(model: Model) -> list[float]:
    """Accuracy of each unit's own classifier, which sends its answer as it is."""
    held = model.held_out("test")
    return (held.posteriors.argmax(-1) == held.labels[:, None]).double().mean(0).tolist()


def in_a_minute(model: Model, epsilon: float) -> list[float]:
    """Accuracy over a minute of one activity with T of its segments sent, ε for all of them together.

    The server averages the T estimates. Each has √T times the noise that one alone would need, their mean the same.
    """
    held, out = model.held_out("test"), []
    order = torch.argsort(held.labels, stable=True)  # segments of one activity follow each other in time
    latents, labels = held.latents[order].unflatten(0, (-1, MINUTE)), held.labels[order][::MINUTE]
    for count in WINDOWS:
        net = airpool.calibrate(network(model), airpool.Claim(inferences=count), epsilon=epsilon)
        rng = torch.Generator().manual_seed(0)
        some = latents[:, [each * MINUTE // count for each in range(count)]]
        sent = receive(some.flatten(0, 1), net, rng=rng, trials=4 * TRIALS).estimate
        mean, public = sent.unflatten(0, (-1, count)).mean(1), level(net)
        with torch.no_grad():
            logits = model.codec().server(Level(public.signal, public.noise_std / count**0.5))(mean)
        out.append(float((logits.argmax(-1) == labels[:, None]).double().mean()))
    return out


def sensitive_arms(model: Model) -> list[float]:
    """Accuracy of each way to serve arms that ask for a stricter ε than torso and legs."""
    arms = np.array([False, True, True, False, False])
    known = model.held_out("validation").latents.double().numpy()
    targets = np.where(arms, STRICT, LOOSE)
    nets = [designed(way, network(model), known, targets=targets, sensitive=arms) for way in WAYS]
    return [evaluate(model, net, trials=TRIALS).accuracy_mean for net in nets]


def selected(model: Model, epsilon: float) -> list[float]:
    """Accuracy if all five transmit, then if the 4 or 3 most certain are selected, a tenth of ε for their scores."""
    nets = [airpool.calibrate(network(model), epsilon=epsilon)]
    for count in (4, 3):
        ranked = replace(network(model), scheme=Ranking(num_selected=count))
        nets.append(airpool.calibrate(ranked, epsilon=epsilon, share=0.1))
    return [evaluate(model, net, trials=TRIALS).accuracy_mean for net in nets]


def lost_without(model: Model, epsilon: float) -> list[float]:
    """Accuracy by the vote of all five units, then without each of them, at the same ε for those that are left."""
    held, vote, out = model.held_out("test", codec="vote"), model.codec("vote"), []
    for left in (None, *range(5)):
        keep = [k for k in range(5) if k != left]
        net = Network.uniform(num_devices=len(keep), dimension=held.latents.shape[2])
        net = airpool.calibrate(net, epsilon=epsilon)
        run = evaluate(EncodedObjects(held.latents[:, keep], held.labels, vote.server), net, trials=TRIALS)
        out.append(run.accuracy_mean)
    return out


def study(subjects: dict[int, Model]) -> dict[str, Any]:
    kinds = {"chosen": None, "codec": "compact", "vote": "vote"}
    return {
        "without noise": {
            kind: over(subjects, lambda m, c=codec: without_noise(m, c)) for kind, codec in kinds.items()
        },
        "by epsilon": {kind: over(subjects, lambda m, c=codec: by_epsilon(m, c)) for kind, codec in kinds.items()},
        "one unit alone": over(subjects, alone),
        "a minute": {f"{e:g}": over(subjects, lambda m, e=e: in_a_minute(m, e)) for e in (2.0, 4.0, 8.0)},
        "sensitive arms": over(subjects, sensitive_arms),
        "selection": {f"{e:g}": over(subjects, lambda m, e=e: selected(m, e)) for e in (4.0, 8.0)},
        "without a unit": {f"{e:g}": over(subjects, lambda m, e=e: lost_without(m, e)) for e in (4.0, 16.0)},
        "default codec": {str(each): model.codecs[0] for each, model in subjects.items()},
        "about": {
            "version": __version__,
            "seed": RECIPE.seed,
            "recipe": asdict(RECIPE),
            "trials": TRIALS,
            "delta": 1e-5,
        }
        | {"budgets": BUDGETS, "codec trained at": TRAINED, "data": "Daily and Sports Activities (UCI)"},
    }


def draw(found: dict[str, Any], units: Sequence[str], out: Path) -> None:
    """A figure for each question."""
    with figure(out / "wearables-epsilon.png") as (_, ax):
        for kind, color in (("vote", BLUE), ("codec", PURPLE)):
            run = found["by epsilon"][kind]
            ax.errorbar(BUDGETS, run["mean"], run["std"], color=color, marker="o", capsize=2, label=kind)
        ax.axhline(found["without noise"]["chosen"]["mean"], color=GREY, label="all units, no privacy")
        ax.axhline(max(found["one unit alone"]["mean"]), color=GREEN, ls="--", label="best unit alone, no privacy")
        ax.set(xscale="log", xlabel="ε of each unit, δ = 1e-5", ylabel="accuracy, unseen subjects", ylim=(0, 1))
        ax.minorticks_off()
        ax.set_xticks(BUDGETS, [f"{each:g}" for each in BUDGETS])
        ax.legend()
    with figure(out / "wearables-minute.png") as (_, ax):
        for (epsilon, run), color in zip(found["a minute"].items(), (BLUE, PURPLE, GREEN), strict=True):
            ax.errorbar(WINDOWS, run["mean"], run["std"], color=color, marker="o", capsize=2, label=f"ε = {epsilon}")
        ax.set(xlabel="segments sent in a minute", ylabel="accuracy, unseen subjects", xticks=WINDOWS, ylim=(0.55, 1))
        ax.legend(loc="center right", bbox_to_anchor=(1, 0.5))
    compared = {
        "arms": (found["sensitive arms"], WAYS, "design", f"ε = {STRICT:g} for the arms, {LOOSE:g} for the others"),
        "selection": (found["selection"]["8"], ("all five", "best 4", "best 3"), "units that send", "ε = 8"),
        "units": (
            found["without a unit"]["16"],
            ("all five", *(f"no {unit}".replace(" ", "\n", 1) for unit in units)),
            "units that send",
            "ε = 16, the vote",
        ),
    }
    for name, (run, labels, about, title) in compared.items():
        with canvas(out / f"wearables-{name}.png", width=5.6) as fig:
            ax = fig.subplots()
            ax.errorbar(range(len(labels)), run["mean"], run["std"], fmt="o", color=BLUE, capsize=3)
            ax.set_xticks(range(len(labels)), labels)
            ax.set(xlabel=about, ylabel="accuracy, unseen subjects", title=title)
            ax.margins(x=0.1, y=0.15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("wearables"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if given.data.suffix == ".json":
        found = json.loads(given.data.read_text())
    else:
        found = study(models(given.data, given.out)) | {"units": np.load(given.data)["units"].tolist()}
        (given.out / "wearables.json").write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found, indent=1))
    draw(found, found["units"], given.out)


if __name__ == "__main__":
    main()
