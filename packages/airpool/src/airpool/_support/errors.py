"""The base of airpool's errors."""


class AirpoolError(Exception):
    """Any error of airpool's own; wrong input is also a ValueError.

    >>> from airpool import Devices
    >>> try:
    ...     Devices(count=12, noise_std=-1)
    ... except AirpoolError as error:
    ...     print(error)
    devices.noise_std=-1 must be >= 0 and finite
    """
