"""A network as plain frozen data (`network`), what is asked of it (`claim`), the ways in which signals reach the server
(`access`), laws of fading by name (`fading`), and its file (`file`).
"""

from airpool._support.rules import NetworkError
from airpool.network.access import ACCESSES, Access, AccessName
from airpool.network.claim import Claim, Neighbours, require_claim
from airpool.network.network import (
    Adversary,
    Channel,
    Devices,
    Network,
    NetworkPlugin,
    PowerRule,
    Slots,
    network_plugins,
    require_network,
    require_one_slot,
)
from airpool.schemes.coin import Coin
from airpool.schemes.ranking import Ranking
from airpool.schemes.scheme import SCHEMES, Scheme, named_scheme
from airpool.schemes.scores import Score, Scored, ScoreRule, scored
from airpool.schemes.threshold import Threshold

__all__ = [
    "ACCESSES",
    "SCHEMES",
    "Access",
    "AccessName",
    "Adversary",
    "Channel",
    "Claim",
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
    "require_claim",
    "require_network",
    "require_one_slot",
    "scored",
]
