"""Who is who: an authority, certificates for the processes, identity keys for what a device signs.

`secret` reads and writes private keys, readable by their owner alone; `authority` issues, rotates and revokes;
`credentials` is what a process loads, and how it knows who is at the other end.
"""
