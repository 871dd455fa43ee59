"""`airpool up`: the whole system on one machine."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool._support.errors import AirpoolError
from airpool._support.rounding import because, full, shown
from airpool._support.table import TextTable
from airpool.cli import options as o
from airpool.cli.output import print_json, print_table, progress
from airpool.network import Claim, Network
from airpool_runtime.cli import running as r
from airpool_runtime.options import FRAME_WINDOW

if TYPE_CHECKING:
    from airpool_runtime.up import RunTally, Setup

app = typer.Typer(add_completion=False)


@app.command()
@o.on_network
def up(
    wanted: o.NetworkOptions,
    *,
    epsilon: Annotated[
        float | None, typer.Option(help="Scale the noise to this ε (default 2, unless noise is given).")
    ] = None,
    share: Annotated[float, typer.Option(help="Schemes 2.1, 2.2: share of --epsilon for the scores.")] = 0.1,
    processes: Annotated[
        int | None, typer.Option(help="Processes that host the devices (default: one each, up to 16).")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="What devices see, as in `airpool device --source`; video:demo: shapes on a turntable "
            "(default: the model's test objects)."
        ),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="What makes latents of views; `airpool bundle` writes it.")
    ] = None,
    model: o.Model = "modelnet40",
    codec: Annotated[str | None, typer.Option(help="One of the model's (default: its first).")] = None,
    quorum: Annotated[int | None, typer.Option(help="Devices that must be ready for a slot (default: all).")] = None,
    slot_seconds: r.SlotSeconds = None,
    frame_window: r.FrameWindow = FRAME_WINDOW,
    http: Annotated[str | None, typer.Option(help="Address of the HTTP API, HOST:PORT.")] = None,
    keys: Annotated[
        Path | None, typer.Option(help="Authority's folder: all roles use TLS, each with its own keys.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Folder of the devices' ledgers; needs --keys.")] = None,
    budget_epsilon: Annotated[float | None, typer.Option(help="ε that each ledger may reach.")] = None,
    day_epsilon: Annotated[float | None, typer.Option(help="ε that each ledger may reach in any 24 hours.")] = None,
    event_epsilon: Annotated[float | None, typer.Option(help="ε that each ledger may reach in one event.")] = None,
    event_inferences: Annotated[int | None, typer.Option(help="An event's length, in inferences in a row.")] = None,
    simulate: r.SimulationSeed = None,
    ui: Annotated[
        bool, typer.Option("--ui", help="Serve the page beside it, and run until Ctrl-C, at a calm pace.")
    ] = False,
    ui_listen: Annotated[str, typer.Option(help="Where the page of --ui is served, HOST:PORT on this machine.")] = (
        "127.0.0.1:8350"
    ),
    pause: Annotated[
        float | None, typer.Option(help="Seconds between two inferences (default: 0; with --ui 0.5).")
    ] = None,
    json: o.Json = False,
) -> None:
    """Start devices, air and server as processes on this machine, run inferences, and print accuracy and ε.

    Runs as many as --inferences says, or until Ctrl-C; ε is that of one. Stops everything at the end, at an error too.
    Without --network there are 12 devices at ε = 2. With --ui it goes on until Ctrl-C, after --inferences too.
    """
    from airpool.models.stored import found
    from airpool_runtime import demo_clips, sources
    from airpool_runtime.up import RunTally, Setup

    count = wanted.given.get("inferences")
    wanted = replace(wanted, given={name: value for name, value in wanted.given.items() if name != "inferences"})
    o.at_least(1, inferences=count, processes=processes)
    source = source or f"latents:{model}/test"
    pause = (0.5 if ui else 0.0) if pause is None else pause
    if not 0 <= pause <= 3600:
        raise ValueError(f"--pause {pause:g} must be from 0 to 3600 seconds")
    page, http = _page().place(ui_listen) if ui else None, http or ("127.0.0.1:0" if ui else None)
    if (demo := source == sources.DEMO) and model != demo_clips.MODEL:
        raise ValueError(f"--source {source} shows shading and depth: it goes with --model {demo_clips.MODEL} alone")
    if demo and bundle is None:
        with progress("clips and trunk of video:demo: a minute, the first time"):
            demo_clips.views()
            bundle = demo_clips.bundle(codec)
    sources.require(source, bundle=bundle is not None)
    if bundle is not None:
        sources.require_views(source, bundle)
    claim = wanted.claim(live=simulate is None)
    net = network_of(wanted, claim, epsilon, share, model, codec)
    hosts = min(net.devices.count, 16) if processes is None else processes
    of_device = {"ledger": ledger, "budget_epsilon": budget_epsilon, "day_epsilon": day_epsilon, "bundle": bundle}
    of_device |= {"event_epsilon": event_epsilon, "event_inferences": event_inferences}
    of_device |= {} if bundle is None else {"threads": 1}
    if ledger is not None and keys is None:
        raise ValueError("--ledger needs --keys FOLDER: `airpool keys init` and `airpool keys device` make them")
    setup = Setup(
        net, hosts, source, model, codec, quorum, slot_seconds, http, simulate, of_device, keys, frame_window, claim
    )
    labels = sources.labels_of(source, found(model).classes)
    tally = RunTally(labels, demo_clips.shape_at if demo else None)
    try:
        took = asyncio.run(_run(setup, tally, count=count, pause=pause, page=page, live=not json))
    except (KeyboardInterrupt, asyncio.CancelledError):
        took = sum(tally.seconds)
    record = {**tally.record(took), "processes": hosts, "cameras": sources.cameras_of(source, net.devices.count)}
    if net.slots.count > 1 and net.slots.redrawn and record["slots"] is not None:
        from airpool.account.lifetime import mean_epsilon

        record["slots"]["mean_epsilon"] = mean_epsilon(net, replace(claim, inferences=1), record["slots"]["mean"])
    if ledger is not None:
        with suppress(AirpoolError):  # what a ledger lacks is no reason to lose the results
            record["budgets"] = _budgets(ledger, net)
    if "inf" in (record["epsilon"] or {}).values():
        from airpool.account.guarantee import guarantee

        record["reasons"] = guarantee(net, claim).reasons
    print_json(record) if json else print_table(("", ""), _rows(record).items())
    if tally.count and not tally.statuses["answered"]:
        raise typer.Exit(1)


def network_of(
    wanted: o.NetworkOptions, claim: Claim, epsilon: float | None, share: float, model: str, codec: str | None
) -> Network:
    """The network of the options; at ε = 2 unless a file or options give the noise. claim: that meets the target."""
    from airpool.account.calibration import calibrate
    from airpool.models.stored import found

    wanted.refuse_named_colluders()
    needed = found(model).codec(codec).dimension
    net = wanted.network(devices=12, dimension=needed)
    wanted.check_dimension(net, needed, f"the codec of {model}")
    if epsilon is None and (wanted.path is not None or "noise_std" in wanted.given):
        if claim.live:
            _say_missed(net, claim)
        return net
    with progress("calibrating"):
        by_score = None if net.scheme.independent else share
        return calibrate(net, claim, epsilon=epsilon or 2.0, share=by_score)


def _say_missed(net: Network, claim: Claim) -> None:
    """Says so where the devices' own targets are missed by live noise."""
    from airpool.account.guarantee import guarantee

    if net.devices.epsilon is None:
        return
    with progress("computing ε"):
        report = guarantee(net, claim)
        spent, wanted = (report.event or report).epsilon.tolist(), net.devices.column("epsilon")
    k = max(range(len(wanted)), key=lambda k: spent[k] / wanted[k])
    if spent[k] > wanted[k] * (1 + 1e-9):  # more than rounding
        typer.echo(
            f"warning: running, ε of device {k} is {shown(spent[k])}, above its target of {full(wanted[k])}: give "
            "--epsilon, or calibrate the file with `airpool calibrate --live`",
            err=True,
        )


