"""Codecs: from a feature to a short vector, and from the noisy sum of such vectors to a class."""
