"""Waveforms: symbols to samples and back.

frame.py        OFDM with cyclic prefix and noise guards: symbols ↔ samples
propagation.py  what the samples go through: multipath, timing, carrier offset, phase noise, amplifier
uplink.py       downlink pilot → estimate → pre-equalised uplink, all devices at once → symbols; what of it is measured
recording.py    samples as files and streams
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
