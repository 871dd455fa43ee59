"""The same noisy sum without a radio: secure aggregation (Bonawitz et al. 2017) as pure state machines.

shamir.py      t-of-n shares of a secret
keys.py        identities, channel keys, agreed secrets
masks.py       their keys and keystreams, and what a device adds to its values
group.py       what a device agrees to; one inference, its devices and slots, bound together by a hash
messages.py    bytes in, bytes out
client.py      one device in one inference
server.py      the server in one inference, and which devices did not follow the protocol
rehearsal.py   all of them in one process

No transport, no clock, no torch: the caller of client and server decides how bytes travel. What is proven, and against
whom: docs/howto/secure-sum.md.
"""
