"""Optional dependencies and the extra that installs each; `pip install airpool` is the accountant alone."""

from importlib import import_module
from typing import Any

EXTRA_OF = {
    "torch": "models",
    "safetensors": "models",
    "matplotlib": "plots",
    "jinja2": "plots",
    "clarabel": "design",
    "openvino": "int8",
    "trimesh": "mesh",
    "fast_simplification": "mesh",
    "pyarrow": "parquet",
    "ray": "ray",
    "sionna": "sionna",
    "sigmf": "radio",
    "zmq": "radio",
    "cryptography": "ledger",
    "psycopg": "fleet",
    "grpc": "runtime",
    "starlette": "runtime",
    "uvicorn": "runtime",
    "prometheus_client": "runtime",
    "cv2": "camera",
}


def advice(missing: ImportError, what: str) -> str | None:
    """Advice on what to install so that `what` works; None if the import failed for another reason.

    >>> advice(ModuleNotFoundError(name="torch"), "airpool.load")
    "airpool.load needs torch: pip install 'airpool[models]'"
    """
    if "pip install 'airpool[" in str(missing):  # the library has said it already
        return str(missing)
    library = (missing.name or "").partition(".")[0]
    extra = EXTRA_OF.get(library) if isinstance(missing, ModuleNotFoundError) else None
    return f"{what} needs {library}: pip install 'airpool[{extra}]'" if extra else None


def load(library: str, what: str) -> Any:
    """The module of a library that an extra brings; a ValueError that says what to install if it is missing."""
    try:
        return import_module(library)
    except ImportError:
        raise ValueError(f"{what} needs {library}: pip install 'airpool[{EXTRA_OF[library]}]'") from None
