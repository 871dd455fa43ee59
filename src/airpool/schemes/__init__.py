"""Schemes: which devices transmit (docs/theory/selection.md). Each device's draw is protocol.device.taking_part.

coin             Scheme 1                                 scores           uncertainty of a device
threshold        Scheme 2.1: own threshold                soft             shorter latents of uncertain devices
ranking          Scheme 2.2: ranking server               participation    how often; quadrature: of a ranking
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
