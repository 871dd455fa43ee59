"""Who transmits when scores decide: Schemes 2.1 (own threshold) and 2.2 (ranking server), spec §4."""
