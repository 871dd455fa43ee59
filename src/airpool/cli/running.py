"""Options and steps that the commands of the running system share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from airpool.runtime.transport import PeerCredentials

NetworkFile = Annotated[Path, typer.Option("--network", help="Network file (TOML).")]
Address = Annotated[str, typer.Option("--listen", help="Address to listen at, HOST:PORT; port 0: any free one.")]
AirAddress = Annotated[str, typer.Option("--air", help="Address of the air.")]
Attached = Annotated[bool, typer.Option("--attached", help="Stop when stdin is closed.", hidden=True)]
SimulationSeed = Annotated[
    int | None, typer.Option("--simulate", help="Seed of a simulated run; its noise gives no privacy.", metavar="SEED")
]
Keys = Annotated[
    Path | None, typer.Option("--keys", help="Folder of this role's keys (`airpool keys`); needed beyond loopback.")
]
SlotSeconds = Annotated[
    float | None, typer.Option(help="How long a slot waits for its signals (default: 5 s; secure sums: + K/4 s).")
]
Identities = Annotated[
    Path | None, typer.Option(help="Secure access without --keys: folder of roster.txt and device-K.key.")
]
ANYWHERE = "127.0.0.1:0"


def credentials(keys: Path | None, role: str) -> "PeerCredentials | None":
    """Credentials of a role's sockets; None without keys."""
    if keys is None:
        return None
    from airpool.runtime import secured

    return secured.credentials(keys, role)
