"""For tests and for the examples in docstrings."""

import sys
from collections.abc import Iterator

import pytest

from airpool._support import plugins


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
