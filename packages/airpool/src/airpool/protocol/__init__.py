"""One inference, one module per step (Algorithms 1, 2 and 3 of the paper).

device.py       z = W f, guarded and clipped;  z̃ = τ w z + n;  x = (α/p) z̃
medium.py       y = Σ h x + m
server.py       ẑ = y/γ,  label = argmax J(D ẑ)
maps.py         encoder W, decoder D and classifier J: any function, torch module or matrix
randomness.py   where coins and noise come from: generators, or the operating system
simulation.py   device, medium and estimate together in bulk, with seeded noise
inference.py    features in, label and guarantee out; baselines
slots.py        several slots of an inference, until the server is sure
alone.py        one device by itself: its signal and its noisy score
live.py         one real device, with the operating system's noise
waveform.py     the same over OFDM samples
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
