"""Codecs: from a feature to a short vector, and from the noisy sum of such vectors to a class.

codec        interface, registry and files
dense        trained through the noise; training: how
vote         the sum of local posteriors, without training
"""
