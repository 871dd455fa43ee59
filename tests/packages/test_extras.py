"""Each package and each extra alone, in environments of nothing else: one real use each, and what lacks is named."""

import tomllib
from importlib.metadata import PackageNotFoundError

import pytest

from scripts.extras import PACKAGES, ROOT, USES, closure, tried


def extras(package):
    text = (ROOT / "packages" / package / "pyproject.toml").read_text("utf-8")
    return tomllib.loads(text)["project"].get("optional-dependencies", {})


def test_every_package_and_every_extra_has_a_use():
    wanted = {f"{package}[{extra}]" for package in PACKAGES for extra in extras(package)}
    assert USES.keys() == wanted | {*PACKAGES} - {"airpool-models"}


@pytest.mark.check
def test_the_closure_of_an_extra_is_that_of_its_requirements(wheels):
    bare = closure(wheels, "airpool")
    assert {"numpy", "scipy", "typer", "rich"} <= bare
    assert not {"torch", "matplotlib", "cryptography"} & bare
    assert closure(wheels, "airpool[models]") - bare >= {"torch", "airpool-models"}
    assert not {"torch", "airpool-lab"} & closure(wheels, "airpool-runtime")
    assert closure(wheels, "airpool-web") >= {"airpool", "airpool-models", "airpool-lab", "airpool-runtime", "torch"}


@pytest.mark.check
@pytest.mark.parametrize("wanted", USES)
def test_an_install_does_its_work_and_names_what_another_brings(wanted, wheels, tmp_path):
    try:
        tried(wanted, wheels, tmp_path, pip=False)
    except PackageNotFoundError as missing:
        pytest.skip(f"{missing} is not installed here")
