"""A network as plain frozen data (`network`), who transmits (`choosing`), the checks of its fields (`rules`), its file
(`file`), the rules of each access (`access`), the relation of neighbours (`neighbours`), laws of fading (`fading`) and
schemes by name (`scheme`), slots of an inference (`slots`), the plug-ins it depends on (`plugins`), its shape in a
notebook (`in_words`), and units."""

from airpool.network.access import ACCESSES, Access, AccessRules
from airpool.network.choosing import (
    SCHEME_SETTINGS,
    Coin,
    Ranking,
    Scheme,
    Score,
    Scored,
    ScoreRule,
    Threshold,
    named_scheme,
    scored,
)
from airpool.network.neighbours import Neighbours
from airpool.network.network import (
    Adversary,
    Channel,
    Devices,
    Network,
    PowerRule,
    require_network,
)
from airpool.network.plugins import NetworkPlugin, network_plugins
from airpool.network.rules import NetworkError
from airpool.network.scheme import SCHEMES, scheme_rules
from airpool.network.slots import Slots, require_one_slot

__all__ = [
    "ACCESSES",
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
    "Threshold",
    "named_scheme",
    "network_plugins",
    "require_network",
    "require_one_slot",
    "scheme_rules",
    "scored",
]
