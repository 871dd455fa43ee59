"""What all tests share, and examples in docstrings: the same draws in every run, an environment without surprises."""

import importlib
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from airpool._support import plugins

# Some virtual machines advertise AMX and trap on it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("MPLBACKEND", "Agg")
# Tests run side by side already: threads within one would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The folders called tests are one namespace. Imported here, it is whole whichever file pytest collects first.
_ROOT = Path(__file__).parent
for _tests in (_ROOT / "tests", *_ROOT.glob("packages/*/tests")):
    for _folder in (_tests, *(path for path in _tests.rglob("*") if path.is_dir() and any(path.glob("*.py")))):
        importlib.import_module(".".join(_folder.relative_to(_tests.parent).parts))

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


@pytest.fixture(autouse=True)
def registries_stay_as_they_were() -> Iterator[None]:
    """Takes out again what a test or an example registers."""

    def added() -> list[dict]:
        places = (place.split(":") for place in plugins.REGISTRIES.values())
        found = (getattr(sys.modules[module], name) for module, name in places if module in sys.modules)
        return [plugins._loaded, *(registry._added for registry in found)]

    before = {id(each): dict(each) for each in added()}
    yield
    for each in added():
        if each != (kept := before.get(id(each), {})):
            each.clear()
            each.update(kept)
            if "airpool.radio.fading" in sys.modules:
                sys.modules["airpool.radio.fading"]._law.cache_clear()  # laws that were checked, by name
