from pathlib import Path

import pytest
from scripts.extras import ROOT, built


@pytest.fixture(scope="session")
def code(tmp_path_factory) -> tuple[Path, Path]:
    """Wheel and sdist of airpool."""
    return built(ROOT, tmp_path_factory.mktemp("code"))


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> tuple[Path, Path]:
    """Wheel and sdist of airpool-models."""
    return built(ROOT / "packages" / "models", tmp_path_factory.mktemp("data"))
