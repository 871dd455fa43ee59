"""Devices tell the hub of their balances, for whoever operates the system: ε spent, the budget, why one is not ready.

Nothing in a balance depends on what the device sees: charges come before the view, and so does readiness. What is wrong
with a camera is not in it (condition.py).
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from airpool.runtime.charge import Metered
from airpool.runtime.device import Device
from airpool.runtime.medium import Line
from airpool.runtime.messages import Balance

_LOOK_SECONDS, _SHARE = 1.0, 0.02  # between looks at the ledger: at least this, and at most this share of the time


@asynccontextmanager
async def told(device: Device, line: Line) -> AsyncIterator[None]:
    """Tells the hub of a device's balance while the block runs, whenever it has changed."""
    task = asyncio.create_task(_telling(device, line))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # a line that is gone is the block's own error


async def _telling(device: Device, line: Line) -> None:
    said, found, next_look = None, Balance(), 0.0
    while True:
        if isinstance(device.charge, Metered) and (began := time.monotonic()) >= next_look:
            spent = await asyncio.to_thread(device.charge.spending)
            took = time.monotonic() - began
            next_look = began + max(_LOOK_SECONDS, took / _SHARE)
            if spent is not None:
                found = Balance(spent.epsilon, spent.budget, spent.delta, spent.neighbours)
        if (now := replace(found, waits=device.waits.reason)) != said:
            await line.tell(now)
            said = now
        await asyncio.sleep(_LOOK_SECONDS / 2)
