"""`airpool attack`: an adversary that tries, beside the bound on its success."""

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli import output

app = typer.Typer(add_completion=False)


@app.command()
@o.on_network
def attack(
    wanted: o.NetworkOptions,
    *,
    name: Annotated[str, typer.Argument(help="reconstruct, identify, attribute, antipodal, or a plug-in's.")],
    position: Annotated[
        str, typer.Option(help="Where the adversary listens: link, sum, colluding, antennas or repeated.")
    ] = "link",
    epsilon: Annotated[float | None, typer.Option(help="Scale the noise to this ε of the worst device.")] = None,
    device: Annotated[int, typer.Option(help="Device to attack.")] = 0,
    trials: Annotated[int, typer.Option(help="Number of guesses, approximately.")] = 10_000,
    option: Annotated[list[str] | None, typer.Option(help="An attack's own option, NAME=VALUE; repeat it.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write results.json and pictures into this folder.", callback=output.folder_to_write),
    ] = None,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Attack the signals of a network from one position. Success above the bound shows a fault; exit status 1.

    Default network: the attacked model's number of devices and dimension, with equal weights. antipodal attacks no
    model and needs --devices or --network. docs/results/attacks.md explains all attacks and positions.
    """
    from airpool import calibrate
    from airpool._support import files
    from airpool_lab.attacks.attack import ATTACKS, AttackSetting, attacked, options_of
    from airpool_lab.attacks.positions import position as place_named
    from airpool_lab.attacks.result import HEADER

    place, own = place_named(position), options_of(name, _options(option or []))
    wanted.refuse_named_colluders()
    default: dict[str, int] = getattr(ATTACKS.get(name), "wanted", lambda _: {})(own)
    net = wanted.network(**default)
    if "dimension" in default:
        wanted.check_dimension(net, default["dimension"], "the attacked codec")
    if epsilon is not None:
        net = calibrate(net, wanted.claim(), epsilon=epsilon)
    setting = AttackSetting(net, place, device, trials, seed, own, out, output.progress, wanted.claim())
    results = attacked(name, setting)
    shown = [each.to_json() for each in results]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        files.write(out / "results.json", json_text.dumps(shown, indent=1, ensure_ascii=False) + "\n")
    if json:
        output.print_json(shown)
    else:
        output.print_table(HEADER, [each.row() for each in results], title=f"{name}: the adversary hears {place.hears}")
        if not all(each.protected for each in results):
            typer.echo("(object): what several views show; the ε of a device does not protect it.")
        for each in results:
            for key, value in each.numbers.items():
                typer.echo(f"{each.secret}, {key}: {f'{value:.4g}' if isinstance(value, float) else value}")
        output.say_written({"Results": None if out is None else out / "results.json"})
        output.say_written({f"Picture of {each.secret}": each.picture for each in results})
    if any(each.exceeds for each in results):
        raise typer.Exit(1)


def _options(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for text, (name, sign, _) in zip(given, pairs, strict=True):
        if not name or not sign:
            raise ValueError(f"--option {text!r} must be NAME=VALUE")
    return {name: value for name, _, value in pairs}
