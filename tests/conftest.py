"""What all tests share: the same examples in every run, and an environment without surprises."""

import os
import sys

import pytest
from hypothesis import settings

# Some virtual machines advertise AMX and trap on it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("MPLBACKEND", "Agg")
# Tests run side by side already: threads within one would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("airpool", deadline=None, derandomize=True, max_examples=40)
# A longer search for counterexamples, new ones every time: pytest --hypothesis-profile=search
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("airpool")


@pytest.fixture
def refused(monkeypatch, capsys):
    """What a command that must end with status 2 says on stderr, through the real entry point."""
    from airpool import cli

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
