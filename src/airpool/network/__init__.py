"""A network as plain frozen data (`network`), the checks of its fields (`rules`), its file (`file`), the rules of each
access (`access`), the relation of neighbours (`neighbours`), names of fading laws (`fading`) and schemes (`scheme`),
slots of an inference (`slots`), the plug-ins it depends on (`plugins`), what a notebook
shows (`in_words`), and units."""

from airpool.network.access import ACCESSES, Access, AccessRules
from airpool.network.neighbours import Neighbours
from airpool.network.network import (
    FADING,
    SCHEME_SETTINGS,
    Adversary,
    Channel,
    Coin,
    Devices,
    Network,
    NetworkError,
    PowerRule,
    Ranking,
    Scheme,
    Score,
    Scored,
    ScoreRule,
    Symbols,
    Threshold,
    named_scheme,
    require_network,
    scored,
)
from airpool.network.plugins import NetworkPlugin, network_plugins
from airpool.network.scheme import SCHEMES, scheme_rules
from airpool.network.slots import Slots, StoppingRule, require_one_slot

__all__ = [
    "ACCESSES",
    "FADING",
    "SCHEMES",
    "SCHEME_SETTINGS",
    "Access",
    "AccessRules",
    "Adversary",
    "Channel",
    "Coin",
    "Devices",
    "Neighbours",
    "Network",
    "NetworkError",
    "NetworkPlugin",
    "PowerRule",
    "Ranking",
    "Scheme",
    "Score",
    "ScoreRule",
    "Scored",
    "Slots",
    "StoppingRule",
    "Symbols",
    "Threshold",
    "named_scheme",
    "network_plugins",
    "require_network",
    "require_one_slot",
    "scheme_rules",
    "scored",
]
