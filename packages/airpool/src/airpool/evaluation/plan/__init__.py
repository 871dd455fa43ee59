"""The best network for a budget: given devices, power, channel and ε, which codec, scheme and noise to take.

candidates   of a budget
search       the best of them by simulation; accuracy against ε
lifetime     the cap, slots and threshold for a total budget
"""

from airpool.evaluation.plan.candidates import Candidate, candidates
from airpool.evaluation.plan.lifetime import LifePlan, Wanted, Way, life_plan
from airpool.evaluation.plan.search import Option, Plan, fewest_devices, plan, smallest_epsilon

__all__ = [
    "Candidate",
    "LifePlan",
    "Option",
    "Plan",
    "Wanted",
    "Way",
    "candidates",
    "fewest_devices",
    "life_plan",
    "plan",
    "smallest_epsilon",
]
