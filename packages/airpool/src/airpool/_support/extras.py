"""Optional dependencies, airpool's other packages among them, and the command that installs each.

airpool without extras is the accountant alone.
"""

import re
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airpool._support.version import __version__

# Library → the package of airpool, with an extra, that brings it.
BROUGHT_BY = {
    "torch": "airpool[models]",
    "safetensors": "airpool[models]",
    "matplotlib": "airpool[plots]",
    "jinja2": "airpool[plots]",
    "clarabel": "airpool[design]",
    "onnxruntime": "airpool[int8]",
    "trimesh": "airpool[mesh]",
    "fast_simplification": "airpool-lab[mesh]",
    "dp_accounting": "airpool[accounting]",
    "PIL": "airpool[camera]",
    "cv2": "airpool[video]",
    "airpool_lab": "airpool-lab",
    "joblib": "airpool-lab",
    "onnx": "airpool-lab[bundle]",
    "pyarrow": "airpool-lab[parquet]",
    "ray": "airpool-lab[ray]",
    "sionna": "airpool-lab[sionna]",
    "sigmf": "airpool-lab[radio]",
    "zmq": "airpool-lab[radio]",
    "airpool_runtime": "airpool-runtime",
    "cryptography": "airpool-runtime",
    "grpc": "airpool-runtime",
    "starlette": "airpool-runtime",
    "uvicorn": "airpool-runtime",
    "prometheus_client": "airpool-runtime",
    "psycopg": "airpool-runtime[fleet]",
    "airpool_web": "airpool-web",
}


_CHECKOUT = Path(__file__).parents[3] / "pyproject.toml"
# Packages of airpool that no index has, and that another one asks for: they are named with it.
_BESIDE = {
    "airpool[models]": ("airpool-models",),
    "airpool[all]": ("airpool-models", "airpool-lab", "airpool-runtime", "airpool-web"),
    "airpool-lab": ("airpool-models",),
    "airpool-web": ("airpool-models", "airpool-lab", "airpool-runtime"),
}


def install(*wanted: str) -> str:
    """The command that installs packages of airpool, with their extras: of the checkout that runs, else of wheels.

    >>> install("airpool[plots]", "airpool[design]")
    "pip install -e './packages/airpool[plots,design]' in the checkout"
    >>> install("airpool-lab[ray]")
    "pip install -e ./packages/airpool-models -e './packages/airpool-lab[ray]' in the checkout"
    """
    extras: dict[str, list[str]] = {}
    for each in wanted:
        name, extra = _parts(each)
        for other in (*_BESIDE.get(each, ()), *_BESIDE.get(name, ())):
            extras.setdefault(other, [])
        extras.setdefault(name, []).extend([extra] if extra and extra not in extras.get(name, ()) else [])
    if _CHECKOUT.exists():
        named = [f"-e {_quoted(f'./packages/{name}{_listed(found)}')}" for name, found in extras.items()]
        return f"pip install {' '.join(named)} in the checkout"
    wheel = f"-{__version__}-py3-none-any.whl"
    named = [_quoted(f"{name.replace('-', '_')}{wheel}{_listed(found)}") for name, found in extras.items()]
    return f"pip install {' '.join(named)}, with the path of the wheel{'s' * (len(named) > 1)}"


def _listed(extras: list[str]) -> str:
    return f"[{','.join(extras)}]" if extras else ""


def _parts(wanted: str) -> tuple[str, str]:
    """Name and extra of a requirement; "": none."""
    found = re.fullmatch(r"([\w-]+)(?:\[(\w+)\])?", wanted)
    assert found
    return found[1], found[2] or ""


def _quoted(text: str) -> str:
    return f"'{text}'" if "[" in text else text


def advice(missing: ImportError, what: str) -> str | None:
    """Advice on what to install so that `what` works; None if the import failed for another reason.

    >>> advice(ModuleNotFoundError(name="torch"), "airpool.load")
    "airpool.load needs torch: pip install -e ./packages/airpool-models -e './packages/airpool[models]' in the checkout"
    """
    if ": pip install " in str(missing):  # the library has said it already
        return str(missing)
    library = (missing.name or "").partition(".")[0]
    if library == "scipy":
        return f"{what} needs scipy, which the install of a device leaves out: use airpool itself, not airpool-device"
    if library not in BROUGHT_BY or not isinstance(missing, ModuleNotFoundError):
        return None
    shown = library.replace("_", "-") if library.startswith("airpool_") else library
    return f"{what} needs {shown}: {install(BROUGHT_BY[library])}"


def load(module: str, what: str) -> Any:
    """A module that an extra, or another package of airpool, brings; a ValueError that says what to install for it."""
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        if (error.name or library).partition(".")[0] not in BROUGHT_BY:
            raise
        raise ValueError(advice(ModuleNotFoundError(name=error.name or library), what)) from None


def require(what: str, extras: Iterable[str]) -> None:
    """A ValueError that names all missing libraries of these extras, and one command that installs them."""
    wanted = [library for library, extra in BROUGHT_BY.items() if extra in set(extras) and not place(library)]
    if wanted:
        raise ValueError(f"{what} needs {', '.join(wanted)}: {install(*(BROUGHT_BY[each] for each in wanted))}")


def place(library: str) -> Path | None:
    """The folder of a library, found without importing it; None if it is missing."""
    try:
        spec = find_spec(library)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin or ".").parent if spec else None
