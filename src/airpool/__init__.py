"""airpool: private collaborative inference over the air.

Names are loaded when they are first used, so that `import airpool` and `airpool epsilon` start in a blink.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airpool.version import __version__

if TYPE_CHECKING:
    from airpool.account.calibration import calibrate
    from airpool.account.guarantee import PrivacyReport, guarantee
    from airpool.models.pretrained import infer, load
    from airpool.network import Channel, Coin, Devices, Network, NetworkError, Ranking, Scheme, Threshold
    from airpool.network_file import read as read_network
    from airpool.network_file import write as write_network

__all__ = [
    "Channel",
    "Coin",
    "Devices",
    "Network",
    "NetworkError",
    "PrivacyReport",
    "Ranking",
    "Scheme",
    "Threshold",
    "__version__",
    "calibrate",
    "guarantee",
    "infer",
    "load",
    "read_network",
    "write_network",
]

_HOME = {
    "Channel": ("network", "Channel"),
    "Coin": ("network", "Coin"),
    "Devices": ("network", "Devices"),
    "Network": ("network", "Network"),
    "NetworkError": ("network", "NetworkError"),
    "PrivacyReport": ("account.guarantee", "PrivacyReport"),
    "Ranking": ("network", "Ranking"),
    "Scheme": ("network", "Scheme"),
    "Threshold": ("network", "Threshold"),
    "calibrate": ("account.calibration", "calibrate"),
    "guarantee": ("account.guarantee", "guarantee"),
    "infer": ("models.pretrained", "infer"),
    "load": ("models.pretrained", "load"),
    "read_network": ("network_file", "read"),
    "write_network": ("network_file", "write"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'airpool' has no attribute {name!r}")
    module, attribute = _HOME[name]
    value = getattr(import_module(f".{module}", __name__), attribute)
    globals()[name] = value
    return value
