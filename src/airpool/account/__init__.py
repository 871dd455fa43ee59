"""The account: network in, privacy report out.

guarantee.py     the exact (ε, δ) of every device        report.py        what each ε means; table, figure, JSON
calibration.py   the least noise for a target ε          assumptions.py   what each ε assumes, as sentences
budget.py        one ε for score and feature              games.py         what each scheme leaks: its game
"""
