"""`airpool demo`: the main job. For now, what the paper's own network leaks: the claim and the truth."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import typer

from . import options as o


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and its data.")] = Path("out"),
    json: o.Json = False,
) -> None:
    """The per-device ε of the paper's default network: what its theorem claims, and what is true."""
    from airpool.network import Network
    from airpool.version import __version__

    network = Network.paper()
    claims, truths = _claims(network), _truths(network)
    curves = _curves(network)
    comment = f"airpool {__version__}; the paper's defaults: K = 12, C = 100, w = 1/12, p = 0.9, delta = 1e-5, r = 784"
    picture, data = _draw(curves, network, out, comment)
    if json:
        from airpool.report import number

        o.print_json(
            {
                "claims": {name: {**row, "epsilon": number(row["epsilon"])} for name, row in claims.items()},
                "truths": {name: number(value) for name, value in truths.items()},
                "picture": str(picture),
                "data": str(data),
                "version": __version__,
            }
        )
        return
    _print(claims, truths)
    typer.echo(f"\nε against σ, claim and truth: {picture}  (data: {data})")


def _claims(network: Any) -> dict[str, dict[str, Any]]:
    """Theorem 1 with each of its four slacks, and the δ that the exact curve has at the claimed ε."""
    from airpool.guarantees import aggregate, paper_claim
    from airpool.paper.theorem1 import Tail
    from airpool.privacy import device

    rows: dict[str, dict[str, Any]] = {}
    for tail in get_args(Tail):
        claim = paper_claim(network, tail)
        epsilon = float(claim.epsilon[0])
        true_delta = None if np.isinf(epsilon) else float(device.delta(aggregate(network), epsilon)[0])
        rows[tail] = {
            "epsilon": epsilon,
            "delta": float(claim.delta[0]),
            "true_delta": true_delta,
            "reason": claim.reason,
        }
    return rows


_NEIGHBOURS = ("zero-out", "replace", "remove")


def _truths(network: Any) -> dict[str, float]:
    from airpool.guarantees import guarantee

    covered = replace(network, cover_noise=True)
    truths = {name: guarantee(network, neighbours=name).worst for name in _NEIGHBOURS}
    truths |= {f"{name}, cover noise": guarantee(covered, neighbours=name).worst for name in _NEIGHBOURS}
    report = guarantee(network)
    return truths | {"local": float(report.epsilon_local[0]), "object": report.epsilon_object}


def _print(claims: dict[str, dict[str, Any]], truths: dict[str, float]) -> None:
    from rich.console import Console
    from rich.table import Table

    from airpool.report import shown

    console = Console()
    console.print(
        "The paper's own default network: 12 devices, clip norm 100, weight 1/12, noise variance 0.1, participation "
        "0.9, q = 16 (r = 784), one inference, δ = 1e-5.\n"
    )
    table = Table(title="What Theorem 1 claims", title_justify="left")
    for name, justify in (("form of its slack t", "left"), ("ε", "right"), ("δ claimed", "right"), ("true δ", "right")):
        table.add_column(name, justify=justify)  # pyright: ignore[reportArgumentType]
    for tail, row in claims.items():
        true_delta = "" if row["true_delta"] is None else f"{row['true_delta']:.2e}"
        claimed = row["reason"] or shown(row["epsilon"])
        table.add_row(tail, claimed, f"{row['delta']:.1e}", true_delta)
    console.print(table)
    console.print("True δ: of the zero-out game at the claimed ε. Where it exceeds the claimed δ the claim is false.\n")

    table = Table(title="What is true, for the worst device", title_justify="left")
    for name in ("what changes", "ε"):
        table.add_column(name, justify="left" if name == "what changes" else "right")
    meaning = {
        "zero-out": "zero-out: its feature becomes zero",
        "replace": "replace: its feature becomes another one",
        "remove": "remove: the device vanishes, noise and all (the paper's definition)",
        "zero-out, cover noise": "zero-out, silent devices still send noise",
        "replace, cover noise": "replace, silent devices still send noise",
        "remove, cover noise": "remove, silent devices still send noise",
        "local": "zero-out, nobody else's noise trusted (local)",
        "object": "all twelve features at once (the object itself)",
    }
    for name, value in truths.items():
        table.add_row(meaning[name], shown(value))
    console.print(table)


def _curves(network: Any) -> dict[str, list[float]]:
    """ε against σ: the claim with its mended slack and the exact curves."""
    from airpool.guarantees import aggregate, epsilon, paper_claim
    from airpool.network import Channel

    # The power limit is another matter (γ follows the noise here); this is about the formula.
    network = replace(network, channel=Channel())
    stds = np.geomspace(0.1, 30.0, 25)
    curves: dict[str, list[float]] = {
        "noise_std": stds.tolist(),
        "theorem 1 (quadratic)": [],
        "theorem 1 (bernstein)": [],
    }
    for name in (*_NEIGHBOURS, "zero-out, cover noise"):
        curves[name] = []
    with o.progress("drawing ε against σ", total=len(stds)) as advance:
        for std in stds:
            at = replace(network, devices=replace(network.devices, noise_std=float(std)))
            exact = {name: replace(at, neighbours=name) for name in _NEIGHBOURS}
            exact["zero-out, cover noise"] = replace(at, cover_noise=True)
            for name, variant in exact.items():
                curves[name].append(float(np.max(epsilon(variant, aggregate(variant)))))
            for tail in ("quadratic", "bernstein"):
                curves[f"theorem 1 ({tail})"].append(float(paper_claim(at, tail).epsilon[0]))
            advance(1)
    return curves


def _draw(curves: dict[str, list[float]], network: Any, out: Path, comment: str) -> tuple[Path, Path]:
    from airpool.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED, figure, write_csv

    style = {
        "remove": (RED, "-", "true: remove (the paper's definition)"),
        "replace": (ORANGE, "-", "true: replace"),
        "zero-out": (BLUE, "-", "true: zero-out"),
        "zero-out, cover noise": (GREEN, "-.", "true: zero-out with cover noise"),
        "theorem 1 (bernstein)": (GREY, ":", "Theorem 1, Bernstein's slack"),
        "theorem 1 (quadratic)": (BLACK, "--", "Theorem 1, quadratic slack"),
    }
    picture, data = out / "paper-claim.png", out / "paper-claim.csv"
    std = curves["noise_std"]
    for path in (picture, picture.with_suffix(".svg")):
        with figure(path, width=6.0, height=4.4) as (_, axes):
            for name, (colour, line, label) in style.items():
                axes.plot(std, curves[name], line, color=colour, label=label)
            own = network.devices.noise_std[0]
            axes.axvline(own, color=GREY, linewidth=1)
            axes.annotate(
                "the paper's σ", (own, 0.6), xytext=(4, 0), textcoords="offset points", color=GREY, fontsize=8
            )
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("σ, standard deviation of each device's noise per coordinate (C = 100)")
            axes.set_ylabel(f"ε of each device at δ = {network.delta:g}")
            axes.set_title("What one inference of the paper's network leaks: claim and truth", loc="left")
            axes.legend()
    write_csv(data, curves, comment=comment)
    return picture, data
