"""The accountant and each extra alone, in environments of nothing else: one real use each, and what lacks is named."""

import tomllib
from importlib.metadata import PackageNotFoundError

import pytest
from scripts.extras import ROOT, USES, closure, tried

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_extra_has_a_use():
    assert USES.keys() == {"", *PROJECT["optional-dependencies"]} - {"dev"}


@pytest.mark.check
def test_the_closure_of_an_extra_is_that_of_its_requirements(code):
    bare = closure(code[0], "")
    assert {"numpy", "scipy", "typer", "rich"} <= bare
    assert not {"torch", "matplotlib", "cryptography"} & bare
    assert closure(code[0], "ledger") - bare >= {"cryptography", "cffi"}


@pytest.mark.check
@pytest.mark.parametrize("extra", USES, ids=lambda extra: extra or "none")
def test_an_extra_alone_does_its_work_and_names_what_another_brings(extra, code, data, tmp_path):
    try:
        tried(extra, (code[0], data[0]), tmp_path, pip=False)
    except PackageNotFoundError as missing:
        pytest.skip(f"{missing} is not installed here")
