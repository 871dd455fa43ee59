"""What the air leaks: arrays in, ε out. NumPy and SciPy only; knows nothing of radio or of models."""
