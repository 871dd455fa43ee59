"""Sensors of your own: features in, a fitted model out (`airpool.fit`)."""
