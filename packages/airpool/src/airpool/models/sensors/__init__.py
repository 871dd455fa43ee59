"""Sensors of your own: features in, a fitted model out (`airpool.fit`).

fitting      `fit`; the class and group of each object, and splits by group
fitted       the model, its local heads and its file
stacking     sensors of several widths as one tensor
"""
