"""The charge of a device from its options: its own ledger with budgets, or a count of ids in memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airpool._support.rounding import full
from airpool.network import Network
from airpool.runtime import logs
from airpool.runtime.charge import Counted
from airpool.runtime.options import DeviceOptions
from airpool.runtime.under_way import cap

if TYPE_CHECKING:  # they need the extra `ledger`
    from grpc import aio

    from airpool.runtime.ledger.budget import Budget
    from airpool.runtime.ledger.chain import Row
    from airpool.runtime.secured import Booked

# They mean something with a ledger alone.
_OF_LEDGER = (
    *("key", "head", "budget_epsilon", "window_epsilon", "window_seconds", "scene_epsilon", "scene"),
    *("day_epsilon", "event_epsilon", "event_inferences", "accept_plugin", "fleet"),
)


_DAY = 86_400.0


def budgets_of(options: DeviceOptions, network: Network) -> "list[Budget]":
    """The budgets of a ledger, for the network's δ and neighbours."""
    from airpool.runtime.ledger.budget import Budget

    if (options.window_epsilon is None) != (options.window_seconds is None):
        raise ValueError("--window-epsilon and --window-seconds go together")
    if options.scene_epsilon is not None and not options.scene:
        raise ValueError("--scene-epsilon needs --scene, the name of the scene")
    if (options.event_epsilon is None) != (options.event_inferences is None):
        raise ValueError("--event-epsilon and --event-inferences go together")
    rows = None if options.event_inferences is None else options.event_inferences * cap(network.slots)
    found = [
        (options.budget_epsilon, {}),
        (options.event_epsilon, {"event": rows}),
        (options.day_epsilon, {"window_s": _DAY}),
        (options.window_epsilon, {"window_s": options.window_seconds}),
        (options.scene_epsilon, {"scene": True}),
    ]
    delta, relation = network.delta, network.neighbours
    return [Budget(epsilon, delta, neighbours=relation, **rest) for epsilon, rest in found if epsilon is not None]


def key_of(options: DeviceOptions, k: int) -> Path:
    """The identity key of device k."""
    from airpool.runtime import secured

    return options.key or secured.home(options.keys or Path(), k) / "identity.key"


def require_consistent(options: DeviceOptions, network: Network, *, several: bool) -> None:
    """Raises a ValueError where options of the charge do not go together. several: a process hosts several devices."""
    if options.ledger is None:
        for name in _OF_LEDGER:
            if getattr(options, name) not in (None, "", ()):
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} needs --ledger: what was spent must outlive the process")
        return
    budgets_of(options, network)
    if options.simulate is not None:
        raise ValueError("--ledger does not go with --simulate, whose noise gives no privacy")
    if several and not options.ledger.is_dir():
        raise ValueError(f"--ledger {options.ledger} must be a folder where a process hosts several devices")
    if several and options.key is not None:
        raise ValueError("--key is for one device; give --keys, a folder with one for each")
    if options.key is None and options.keys is None:
        raise ValueError("--ledger needs --key, or --keys with an identity.key: `airpool keys` makes them")


def require_covered(options: DeviceOptions, network: Network, indices: Sequence[int]) -> None:
    """Raises a ValueError where a budget can never cover one inference of one of these devices."""
    if options.ledger is None:
        return
    from airpool.runtime import secured

    budgets = budgets_of(options, network)
    columns = [each for each in vars(network.devices).values() if isinstance(each, tuple)]
    unlike = {tuple(column[k] for column in columns): k for k in reversed(indices)}
    for k in sorted(unlike.values()):  # the first of those that are alike
        secured.require_covered(budgets, network, k)


def charge_of(options: DeviceOptions, k: int, network: Network, seen: "Row | None" = None) -> "Booked | Counted":
    """Charge of device k, to be closed. seen: the newest row that the fleet has of the device."""
    if options.ledger is None:
        return Counted()
    from airpool.runtime import secured

    budgets = budgets_of(options, network)
    secured.require_covered([each for each in budgets if each.event is not None], network, k)
    for each in budgets:
        promised = f"ε ≤ {full(each.epsilon)} for {each.covers} and {each.neighbours} neighbours, if {each.assumes}"
        logs.event("budget", device=k, reason=promised)
    kept = secured.Kept(options.head, options.scene, seen, options.accept_plugin)
    return secured.booked(options.ledger, key_of(options, k), network, k, budgets, kept)


async def newest(options: DeviceOptions, k: int, view: "aio.Channel") -> "Row | None":
    """The newest row that the fleet has of device k."""
    from airpool.runtime import secured, telling

    return await telling.newest(view, secured.public_key(key_of(options, k)))


async def reported(charge: Any, view: "aio.Channel") -> None:
    """Reports new rows of a device's ledger to the fleet, without end."""
    from airpool.runtime import telling

    await telling.telling(view, charge.path)


def check_ledger(options: DeviceOptions, k: int) -> None:
    """Raises a ValueError where the ledger of device k would be refused; nothing is written or made."""
    from airpool.runtime import secured
    from airpool.runtime.ledger import backup
    from airpool.runtime.ledger.refused import SpendingError

    key = key_of(options, k)
    public = secured.public_key(key)
    assert options.ledger is not None
    file, head = secured.files_of(options.ledger, options.head, k)
    head = head or key.with_suffix(".head")
    if not file.exists():
        if head.exists():
            raise ValueError(f"{file} is missing, but rows were written to it: {head}")
        if not file.parent.is_dir():
            raise ValueError(f"the folder of --ledger {file} does not exist")
        return
    try:
        for wrong in backup.faults(backup.content(file), head=head, key=public):
            raise ValueError(f"{file}: {wrong}")
    except SpendingError as why:
        raise ValueError(f"{why.status}: {why}") from None
