"""The page beside a system that `airpool up` has started."""

import os
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from airpool_runtime.up import System
    from airpool_web.serving import PageAddress


def place(listen: str) -> "PageAddress":
    """The page's socket, on this machine; an error before anything is started where it cannot be had."""
    from airpool_runtime import transport
    from airpool_web import serving

    transport.split(listen, False)
    return serving.bound(listen, token=None, credentials=None)


def page(where: "PageAddress", system: "System") -> AbstractAsyncContextManager[None]:
    """Serves the page while the block runs, and says where; who may ask for inferences there, too."""
    from airpool_web import serving
    from airpool_web.app import PageOptions
    from airpool_web.live import LiveOptions, Upstream

    setup, operator = system.setup, secrets.token_urlsafe(12)
    upstream = Upstream.of(system.roles["server"].said["http"], token=os.environ.get("AIRPOOL_TOKEN"), keys=setup.keys)
    live = LiveOptions(upstream, operator, local_of(system))
    typer.echo(f"The page: {where.url}#tab=live  (Ctrl-C stops all of it)", err=True)
    typer.echo(f"Operator's token, to ask for an inference there: {operator}", err=True)
    return serving.beside(where, PageOptions(model=setup.model, live=live))


def local_of(system: "System") -> Callable[[], dict[int, str]]:
    """Facts of the devices that only this machine knows, by index: a process that has ended, a source that fails."""
    from airpool_runtime.roles import indices_of

    def found() -> dict[int, str]:
        failing = system.source_faults().items()
        told = {k: f"it sends noise alone, since its source fails: {why}" for (k, _), why in sorted(failing)}
        for name in system.device_names:
            if not system.roles[name].alive:
                indices = indices_of(name.removeprefix("device "), system.setup.network.devices.count)
                told |= dict.fromkeys(indices, "its process has ended")
        return told

    return found
