"""Charges in ledgers that are closed after the test."""

from contextlib import ExitStack

import pytest


@pytest.fixture
def booked():
    """`secured.booked`, whose ledgers are closed after the test."""
    secured = pytest.importorskip("airpool.runtime.secured")
    with ExitStack() as stack:

        def opened(*given):
            charge = secured.booked(*given)
            stack.callback(charge.close)
            return charge

        yield opened


@pytest.fixture
def ledgers(tmp_path, booked):
    """Charges of a network's devices, each in a ledger with one budget of ε; again: of the same files."""
    authority = pytest.importorskip("airpool.runtime.keys.authority")
    Budget = pytest.importorskip("airpool.runtime.ledger.budget").Budget

    def opened(net, budget, count=4):
        keys = tmp_path / "keys"
        if not keys.exists():
            authority.create(keys)
            for k in range(count):
                authority.add(keys, f"device-{k}")
            (tmp_path / "ledgers").mkdir()
        made = [Budget(budget, net.delta)]
        return [booked(tmp_path / "ledgers", keys / f"device-{k}" / "identity.key", net, k, made) for k in range(count)]

    return opened
