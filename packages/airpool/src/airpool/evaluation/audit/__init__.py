"""Attacks on the implementation, for a lower bound on ε (theory/guarantee.md §8), and measurements of what ε rests on.

whole.py       the audit of a network: games and measurements at one level of confidence
adversary.py   the attack on a network, through the code that transmits
energy.py      the attack on the paper's claim about removal, by received energy
looks.py       one game after another, each larger, at one level of confidence
directions.py  the same under errors, with I and Q, and with several antennas
adaptive.py    the same over the slots of an inference, against an adversary that adapts
transcript.py  its game, slot by slot; moves.py: its strategies
path.py        the code that transmits, as an auditor hears it
claims.py      noise, clip, participation and sum, measured; measured.py, limits.py: exact limits
release.py     independent reference: law of what an adversary sees, and its likelihood ratio
bound.py       the game: runs, scores and mistakes into a lower bound on ε
question.py    a yes-or-no question about one view, against its odds
tradeoff.py    the figure
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
