"""airpool: private collaborative inference over the air.

Names are loaded when they are first used, so that `import airpool` and `airpool epsilon` start at once.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airpool._support.rooms import FunctionNames, module_of
from airpool._support.version import __version__

if TYPE_CHECKING:
    from airpool._support.errors import AirpoolError
    from airpool._support.plugins import register
    from airpool.account.calibration import calibrate
    from airpool.account.exchange import Exchange, exchange
    from airpool.account.guarantee import PrivacyReport, guarantee
    from airpool.account.guesses import Odds
    from airpool.account.odds import odds
    from airpool.evaluation.audit.whole import examined as audit
    from airpool.evaluation.design import design
    from airpool.evaluation.evaluate import Evaluation, evaluate
    from airpool.evaluation.objects import EncodedObjects, held_out
    from airpool.evaluation.plan.search import plan
    from airpool.evaluation.prediction import predict
    from airpool.models.images.fitting import fit
    from airpool.models.pretrained import infer, load
    from airpool.network import Adversary, Channel, Coin, Devices, Network, NetworkError, Ranking, Slots, Threshold
    from airpool.network.file import read as read_network
    from airpool.network.file import write as write_network

__all__ = [
    "Adversary",
    "AirpoolError",
    "Channel",
    "Coin",
    "Devices",
    "EncodedObjects",
    "Evaluation",
    "Exchange",
    "Network",
    "NetworkError",
    "Odds",
    "PrivacyReport",
    "Ranking",
    "Slots",
    "Threshold",
    "__version__",
    "audit",
    "calibrate",
    "design",
    "evaluate",
    "exchange",
    "fit",
    "guarantee",
    "held_out",
    "infer",
    "load",
    "odds",
    "plan",
    "predict",
    "read_network",
    "register",
    "write_network",
]

# Name → where it is defined.
_HOME = {
    **dict.fromkeys(("Adversary", "Channel", "Coin", "Devices"), "network"),
    **dict.fromkeys(("Network", "NetworkError", "Ranking", "Slots", "Threshold"), "network"),
    "AirpoolError": "_support.errors",
    "EncodedObjects": "evaluation.objects",
    "Evaluation": "evaluation.evaluate",
    "Exchange": "account.exchange",
    "Odds": "account.guesses",
    "PrivacyReport": "account.guarantee",
    "audit": "evaluation.audit.whole:examined",
    "calibrate": "account.calibration",
    "design": "evaluation.design",
    "evaluate": "evaluation.evaluate",
    "exchange": "account.exchange",
    "fit": "models.images.fitting",
    "guarantee": "account.guarantee",
    "held_out": "evaluation.objects",
    "infer": "models.pretrained",
    "load": "models.pretrained",
    "odds": "account.odds",
    "plan": "evaluation.plan.search",
    "predict": "evaluation.prediction",
    "read_network": "network.file:read",
    "register": "_support.plugins",
    "write_network": "network.file:write",
}

sys.meta_path.append(FunctionNames("airpool", _HOME))


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        return module_of("airpool", name)
    module, _, attribute = _HOME[name].partition(":")
    try:
        value = getattr(import_module(f"airpool.{module}"), attribute or name)
    except ImportError as error:
        from airpool._support.extras import advice

        raise ImportError(advice(error, f"airpool.{name}") or str(error), name=error.name) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
