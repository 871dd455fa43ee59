"""Attacks on what a network sends, each beside the bound of its position (docs/results/attacks.md).

positions    the six places of an adversary, and the bound of each
hearing      the signals that it receives there, from the code that transmits
result       success of an attack, its binomial error, and whether it exceeds the bound
attack       the registry: an attack is one file
attribute    side, class and rarity; questions: whom it asks; attackers: those that learn, and the likelihood
reconstruct  a picture of the view, by a trained decoder; inversion: by optimisation through the trunk
gallery      pictures and names by the likelihood of known views, without training
identify     the object, in a gallery of renders; targets: the views that both attack
scenes       renders and maps of training and held-out objects; signals: what is sent of them
likeness     PSNR, SSIM and a perceptual distance
antipodal    the yes-or-no question that attains the bound; it finds planted faults
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