def _budgets(folder: Path, net: Network) -> list[dict[str, Any]]:
    """Spending of the device that has least left, for each budget of the ledgers in a folder."""
    from airpool_runtime.ledger.backup import content, left
    from airpool_runtime.under_way import cap

    with progress("composing what was spent"):
        files = [folder / f"device-{k}.db" for k in range(net.devices.count)]
        found = [left(content(file), each=cap(net.slots)) for file in files if file.exists()]
    worst = (min(same, key=lambda one: (one.more or 0, -one.spent)) for same in zip(*filter(None, found), strict=False))
    return [{"words": one.words, **one.to_json()} for one in worst]


def _page() -> Any:
    from airpool._support.extras import load

    return load("airpool_web.cli.watched", "airpool up --ui")


async def _run(setup: "Setup", tally: "RunTally", *, count: int | None, pause: float, page: Any, live: bool) -> float:
    """Runs inferences, one after the other; how long they took together.

    count: of inferences; None: until Ctrl-C. pause: seconds between two. page: where it is served, if so.
    """
    from contextlib import AsyncExitStack

    from grpc.aio import AioRpcError

    from airpool_runtime import up as system
    from airpool_runtime import wire_pb2 as wire

    whole = asyncio.current_task()
    assert whole is not None
    for sign in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: nothing is left behind
        asyncio.get_running_loop().add_signal_handler(sign, whole.cancel)
    async with AsyncExitStack() as stack:
        with progress(f"starting {setup.processes} device processes, air and server"):
            there = await stack.enter_async_context(system.running(setup))
        if address := there.roles["server"].said.get("http"):
            keys = there.setup.keys
            where = f"http://{address}" if keys is None else f"https://{address} (authority: {keys / 'ca.crt'})"
            typer.echo(f"HTTP API: {where}", err=True)
        if page is not None:
            await stack.enter_async_context(_page().page(page, there))
        client, began = await stack.enter_async_context(system.client(there)), time.perf_counter()
        with _live_table(tally, live) as refresh:
            while count is None or tally.count < count:
                began_at = time.time()
                try:
                    tally.add(await client.Infer(wire.Nothing(), timeout=60), began_at)
                except AioRpcError as error:
                    raise OSError(f"the server is gone: {error.details()}") from None
                refresh()
                await asyncio.sleep(pause)
            tally.trouble, took = there.trouble(), time.perf_counter() - began
            if page is not None:  # the page stays
                await asyncio.Event().wait()
        return took


