"""A faster start: parts of NumPy that SciPy merely names are loaded when they are used, which is never."""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec


def quick() -> None:
    """Puts off `numpy.f2py` and `numpy.testing`, an eighth of the time that `airpool epsilon` takes.

    SciPy copies all public names of NumPy (`from numpy import *`), which loads both. A lazy module stands for each
    (the recipe of importlib's documentation): it loads itself on first use. Nothing happens where SciPy is loaded.
    """
    if "scipy" in sys.modules:
        return
    import numpy as np

    for name in ("f2py", "testing"):
        spec = find_spec(f"numpy.{name}")
        if spec is None or spec.loader is None or spec.name in sys.modules:
            continue
        spec.loader = LazyLoader(spec.loader)
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(module)
        setattr(np, name, module)
