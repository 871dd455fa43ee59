"""What can be known of an inference's quality without running it. NumPy, float64; knows nothing of models."""
