"""Selection by scores: Schemes 2.1 (own threshold) and 2.2 (ranking server), docs/selection.md.

Scores, how often devices are selected, and the ranking server. Each device's draw is protocol.device.taking_part.
"""
