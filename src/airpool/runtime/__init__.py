"""The running system: devices, air, server and ranking server as processes (extra `runtime`; docs/howto/runtime.md).

medium.py      what a device and a server may do on a medium; neither knows which one it uses
messages.py    what they say to each other: announcements, signals, sums, refusals
air.py         the hub: turns of slots; turns.py: the next turn; admission.py: who may connect, and who is ready
judging.py     the end of a slot: a sum or none, and whom that counts against
under_way.py   inferences of several slots: names of the slots, what is reserved for those to come
radio_medium.py   the air as a medium: gains, the sum, the receiver's noise; what is rejected
secure_medium.py  the secure sum as one: secure_slot.py, secure_device.py, roster.py
standing.py    the devices at a hub: connected, ready, stalled, set aside; balance.py: what they say of their budgets
course.py      the course of a slot: announced, charged, answered, summed
loopback.py    the medium in one process
remote.py      the medium over gRPC, as devices and server use it; service.py: its other end; wire.proto: its messages,
               wire_values.py: to values and back
transport.py   sockets of gRPC and HTTP, and their certificates; renewal.py: new keys without a restart
legacy.py      version 0 of the wire
device.py      one device: ready → announcement → charge → coin, score, feature → signal
terms.py       settings on which all roles must agree, and their digest; charge.py: the cost of an inference
sources.py     where its view comes from; bundle.py: its encoder, without torch; shipped.py: held-out latents
capture.py     a live camera: the newest frame, read in a thread; readers.py: cameras, videos, streams; demo_clips.py
pictures.py    pictures of a folder in turn, and any picture as a trunk takes it
seeing.py      the view of an announced moment, or nothing; condition.py: what is wrong with a source, said once
server.py      announces, estimates, decodes, reports; asking.py: slot after slot until it is sure; results.py: results
http.py        the server's answers over HTTP; metrics.py: its counts; feed.py: what goes on, for those who watch;
               events.py: server-sent events, and their listeners
door.py        connections over HTTP, counted and timed; guard.py: who may ask; idempotency.py: repeated requests
secured.py     keys, ledgers and tokens of the roles; limits.py: rates of messages and of log lines
telling.py     devices report their ledgers to the server's view of the fleet; fleet_keeper.py: its connection to it
logs.py        the log, JSON lines of known fields; library_logs.py: what gRPC, asyncio and uvicorn log
vanishing.py   a temporary folder that is gone even after a kill
ranking.py     the ranking server of Scheme 2.2
seeded.py      a simulated device, whose noise gives no privacy
options.py     options of the roles as data; starting.py: a role from its options; charging.py: a device's charge
role_metrics.py  health and metrics of any role, over HTTP; health.py: the same over gRPC
roles.py       each role as a process; up.py: all of them on one machine; tally.py: its results
keys/, ledger/, secure/   identities; what a device has spent; the sum without a radio
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
