"""Ordinary cameras: photographs or videos in, a fitted model out (`airpool.fit(images=...)`).

fitting      `fit`, of pictures or of features            trunk            the trunk that ships, or a model's own
pictures     pictures of objects by cameras               folder           those of a folder, or of a CSV file
videos       frames of videos, by time                    features         what a trunk makes of them, kept on disk
"""
