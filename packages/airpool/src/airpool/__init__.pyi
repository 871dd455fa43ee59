from airpool._support.errors import AirpoolError
from airpool._support.plugins import register
from airpool._support.version import __version__
from airpool.account.calibration import calibrate
from airpool.account.exchange import Exchange, exchange
from airpool.account.guarantee import guarantee
from airpool.account.odds import Odds, odds
from airpool.account.report import PrivacyReport
from airpool.evaluation.audit.whole import examined as audit
from airpool.evaluation.design import design
from airpool.evaluation.evaluate import Evaluation, evaluate
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.evaluation.plan.search import plan
from airpool.models.images.fitting import fit
from airpool.models.pretrained import infer, load
from airpool.network import (
    Adversary,
    Channel,
    Claim,
    Coin,
    Devices,
    Network,
    NetworkError,
    Ranking,
    Scheme,
    Slots,
    Threshold,
)
from airpool.network.file import read as read_network
from airpool.network.file import read_claim
from airpool.network.file import write as write_network

__all__ = [
    "Adversary",
    "AirpoolError",
    "Channel",
    "Claim",
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
    "Scheme",
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
    "read_claim",
    "read_network",
    "register",
    "write_network",
]
