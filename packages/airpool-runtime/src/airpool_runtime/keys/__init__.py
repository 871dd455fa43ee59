"""Identities: an authority, certificates for the processes, identity keys for what a device signs.

`secret` reads and writes private keys, readable by their owner alone; `authority` issues, rotates and revokes;
`credentials` loads the keys of a process, again when they change, and identifies its peers.
"""
