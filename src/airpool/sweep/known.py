"""Functions that `airpool sweep` knows by a short name."""

from collections.abc import Callable
from typing import Any, Literal

from airpool.network import Neighbours, SchemeName, Score, ScoreRule


def epsilon(
    *,
    devices: int = 12,
    clip_norm: float = 1.0,
    noise_std: float = 0.05,
    participation: float = 1.0,
    neighbours: Neighbours = "zero-out",
    delta: float = 1e-5,
    cover_noise: bool = False,
    dimension: int = 64,
) -> dict[str, float]:
    """The exact ε of a network of equal devices: per device, without trust in the others, and of the object.

    >>> epsilon(participation=0.9)["epsilon"].__round__(4)
    2.0639
    """
    given = locals()
    from airpool.account.guarantee import guarantee
    from airpool.network import Network

    return _epsilons(guarantee(Network.uniform(num_devices=given.pop("devices"), **given)), "epsilon")


def _epsilons(report: Any, worst: str) -> dict[str, float]:
    local, whole = float(report.epsilon_local.max()), report.epsilon_object
    return {worst: report.worst, "epsilon_local": local, "epsilon_object": whole}


def evaluate(
    *,
    seed: int,
    devices: int = 12,
    epsilon: float = 2.0,
    accounting: Literal["exact", "theorem1"] = "exact",
    neighbours: Neighbours = "zero-out",
    participation: float = 1.0,
    cover_noise: bool = False,
    fading: str = "none",
    receiver_noise_std: float = 0.0,
    scheme: SchemeName = "1",
    score: Score = "shannon",
    score_rule: ScoreRule = "clip",
    score_bound: float = 1.0,
    score_noise_std: float = 0.3162,
    threshold: float = 0.5,
    num_selected: int = 11,
    share: float | None = None,
    codec: str = "compact",
    split: Literal["test", "validation"] = "test",
    trials: int = 5,
) -> dict[str, float | str | None]:
    """Accuracy of the shipped model on its held-out objects, for equal devices with the noise calibrated to ε.

    devices: unless twelve, the column `cameras` says which were left out or repeated.
    share: Schemes 2.1 and 2.2, the scores' share of ε (`account.budget.split`); sets score_noise_std.
    """
    given = locals()
    from airpool.account import budget
    from airpool.account.calibration import calibrate, calibrate_claim
    from airpool.evaluate import evaluate_model
    from airpool.models.pretrained import load
    from airpool.network import SCHEME_SETTINGS, Channel, Network, named_scheme

    model = load("modelnet40")
    objects = model.held_out(split, codec=codec).fitted(devices)
    name = f"{scheme:g}" if isinstance(scheme, int | float) else scheme  # a command line takes 2.1 for a number
    network = Network.uniform(
        num_devices=devices,
        participation=participation,
        neighbours=neighbours,
        cover_noise=cover_noise,
        dimension=objects.latents.shape[-1],
        channel=Channel(fading=fading, noise_std=receiver_noise_std),
        scheme=named_scheme(name, **{each: given[each] for each in SCHEME_SETTINGS}),
    )
    if accounting not in ("exact", "theorem1"):
        raise ValueError(f"accounting={accounting!r} must be exact or theorem1")
    if share is not None:
        network = budget.split(network, epsilon=epsilon, share=share)
    else:
        network = (calibrate if accounting == "exact" else calibrate_claim)(network, epsilon=epsilon)
    found = evaluate_model(model, network, codec=codec, split=split, trials=trials, seed=seed)
    return {
        **{name: value for name, value in found.row().items() if name not in ("trials", "objects")},
        **_epsilons(found.report, "epsilon_device"),
        "epsilon_paper": float(found.report.paper.epsilon.max()),
        **({} if objects.note is None else {"cameras": objects.note}),
    }


FUNCTIONS: dict[str, Callable[..., Any]] = {"epsilon": epsilon, "evaluate": evaluate}
