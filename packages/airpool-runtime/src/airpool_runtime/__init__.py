"""The running system: devices, air, server and ranking server as processes (extra `runtime`; docs/howto/runtime.md).

medium.py      what a device and a server may do on a medium; neither knows which one it uses
messages.py    what they say to each other: announcements, signals, sums, refusals; to gRPC and back
air.py         the hub: turns of slots; the end of each: a sum or none, and whom that counts against
standing.py    the devices at a hub: connected, ready, stalled, set aside
under_way.py   inferences of several slots: names of the slots, what is reserved for those to come
radio_medium.py   the air as a medium: gains, the sum, the receiver's noise; what is rejected
secure_medium.py  the secure sum as one: its hub, its slots, the port of a device, the roster
loopback.py    the medium in one process
remote.py      the medium over gRPC, as devices and server use it; service.py: its other end; wire.proto: its messages
transport.py   sockets of gRPC and HTTP, their certificates, and new keys without a restart
device.py      one device: ready → announcement → charge → coin, score, feature → signal; its balance
terms.py       settings on which all roles must agree, and their digest
charge.py      the charge of an inference: a count in memory, or the device's own ledger and budgets
seeing.py      the view of an announced moment, or nothing; what is wrong with its source, said once
sources.py     where views come from: held-out latents, pictures in turn, a function; bundle.py: their encoder
capture.py     a live camera: the newest frame, read in a thread, of a camera, video or stream; demo_clips.py
server.py      announces, estimates, decodes, reports; slot after slot until it is sure
http.py        the server's answers over HTTP; idempotency.py: repeated requests
door.py        connections over HTTP, counted and timed, and who may ask
feed.py        what goes on, as server-sent events for those who watch; metrics.py: counts of every role, for Prometheus
logs.py        the log, JSON lines of known fields at a bounded rate, those of libraries too
secured.py     keys and tokens of the roles
telling.py     devices report their ledgers to the server's view of the fleet
ranking.py     the ranking server of Scheme 2.2
seeded.py      a simulated device, whose noise gives no privacy
options.py     options of the roles as data
roles.py       each role as a process, from its options; up.py: all of them on one machine, and the results
keys/, ledger/, secure/   identities; what a device has spent; the sum without a radio
cli/           the commands
"""
