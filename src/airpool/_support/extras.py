"""Optional dependencies and the extra that installs each; airpool without extras is the accountant alone."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airpool._support.version import __version__

EXTRA_OF = {
    "torch": "models",
    "safetensors": "models",
    "matplotlib": "plots",
    "jinja2": "plots",
    "clarabel": "design",
    "onnxruntime": "int8",
    "onnx": "bundle",
    "openvino": "openvino",
    "trimesh": "mesh",
    "fast_simplification": "mesh",
    "pyarrow": "parquet",
    "ray": "ray",
    "sionna": "sionna",
    "sigmf": "radio",
    "zmq": "radio",
    "cryptography": "ledger",
    "psycopg": "fleet",
    "dp_accounting": "accounting",
    "grpc": "runtime",
    "starlette": "runtime",
    "uvicorn": "runtime",
    "prometheus_client": "runtime",
    "PIL": "camera",
    "cv2": "video",
}


_CHECKOUT = Path(__file__).parents[3] / "pyproject.toml"
_WITH_DATA = {"models", "bundle", "web", "all"}  # they ask for airpool-models, which no index has


def install(*names: str) -> str:
    """The command that installs extras: of the checkout that runs, else of a wheel.

    >>> install("plots", "design")
    "pip install -e '.[plots,design]' in the checkout"
    >>> install("models")
    "pip install -e ./packages/models -e '.[models]' in the checkout"
    """
    data, extras = not _WITH_DATA.isdisjoint(names), ",".join(dict.fromkeys(names))
    if _CHECKOUT.exists():
        return f"pip install {'-e ./packages/models ' * data}-e '.[{extras}]' in the checkout"
    wheels = [f"airpool_models-{__version__}-py3-none-any.whl"] * data + [
        f"'airpool-{__version__}-py3-none-any.whl[{extras}]'"
    ]
    return f"pip install {' '.join(wheels)}, with the path of the wheel{'s' * data}"


def install_data() -> str:
    """The command that installs the shipped models alone: they need no torch to be read.

    >>> install_data()
    'pip install ./packages/models in the checkout'
    """
    if _CHECKOUT.exists():
        return "pip install ./packages/models in the checkout"
    return f"pip install airpool_models-{__version__}-py3-none-any.whl, with the path of the wheel"


def advice(missing: ImportError, what: str) -> str | None:
    """Advice on what to install so that `what` works; None if the import failed for another reason.

    >>> advice(ModuleNotFoundError(name="torch"), "airpool.load")
    "airpool.load needs torch: pip install -e ./packages/models -e '.[models]' in the checkout"
    """
    if ": pip install " in str(missing):  # the library has said it already
        return str(missing)
    library = (missing.name or "").partition(".")[0]
    if library == "scipy":
        return f"{what} needs scipy, which the install of a device leaves out: use airpool itself, not airpool-device"
    extra = EXTRA_OF.get(library) if isinstance(missing, ModuleNotFoundError) else None
    return f"{what} needs {library}: {install(extra)}" if extra else None


def load(library: str, what: str) -> Any:
    """The module of a library that an extra brings; a ValueError that says what to install if it is missing."""
    try:
        return import_module(library)
    except ImportError:
        package = library.partition(".")[0]
        raise ValueError(f"{what} needs {package}: {install(EXTRA_OF[package])}") from None


def require(what: str, extras: Iterable[str]) -> None:
    """A ValueError that names all missing libraries of these extras, and one command that installs them."""
    wanted = [library for library, extra in EXTRA_OF.items() if extra in set(extras) and not place(library)]
    if wanted:
        raise ValueError(f"{what} needs {', '.join(wanted)}: {install(*(EXTRA_OF[each] for each in wanted))}")


def place(library: str) -> Path | None:
    """The folder of a library, found without importing it; None if it is missing."""
    try:
        spec = find_spec(library)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin or ".").parent if spec else None
