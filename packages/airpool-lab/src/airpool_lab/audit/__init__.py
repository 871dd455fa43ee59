"""Audits beyond that of the library (airpool.evaluation.audit).

adaptive     inferences of several slots, against an adversary that adapts, and its strategies
energy       the attack on the paper's claim about removal, by received energy, watched look by look
"""
