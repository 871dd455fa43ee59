"""Schemes: which devices transmit (docs/theory/selection.md). Each device's draw is protocol.device.taking_part.

scheme           the base class, and the open set    scores           uncertainty; schemes that choose by it
coin             Scheme 1
threshold        Scheme 2.1: own threshold           ranking          Scheme 2.2: ranking server, and its law
"""
