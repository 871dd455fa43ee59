import pytest

from airpool_runtime.secure.rehearsal import sessions


@pytest.fixture(scope="session")
def fleet():
    """Fifty devices that know each other; a test takes as many as it needs."""
    return sessions(50)
