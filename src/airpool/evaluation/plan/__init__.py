"""The best network for a budget: given devices, power, channel and ε, which codec, scheme and noise to take.

candidates   of a budget
search       the best of them by simulation
frontier     accuracy against ε
"""

from airpool.evaluation.plan.candidates import Candidate, candidates
from airpool.evaluation.plan.search import Option, Plan, fewest_devices, plan, smallest_epsilon

__all__ = ["Candidate", "Option", "Plan", "candidates", "fewest_devices", "plan", "smallest_epsilon"]
