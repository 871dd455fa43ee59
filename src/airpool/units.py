"""Decibels and milliwatts: the only place where conversions live. Powers are linear, in mW, everywhere else."""

import math


def db_to_linear(value_db: float) -> float:
    """
    >>> db_to_linear(30.0)
    1000.0
    """
    return 10.0 ** (value_db / 10)


def linear_to_db(value: float) -> float:
    """
    >>> linear_to_db(1000.0)
    30.0
    """
    if not value > 0:
        raise ValueError(f"value={value} must be > 0 to be expressed in dB")
    return 10 * math.log10(value)


def dbm_to_mw(power_dbm: float) -> float:
    """The paper's P = 30 dBm is 1000 mW.

    >>> dbm_to_mw(30.0)
    1000.0
    """
    return db_to_linear(power_dbm)
