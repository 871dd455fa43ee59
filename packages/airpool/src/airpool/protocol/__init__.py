"""One inference, one module per step (Algorithms 1, 2 and 3 of the paper).

device.py       z = W f, guarded and clipped;  z̃ = τ w z + n;  x = (α/p) z̃; where coins and noise come from
medium.py       y = Σ h x + m
server.py       ẑ = y/γ,  label = argmax J(D ẑ)
simulation.py   device, medium and estimate together in bulk, with seeded noise
inference.py    features in, label and guarantee out; baselines
slots.py        several slots of an inference, until the server is sure
alone.py        one device by itself: its signal and its noisy score
live.py         one real device, with the operating system's noise
ring.py         values as integers, for a secure sum; traffic.py: the bytes of its messages, and its limits
"""
