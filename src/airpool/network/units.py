"""Decibels and milliwatts: the only place where conversions live. Powers are linear, in mW, everywhere else."""


def db_to_linear(value_db: float) -> float:
    """
    >>> db_to_linear(30.0)
    1000.0
    """
    return 10.0 ** (value_db / 10)


def dbm_to_mw(power_dbm: float) -> float:
    """The paper's P = 30 dBm is 1000 mW.

    >>> dbm_to_mw(30.0)
    1000.0
    """
    return db_to_linear(power_dbm)
