"""The quality of an inference without running it: mean square error, margins, proven accuracy. NumPy, float64."""
