from pathlib import Path

import pytest

from scripts.extras import wheels_of


@pytest.fixture(scope="session")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """The wheel of each package by its name."""
    return wheels_of(tmp_path_factory.mktemp("wheels"))