@contextmanager
def _live_table(tally: "RunTally", live: bool) -> Iterator[Callable[[], None]]:
    """A table of the numbers so far, on a terminal; elsewhere nothing."""
    from rich.console import Console

    if not (live and sys.stderr.isatty()):
        yield lambda: None
        return
    from rich.live import Live

    began = time.perf_counter()

    def table() -> TextTable:
        return TextTable(("", ""), [*_rows(tally.record(time.perf_counter() - began)).items()])

    with Live(table(), console=Console(file=sys.stderr), refresh_per_second=4, get_renderable=table, transient=True):
        yield lambda: None


def _rows(record: dict[str, Any]) -> dict[str, str]:
    rows = {
        "inferences": f"{record['inferences']}  " + ", ".join(f"{n} {what}" for what, n in record["statuses"].items()),
        "devices in the last slot": str(record["devices"]),
    }
    if record["last"]:
        rows["last label"] = record["last"]
    if record["accuracy"] is not None:
        rows["accuracy"] = f"{record['accuracy']:.4f}"
    if record["p50_ms"] is not None:
        rows["latency"] = f"{record['p50_ms']:.1f} ms (median), {record['p99_ms']:.1f} ms (99 %)"
        rows["rate"] = f"{record['per_second']:.1f} inferences/s"
    if record["epsilon"] is not None:
        names = {"device": "epsilon", "local": "epsilon_local", "object": "epsilon_object"}
        why = {name: because(record.get("reasons", {}), of) for name, of in names.items()}
        device, alone, whole = (shown(float(record["epsilon"][name])) for name in names)
        rows["ε of one inference"] = (
            f"{device} device{why['device']}, {alone} local{why['local']}, {whole} object{why['object']}; "
            f"δ = {full(record['delta'])}"
        )
    if record["slots"] is not None and record["slots"]["cap"] > 1:
        rows["ε of one inference"] += f"; all {record['slots']['cap']} slots"
        rows["slots"] = f"{record['slots']['mean']:.2f} on average of at most {record['slots']['cap']}"
        if "mean_epsilon" in record["slots"]:
            rows["spent on average"] = f"ε = {shown(record['slots']['mean_epsilon'])}: a figure, not a promise"
    if "budgets" in record:
        lines = [each["words"] for each in record["budgets"]] or ["no budget set"]
        rows |= {"spent" if not k else f"spent ({k + 1})": line for k, line in enumerate(lines)}
    if record["note"]:
        rows["note"] = record["note"]
    if record.get("cameras"):
        rows["cameras"] = record["cameras"]
    if record["trouble"]:
        rows["noise alone"] = "\n".join(record["trouble"])
    return rows
