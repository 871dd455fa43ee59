"""Design: weights and clip norms for devices that ask for different amounts of privacy (spec §6).

Everything here is computed from calibration data and public numbers, never from the inference at hand: a weight that
depended on a device's feature would tell about it.
"""
