"""`airpool radio transmit|receive`: a device's frame as complex samples, and the estimate in received ones."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from airpool.cli import options as o
from airpool.cli.output import file_to_write, print_json, print_table, progress, say_written

app = typer.Typer(help="Samples for a real radio.", no_args_is_help=True, add_completion=False)

_DRAWN = 8  # draws of all paths; ε is that of the worst

Rate = Annotated[float, typer.Option(help="Sample rate in Hz, for the metadata.")]
Guard = Annotated[int, typer.Option(help="Noise samples before and after the frame.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for the other end of a stream.")]
Loudness = Annotated[float, typer.Option(help="Power of the guards above the noise in a symbol, in dB.")]


@app.command()
@o.on_network
def transmit(
    wanted: o.NetworkOptions,
    *,
    latent: Annotated[Path, typer.Option(help="The device's latent, (r,), as npy.")],
    device: Annotated[int, typer.Option(help="Which device transmits.")],
    out: Annotated[str, typer.Option(help="Recording to write (.sigmf-data, .sigmf-meta), or tcp://… to stream.")],
    gain: Annotated[float, typer.Option(help="The channel's gain, as estimated from the pilot.")] = 1.0,
    guard: Guard = 4,
    guard_db: Loudness = 18.0,
    rate: Rate = 1e6,
    timeout: Timeout = 10.0,
    json: o.Json = False,
) -> None:
    """Write one transmission of one device, with noise from the operating system.

    Samples are complex64, which rounds: the local ε is what holds.
    """
    from airpool._support import files
    from airpool.account.report import number, shown
    from airpool_lab.waveform import recording
    from airpool_lab.waveform.frame import Frame
    from airpool_lab.waveform.reception import live_frame

    net, claim, frame = wanted.network(), wanted.claim(), Frame(guard=guard, guard_db=guard_db)
    samples, report = live_frame(files.array(latent), net, frame, claim, device=device, gain=gain)
    local = float(report.epsilon_local[device])
    if out.startswith("tcp:"):
        recording.push(out, samples, timeout_s=timeout)
    else:
        text = f"airpool, device {device} of {net.devices.count}, local epsilon {shown(local)}"
        recording.write(out, samples, sample_rate=rate, description=text)
    _say(json, {"samples": len(samples), "epsilon_local": number(local), "out": out})


@app.command()
@o.on_network
def receive(
    wanted: o.NetworkOptions,
    *,
    recordings: Annotated[str, typer.Option(help="Recordings that are added up, separated by commas, or tcp://….")],
    out: Annotated[Path, typer.Option(help="The estimate of the sum, (r,), as npy.", callback=file_to_write)],
    guard: Guard = 4,
    guard_db: Loudness = 18.0,
    delay: Annotated[int, typer.Option(help="Samples before the frame begins.")] = 0,
    timeout: Timeout = 10.0,
    json: o.Json = False,
) -> None:
    """Write the server's estimate of the weighted sum from received samples."""
    import numpy as np

    from airpool._support import files
    from airpool_lab.waveform import recording
    from airpool_lab.waveform.frame import Frame
    from airpool_lab.waveform.reception import estimate

    net, frame = wanted.network(), Frame(guard=guard, guard_db=guard_db)
    if delay < 0:
        raise ValueError(f"--delay {delay} must be >= 0")
    length = frame.length((net.dimension + 1) // 2) + delay
    if recordings.startswith("tcp:"):
        samples = recording.pull(recordings, length, timeout_s=timeout)
    else:
        parts = [recording.read(name)[0] for name in recordings.split(",")]
        if min(map(len, parts)) < length:
            raise ValueError(f"{recordings}: {min(map(len, parts))} samples, a frame needs {length}")
        samples = np.stack([part[:length] for part in parts]).sum(axis=0)
    found = estimate(samples[delay:].astype(np.complex128), net, frame)
    out = out if out.suffix == ".npy" else out.with_name(f"{out.name}.npy")
    with files.opened(out) as file:
        np.save(file, found)
    _say(json, {"samples": len(samples), "norm": float(np.linalg.norm(found)), "out": str(out)})


@app.command()
@o.on_network
def evaluate(
    wanted: o.NetworkOptions,
    *,
    codec: Annotated[str, typer.Option(help="vote, compact or q16: a shipped codec.")] = "vote",
    split: o.Split = "test",
    trials: Annotated[int, typer.Option(help="Transmissions of every object.")] = 1,
    taps: Annotated[int, typer.Option(help="Multipath taps.")] = 1,
    direct: Annotated[float, typer.Option(help="Power share of the direct path.")] = 1.0,
    pilot_noise_std: Annotated[float, typer.Option(help="Error of a device's channel estimate.")] = 0.0,
    timing: Annotated[int, typer.Option(help="Largest timing offset, samples early or late.")] = 0,
    carrier_std: Annotated[float, typer.Option(help="Carrier offset, in subcarrier spacings.")] = 0.0,
    phase_noise_std: Annotated[float, typer.Option(help="Phase noise, radians a sample.")] = 0.0,
    limit: Annotated[float, typer.Option(help="Largest amplitude that an amplifier sends.")] = float("inf"),
    guard: Guard = 4,
    guard_db: Loudness = 18.0,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Measure accuracy over OFDM samples, their errors, and ε against a server that keeps every sample.

    Default: twelve devices on shipped latents, as in `airpool evaluate`.
    """
    import numpy as np

    from airpool.account.report import number
    from airpool.evaluation.evaluate import evaluate as evaluated
    from airpool.evaluation.objects import held_out
    from airpool.models.pretrained import load
    from airpool_lab.waveform.frame import Frame
    from airpool_lab.waveform.reception import Waveform, waveform_epsilon, why_local
    from airpool_lab.waveform.uplink import Impairments, measured, uplink

    o.at_least(1, taps=taps, trials=trials)
    o.at_least(0, timing=timing, seed=seed)
    model, which = load("modelnet40"), cast("Any", split)
    net, claim = wanted.network(**model.wanted(codec)), wanted.claim()
    held = held_out(model, net, codec=codec, split=which)
    off = Impairments(taps, direct=direct, pilot_noise_std=pilot_noise_std, timing=timing, carrier_std=carrier_std)
    off = replace(off, phase_std=phase_noise_std, limit=limit)
    radio = Waveform(Frame(guard=guard, guard_db=guard_db), off)
    with progress("transmitting", total=2 * len(held.labels) * trials) as advance:
        over, plain = (
            evaluated(held, net, claim, trials=trials, seed=seed, instead=each, on_inferences=advance)
            for each in (radio, None)
        )
    rng, symbols = np.random.default_rng(seed), (net.dimension + 1) // 2
    link = uplink((_DRAWN, net.devices.count), symbols, radio.frame, off, rng)
    found, why = measured(link, rng), why_local(net, link, claim)
    local = over.report.epsilon_local
    every = local[None] if why else np.stack([waveform_epsilon(net, link, claim, run=run) for run in range(_DRAWN)])
    record = {
        "accuracy": over.accuracy_mean,
        "accuracy_ci": list(over.accuracy_ci),
        "accuracy_symbols": plain.accuracy_mean,
        "accuracy_symbols_ci": list(plain.accuracy_ci),
        "csi_error_std": found.csi_error_std,
        "phase_error_std": found.phase_error_std,
        "residual": found.residual,
        "epsilon_symbols": number(plain.report.worst),
        "epsilon_samples": number(float(np.max(every))),
        "epsilon_samples_is": "the local ε" if why else f"the largest of {_DRAWN} uplinks drawn, no bound for others",
        "epsilon_local": number(float(np.max(local))),
        "energy_factor": radio.frame.energy(symbols),
    }
    _say(json, record | ({"why_local": why} if why else {}))


_WORDS = {
    "accuracy": "accuracy over samples",
    "accuracy_ci": "95 % interval",
    "accuracy_symbols": "accuracy over symbols",
    "accuracy_symbols_ci": "its 95 % interval",
    "csi_error_std": "std of the channel estimate's error",
    "phase_error_std": "std of the phase error, radians",
    "residual": "left of other symbols",
    "epsilon_symbols": "ε over symbols, worst device",
    "epsilon_samples": "ε over samples, worst device",
    "epsilon_samples_is": "which is",
    "epsilon_local": "ε, no other device trusted",
    "energy_factor": "energy, times that of the symbols",
    "why_local": "why no more",
    "norm": "norm of the estimate",
}


def _say(json: bool, what: dict[str, Any]) -> None:
    from airpool._support.rounding import shown

    if json:
        print_json(what)
        return

    def text(name: str, value: Any) -> str:
        if isinstance(value, list):
            return " to ".join(text(name, each) for each in value)
        if name in ("epsilon_symbols", "epsilon_samples", "epsilon_local"):
            return shown(float(value))
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    print_table(
        ("", ""), [(_WORDS.get(name, name), text(name, value)) for name, value in what.items() if name != "out"]
    )
    say_written({"Written": what.get("out")})
