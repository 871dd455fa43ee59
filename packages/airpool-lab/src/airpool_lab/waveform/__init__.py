"""Waveforms: symbols to samples and back.

frame.py        OFDM with cyclic prefix and noise guards: symbols ↔ samples
uplink.py       downlink pilot → estimate → pre-equalised uplink, all devices at once → symbols; multipath, timing,
                carrier offset, phase noise and amplifier on the way, and what of it is measured
recording.py    samples as files and streams
reception.py    devices and server over samples in the place of symbols, and ε of all samples
"""
