"""The radio link: fading, power control, outage, channel knowledge. No privacy, no models.

Sampling follows the array API (NumPy, torch) and loads no SciPy; laws are computed in float64 with SciPy.
"""
