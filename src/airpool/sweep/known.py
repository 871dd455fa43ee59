"""Functions that `airpool sweep` knows by a short name."""

from collections.abc import Callable
from typing import Any, Literal

from airpool.network import Coin, Neighbours, SchemeName, Score, ScoreRule, named_scheme


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
    """The exact ε of a network of like devices: of a device, of a device that trusts nobody, of the object.

    >>> epsilon(participation=0.9)["epsilon"].__round__(4)
    2.0639
    """
    from airpool.account.guarantee import guarantee
    from airpool.network import Network

    network = Network.uniform(
        num_devices=devices,
        clip_norm=clip_norm,
        noise_std=noise_std,
        participation=participation,
        neighbours=neighbours,
        delta=delta,
        cover_noise=cover_noise,
        dimension=dimension,
    )
    report = guarantee(network)
    return {
        "epsilon": report.worst,
        "epsilon_local": float(report.epsilon_local.max()),
        "epsilon_object": report.epsilon_object,
    }


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
    """Accuracy of the shipped model on its held-out objects, through like devices whose noise is scaled to ε.

    devices: other than twelve, the column `cameras` says which were left out or repeated.
    share: Schemes 2.1 and 2.2, how much of ε the scores may spend (`selection.budget.split`, which then sets
        score_noise_std); left out, score_noise_std stays as it is.
    """
    from airpool.account import budget
    from airpool.account.calibration import calibrate, calibrate_claim
    from airpool.evaluate import evaluate as measured
    from airpool.models.pretrained import load
    from airpool.network import Channel, Network

    model = load("modelnet40")
    objects = model.held_out(split, codec=codec).fitted(devices)
    network = Network.uniform(
        num_devices=devices,
        participation=participation,
        neighbours=neighbours,
        cover_noise=cover_noise,
        dimension=objects.latents.shape[-1],
        channel=Channel(fading=fading, noise_std=receiver_noise_std),
        scheme=named_scheme(
            name=_scheme_name(scheme),
            score=score,
            score_rule=score_rule,
            score_bound=score_bound,
            score_noise_std=score_noise_std,
            threshold=threshold,
            num_selected=num_selected,
        ),
    )
    if accounting not in ("exact", "theorem1"):
        raise ValueError(f"accounting={accounting!r} must be exact or theorem1")
    if share is not None:
        network = budget.split(network, epsilon=epsilon, share=share)
    else:
        network = (calibrate if accounting == "exact" else calibrate_claim)(network, epsilon=epsilon)
    found = measured(
        network,
        objects.latents,
        objects.labels,
        server=model.codec(codec).server,
        posteriors=None if isinstance(network.scheme, Coin) else objects.posteriors,
        participation=model.participation(network),
        trials=trials,
        seed=seed,
    )
    return {
        **{name: value for name, value in found.row().items() if name not in ("trials", "objects")},
        "epsilon_device": found.report.worst,
        "epsilon_local": float(found.report.epsilon_local.max()),
        "epsilon_object": found.report.epsilon_object,
        "epsilon_paper": float(found.report.paper.epsilon.max()),
        **({} if objects.note is None else {"cameras": objects.note}),
    }


def _scheme_name(scheme: Any) -> Any:
    """The name of a scheme, which a command line may have taken for a number."""
    return f"{scheme:g}" if isinstance(scheme, int | float) else scheme


FUNCTIONS: dict[str, Callable[..., Any]] = {"epsilon": epsilon, "evaluate": evaluate}
