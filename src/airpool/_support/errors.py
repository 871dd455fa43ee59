"""The base of airpool's errors."""


class AirpoolError(Exception):
    """Any error of airpool's own; wrong input is also a ValueError."""
