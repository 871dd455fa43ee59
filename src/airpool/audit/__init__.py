"""Attacks on the implementation, for a lower bound on ε (spec §3.9).

adversary.py   the attack on a network, through the code that transmits
directions.py  the same under errors, with I and Q, and with several antennas
release.py     independent reference: law of what an adversary sees, and its likelihood ratio
bound.py       the game: runs, scores and mistakes into a lower bound on ε
tradeoff.py    the figure
"""
