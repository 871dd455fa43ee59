"""The radio link: fading, power control, outage, channel knowledge, superposition. No privacy, no models.

Simulation code follows the array API (NumPy or torch, CPU or CUDA) and does not load SciPy. Distributions are computed
in float64 with NumPy and SciPy.
"""
