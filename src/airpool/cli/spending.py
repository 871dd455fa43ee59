"""Options of a device that keeps a ledger: where it is, and how much may be spent."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from airpool.network import Neighbours, Network
    from airpool.runtime.charge import Charge
    from airpool.runtime.ledger.budget import Budget
    from airpool.runtime.ledger.chain import Row


def _option(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Ledger (ε at the network's δ and neighbours; default: no limit)")


@dataclass(frozen=True)
class Spending:
    """Options of the ledger and its budgets."""

    ledger: Annotated[Path | None, _option("The ledger's file, or a folder of one for each device.")] = None
    key: Annotated[Path | None, _option("The device's identity key (default: identity.key of --keys).")] = None
    head: Annotated[Path | None, _option("Where its newest row is kept as well (default: beside the key).")] = None
    budget_epsilon: Annotated[float | None, _option("ε that all inferences together may reach.")] = None
    window_epsilon: Annotated[float | None, _option("ε that those of any --window-seconds may reach.")] = None
    window_seconds: Annotated[float | None, _option("Length of a window, in time that the ledger is in use.")] = None
    scene_epsilon: Annotated[float | None, _option("ε that those of one scene may reach.")] = None
    scene: Annotated[str, _option("The scene that the device looks at from now on.")] = ""

    accept_plugin: Annotated[
        list[str] | None, _option("SHA-256 of a plug-in's new source, to charge with it from now on; repeatable.")
    ] = None
    fleet: Annotated[str | None, _option("Address of the server, to tell its view of the fleet what is new.")] = None

    def budgets(self, delta: float, neighbours: "Neighbours") -> "list[Budget]":
        from airpool.runtime.ledger.budget import Budget

        if (self.window_epsilon is None) != (self.window_seconds is None):
            raise ValueError("--window-epsilon and --window-seconds go together")
        if self.scene_epsilon is not None and not self.scene:
            raise ValueError("--scene-epsilon needs --scene, the name of the scene")
        found = [
            (self.budget_epsilon, {}),
            (self.window_epsilon, {"window_s": self.window_seconds}),
            (self.scene_epsilon, {"scene": True}),
        ]
        return [Budget(epsilon, delta, neighbours=neighbours, **rest) for epsilon, rest in found if epsilon is not None]

    def key_of(self, k: int, keys: Path | None) -> Path:
        """The identity key of device k."""
        from airpool.runtime import secured

        return self.key or secured.home(keys or Path(), k) / "identity.key"

    def charge(
        self,
        k: int,
        net: "Network",
        *,
        keys: Path | None,
        several: bool,
        budget: int | None,
        simulated: bool,
        seen: "Row | None" = None,
    ) -> "Charge":
        """Charge of device k: its own ledger, or a count in memory.

        several: the process hosts others too. seen: the newest row that the fleet has of the device.
        """
        if self.ledger is None:
            from airpool.runtime.charge import Counted

            given = [f.name for f in fields(self) if getattr(self, f.name) not in (f.default, [])]
            if given:
                name = given[0].replace("_", "-")
                raise ValueError(f"--{name} needs --ledger: what was spent must outlive the process")
            return Counted(budget)
        from airpool.runtime import logs, secured

        if simulated or budget is not None:
            other = "--simulate, whose noise gives no privacy" if simulated else "--budget"
            raise ValueError(f"--ledger does not go with {other}")
        if several and not self.ledger.is_dir():
            raise ValueError(f"--ledger {self.ledger} must be a folder where a process hosts several devices")
        if several and self.key is not None:
            raise ValueError("--key is for one device; give --keys, a folder with one for each")
        if self.key is None and keys is None:
            raise ValueError("--ledger needs --key, or --keys with an identity.key: `airpool keys` makes them")
        budgets = self.budgets(net.delta, net.neighbours)
        for each in budgets:
            promised = f"ε ≤ {each.epsilon:g} for {each.covers} and {each.neighbours} neighbours, if {each.assumes}"
            logs.event("budget", device=k, reason=promised)
        key = self.key_of(k, keys)
        kept = secured.Kept(self.head, self.scene, seen, tuple(self.accept_plugin or ()))
        return secured.booked(self.ledger, key, net, k, budgets, kept)
