"""A plug-in source for the distinguishing game: a full feature in odd inferences, none in even ones."""

import numpy as np

R = 8


def alternating(number):
    latent = np.zeros(R)
    latent[0] = float(number % 2)
    return latent
