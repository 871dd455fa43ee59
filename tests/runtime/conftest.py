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
