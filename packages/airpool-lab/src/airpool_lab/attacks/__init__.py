"""Attacks on what a network sends, each beside the bound of its position (docs/results/attacks.md).

positions    the six places of an adversary, and the bound of each
hearing      the signals that it receives there, from the code that transmits
result       success of an attack, its binomial error, and whether it exceeds the bound
attack       the registry: an attack is one file
attribute    side, class and rarity, and who is asked about them
attackers    those that learn, and the likelihood, by which a gallery of known views paints and names without training
reconstruct  a picture of the view, by a trained decoder
identify     the object, in a gallery of renders
targets      the views that both attack, and what is sent of them
likeness     PSNR, SSIM and a perceptual distance
antipodal    the yes-or-no question that attains the bound; it finds planted faults
"""
