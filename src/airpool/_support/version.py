"""The one place that states the version; every result on disk carries it."""

__version__ = "0.1.0"
