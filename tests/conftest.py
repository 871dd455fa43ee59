"""What all tests share: the same examples in every run, and an environment without surprises."""

import os

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
