"""The privacy core: arrays in, ε out. NumPy and SciPy only, independent of radio and models.

aggregate   what the adversary receives, in arrays        device           ε of one feature; of all views at once
leak        what is seen, as expressions; δ(ε)            epsilon          ε of any leak
together    uses of several leaks; a ledger's total     stored           leaks as text, and back
draws       a channel that stays, drawn a few times       cover, removal   cover noise; a device that is removed
gaussian    the Gaussian mechanism                        leakage          scores: Schemes 2.1 and 2.2
floor, law, grid   distribution of the others' noise      compose          many inferences
calibrate   from a target ε to noise or weight            noise            live noise (discrete_gaussian)
renyi, sums streams: by moments; from below               odds             how often a guess at a secret is right
unaligned, sampled   random strengths; directions
"""
