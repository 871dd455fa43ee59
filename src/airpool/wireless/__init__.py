"""The radio: fading, power and the channel that adds the signals up. Knows nothing of privacy, nor of models.

What is deterministic is written once, against the array API (NumPy or torch, CPU or CUDA); laws and probabilities are
float64 NumPy and SciPy, which is loaded only for them, so that simulations run wherever torch does; only `draws` and
`sionna_models` know a backend.
"""
