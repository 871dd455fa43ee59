"""Identities: an authority, certificates for the processes, identity keys for what a device signs.

`secret` reads and writes private keys, readable by their owner alone; `authority` issues, rotates and revokes;
`certificates` builds what it signs; `credentials` loads the keys of a process and identifies its peers; `reloaded`
reads them again when they change.
"""
