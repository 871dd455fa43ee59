"""One inference, one module per step (Algorithms 1, 2 and 3 of the paper).

device.py       z = W f, guarded and clipped;  z̃ = τ w z + n;  x = (α/p) z̃
medium.py       y = Σ h x + m
server.py       ẑ = y/γ,  label = argmax J(D ẑ)
maps.py         encoder W, decoder D and classifier J: any function, torch module or matrix
link.py         what channel and power make of a network: γ, outage, level
simulation.py   device, medium and estimate together in bulk, with seeded noise
inference.py    features in, label and guarantee out; baselines
live.py         one real device, with the operating system's noise
"""
