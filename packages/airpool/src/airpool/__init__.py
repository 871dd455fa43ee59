"""airpool: private collaborative inference over the air.

Names are loaded when they are first used, so that `import airpool` and `airpool epsilon` start at once. For type
checkers they stand in __init__.pyi.
"""

from importlib import import_module
from typing import Any

from airpool._support.version import __version__

# Module → names, each with its name there where that differs.
_NAMES = {
    "_support.errors": "AirpoolError",
    "_support.plugins": "register",
    "account.calibration": "calibrate",
    "account.exchange": "Exchange exchange",
    "account.guarantee": "guarantee",
    "account.odds": "Odds odds",
    "account.report": "PrivacyReport",
    "evaluation.audit.whole": "audit:examined",
    "evaluation.design": "design",
    "evaluation.evaluate": "Evaluation evaluate",
    "evaluation.objects": "EncodedObjects held_out",
    "evaluation.plan.search": "plan",
    "models.images.fitting": "fit",
    "models.pretrained": "infer load",
    "network": "Adversary Channel Claim Coin Devices Network NetworkError Ranking Scheme Slots Threshold",
    "network.file": "read_claim read_network:read write_network:write",
}
_HOME = {}
for _module, _names in _NAMES.items():
    for _name in _names.split():
        _HOME[_name.partition(":")[0]] = _module, _name.rpartition(":")[2]
__all__ = ["__version__", *_HOME]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'airpool' has no attribute {name!r}")
    module, attribute = _HOME[name]
    try:
        value = getattr(import_module(f"airpool.{module}"), attribute)
    except ImportError as error:
        from airpool._support.extras import advice

        raise ImportError(advice(error, f"airpool.{name}") or str(error), name=error.name) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
