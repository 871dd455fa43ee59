"""Weights and clip norms for devices with different privacy targets (spec §6).

Computed from calibration data and public numbers only. Weights that depended on a feature at inference would leak it.
"""
