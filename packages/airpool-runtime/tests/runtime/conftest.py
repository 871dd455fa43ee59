"""Charges in ledgers that are closed after the test."""

from contextlib import ExitStack

import pytest


@pytest.fixture
def booked():
    """`charge.booked`, whose ledgers are closed after the test."""
    charging = pytest.importorskip("airpool_runtime.charge")
    with ExitStack() as stack:

        def opened(*given, **options):
            charge = charging.booked(*given, **options)
            stack.callback(charge.close)
            return charge

        yield opened


@pytest.fixture
def ledgers(tmp_path, booked):
    """Charges of a network's devices, each in a ledger with one budget of ε; again: of the same files."""
    authority = pytest.importorskip("airpool_runtime.keys.authority")
    Budget = pytest.importorskip("airpool_runtime.ledger.budget").Budget

    def opened(net, budget, count=4):
        keys = tmp_path / "keys"
        if not keys.exists():
            authority.create(keys)
            for k in range(count):
                authority.add(keys, f"device-{k}")
            (tmp_path / "ledgers").mkdir()
        made = [Budget(budget)]
        return [booked(tmp_path / "ledgers", keys / f"device-{k}" / "identity.key", net, k, made) for k in range(count)]

    return opened
