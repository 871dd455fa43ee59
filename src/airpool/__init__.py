"""airpool: private collaborative inference over the air.

Names are loaded when they are first used, so that `import airpool` and `airpool epsilon` start at once.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from airpool.version import __version__

if TYPE_CHECKING:
    from airpool.account.calibration import calibrate
    from airpool.account.guarantee import PrivacyReport, guarantee
    from airpool.audit.whole import examined as audit
    from airpool.design import design
    from airpool.evaluate import Evaluation, evaluate
    from airpool.models.fitting import fit
    from airpool.models.pretrained import infer, load
    from airpool.network import Channel, Coin, Devices, Network, NetworkError, Ranking, Threshold
    from airpool.network_file import read as read_network
    from airpool.network_file import write as write_network
    from airpool.plan.search import plan
    from airpool.plugins import register
    from airpool.prediction import predict

__all__ = [
    "Channel",
    "Coin",
    "Devices",
    "Evaluation",
    "Network",
    "NetworkError",
    "PrivacyReport",
    "Ranking",
    "Threshold",
    "__version__",
    "audit",
    "calibrate",
    "design",
    "evaluate",
    "fit",
    "guarantee",
    "infer",
    "load",
    "plan",
    "predict",
    "read_network",
    "register",
    "write_network",
]

# Name → where it is defined.
_HOME = {
    **dict.fromkeys(("Channel", "Coin", "Devices", "Network", "NetworkError", "Ranking", "Threshold"), "network"),
    "Evaluation": "evaluate",
    "PrivacyReport": "account.guarantee",
    "audit": "audit.whole:examined",
    "calibrate": "account.calibration",
    "design": "design",
    "evaluate": "evaluate",
    "fit": "models.fitting",
    "guarantee": "account.guarantee",
    "infer": "models.pretrained",
    "load": "models.pretrained",
    "plan": "plan.search",
    "predict": "prediction",
    "read_network": "network_file:read",
    "register": "plugins",
    "write_network": "network_file:write",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'airpool' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    try:
        value = getattr(import_module(f"airpool.{module}"), attribute or name)
    except ImportError as error:
        from airpool.extras import advice

        raise ImportError(advice(error, f"airpool.{name}") or str(error), name=error.name) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """`airpool.plan` stays the function when the package `airpool.plan` is imported; likewise the other names."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
