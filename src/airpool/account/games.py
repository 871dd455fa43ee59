"""Leakage of a scheme: the distinguishing game of one inference, by the scheme's type.

Coins do not depend on the features, so that the game is that of the sum. Scores bring games of their own.
"""

from typing import assert_never

import numpy as np

from airpool.account.stream import COMPOSED_CELLS
from airpool.network import Network, Ranking, Scheme, Threshold, scheme_rules, scored
from airpool.privacy import device, leakage
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.game import Game
from airpool.schemes.scores import score_range


def game(network: Network, received: Aggregate, *, public_score: bool = False) -> Game:
    """The distinguishing game of one inference: a curve δ(ε) for each kind of device, by scheme.

    public_score: against a score in the middle of the range, which no view decides (Scheme 2.2; account.odds).
    """
    cells = None if network.uses == 1 else COMPOSED_CELLS
    if not scheme_rules(network.scheme).scored:
        return device.game(received, network.neighbours, cells=cells)
    scheme = scored(network.scheme)
    match scheme:
        case Threshold():
            return leakage.threshold_game(received, _decision(scheme), network.neighbours, cells=cells)
        case Ranking():
            low, high = map(np.asarray, score_range(scheme))
            return leakage.ranking_game(
                received,
                score_range=(high - low) / (2 if public_score else 1),
                score_noise_std=np.asarray(scheme.score_noise_std),
                num_selected=scheme.num_selected,
                neighbours=network.neighbours,
            )
        case _:
            assert_never(scheme)


def decision(scheme: Scheme) -> leakage.Decision | None:
    """A device's own decision by its score (Scheme 2.1); None where no device decides by a score."""
    if not scheme_rules(scheme).scored:
        return None
    by_score = scored(scheme)
    match by_score:
        case Threshold():
            return _decision(by_score)
        case Ranking():
            return None
        case _:
            assert_never(by_score)


def _decision(scheme: Threshold) -> leakage.Decision:
    low, high = map(np.asarray, score_range(scheme))
    return leakage.Decision(low, high, np.asarray(scheme.score_noise_std), scheme.threshold)
