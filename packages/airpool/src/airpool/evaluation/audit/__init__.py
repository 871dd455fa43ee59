"""Attacks on the implementation, for a lower bound on ε (theory/guarantee.md §8), and measurements of what ε rests on.

whole.py       the audit of a network: games and measurements at one level of confidence
adversary.py   the attack on a network, through the code that transmits
directions.py  the same under errors, with I and Q, and with several antennas
path.py        the code that transmits, as an auditor hears it
claims.py      noise, clip, participation and sum, measured, with exact limits
release.py     independent reference: law of what an adversary sees, and its likelihood ratio
bound.py       the game: runs, scores and mistakes into a lower bound on ε; the figure
"""
