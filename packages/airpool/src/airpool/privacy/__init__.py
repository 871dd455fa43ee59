"""The privacy core: arrays in, ε out. NumPy and SciPy only, independent of radio and models.

aggregate   what the adversary receives, in arrays        device, object   ε of one feature; of all views at once
game        a curve δ(ε) per device, and its inverse      cover, removal   cover noise; a device that is removed
gaussian    the Gaussian mechanism                        leakage          scores: Schemes 2.1 and 2.2
floor, law, grid   distribution of the others' noise      compose          many inferences
calibrate   from a target ε to noise or weight            noise            live noise (discrete_gaussian)
evidence    statistics of an audit                        renyi, sums      streams: by moments; from below
unaligned, sampled   random strengths; directions         linear           an adversary that keeps every sample
odds        how often a guess at a secret is right        multiples        losses on the grid of another accountant

"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
