"""What all tests share: the same examples in every run, and an environment without surprises."""

import os
import resource
import sys
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, settings

# Some virtual machines advertise AMX and trap on it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("MPLBACKEND", "Agg")
# Tests run side by side already: threads within one would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test may fail because the machine is busy.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
untimed = settings.get_profile("untimed")
settings.register_profile("airpool", untimed, derandomize=True, max_examples=40)
# A longer search for counterexamples, new ones every time: pytest --hypothesis-profile=search
settings.register_profile("search", untimed, max_examples=2000)
settings.load_profile("airpool")


@pytest.fixture
def no_descriptors():
    """A context in which this process can open no file, as where strangers hold every descriptor."""

    @contextmanager
    def exhausted():
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

    return exhausted


@pytest.fixture
def refused(monkeypatch, capsys):
    """What a command that must end with status 2 says on stderr, through the real entry point."""
    from airpool import cli

    # No lines of progress in between, on a busy machine.
    monkeypatch.setattr("airpool._support.progress._LINE_AFTER", 3600)

    def entered(*arguments):
        monkeypatch.setattr(sys, "argv", ["airpool", *(str(a) for a in arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = capsys.readouterr()
        assert caught.value.code == 2
        assert out == ""
        assert "Traceback" not in err
        return err

    return entered


@pytest.fixture(scope="module")
def few_draws():
    """Laws that are sampled from few draws: a wider band, which holds all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airpool.privacy.sampled.DRAWS", 2**14)
        yield


@pytest.fixture(scope="module")
def few_cells():
    """Laws of strength in few cells, where many networks are looked at: wider bounds, which hold all the same."""
    from airpool.radio.strength import survival

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airpool.radio.strength._CELLS", (30, 60, 90))
        survival.cache_clear()
        yield
    survival.cache_clear()
