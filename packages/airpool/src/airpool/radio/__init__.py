"""The radio link: fading, power control, outage, channel knowledge. No privacy, no models.

Sampling follows the array API (NumPy, torch) and loads no SciPy; laws are computed in float64 with SciPy.

laws, fading     fading laws; gains drawn from them       link             γ, outage, signal and noise level
power, moments   power control; averages over fading      strength         imperfect channel knowledge: its law
beam             a server with several antennas
"""
