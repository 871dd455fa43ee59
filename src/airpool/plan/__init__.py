"""The best network for a budget: given devices, power, channel and ε, which codec, scheme and noise to take."""

from airpool.plan.candidates import Candidate, candidates
from airpool.plan.search import Option, Plan, fewest_devices, plan, smallest_epsilon

__all__ = ["Candidate", "Option", "Plan", "candidates", "fewest_devices", "plan", "smallest_epsilon"]
