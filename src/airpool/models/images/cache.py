"""Features of pictures, kept on disk by content: an interrupted run goes on where it was. One SQLite file.

It holds no picture, but what a trunk makes of each: as personal as the pictures. Delete it when you are done.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Feature = NDArray[np.float32]

_TABLE = "CREATE TABLE IF NOT EXISTS features (trunk TEXT, picture TEXT, feature BLOB, PRIMARY KEY (trunk, picture))"


class FeatureCache:
    """Features by the SHA-256 of trunk and picture."""

    def __init__(self, connection: sqlite3.Connection, trunk: str) -> None:
        self._connection, self._trunk = connection, trunk

    def get(self, picture: str) -> Feature | None:
        query = "SELECT feature FROM features WHERE trunk = ? AND picture = ?"
        row = self._connection.execute(query, (self._trunk, picture)).fetchone()
        return None if row is None else np.frombuffer(row[0], np.float32)

    def put(self, found: Mapping[str, Feature]) -> None:
        with self._connection:
            rows = [(self._trunk, picture, each.astype(np.float32).tobytes()) for picture, each in found.items()]
            self._connection.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", rows)


@contextmanager
def opened(path: Path | None, trunk: str) -> Iterator[FeatureCache]:
    """The cache in a file, which is made where there is none; None: in memory."""
    try:
        connection = sqlite3.connect(":memory:" if path is None else path, timeout=60.0)
    except sqlite3.Error as error:
        raise OSError(f"{path}: cannot be opened ({error})") from None
    try:
        with connection:
            connection.execute(_TABLE)
        yield FeatureCache(connection, trunk)
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{path}: damaged, or no cache of features ({error}); delete it") from None
    finally:
        connection.close()
