"""All devices and the server in one process, message by message: for tests, measurements and studies."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool.runtime.secure.client import Client
from airpool.runtime.secure.group import Terms
from airpool.runtime.secure.keys import Session, public_bytes
from airpool.runtime.secure.messages import ID, kind_of
from airpool.runtime.secure.ring import Residues
from airpool.runtime.secure.server import Outcome, SumServer

STEPS = ("share", "mask", "sign", "reveal")


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The outcome, and the bytes that each device sent and received, its advert included."""

    outcome: Outcome
    sent: dict[int, int]
    received: dict[int, int]


def sessions(num_devices: int) -> list[Session]:
    """Devices that know each other: fresh identities, one roster."""
    identities = [Ed25519PrivateKey.generate() for _ in range(num_devices)]
    roster = [public_bytes(identity) for identity in identities]
    return [Session(device, identity, roster) for device, identity in enumerate(identities)]


def rehearse(
    values: Mapping[int, Residues], terms: Terms, of: Sequence[Session], *, vanish: Mapping[int, int] | None = None
) -> Rehearsal:
    """One inference of the devices that have values; they are the ready ones, and answer one after the other.

    vanish: the step, of `STEPS`, from which on a device no longer answers; `sign` takes place if a device vanished.
    """
    clients = {k: Client(of[k], terms, lambda k=k: values[k]) for k in values}
    adverts = {k: client.advert.to_bytes() for k, client in clients.items()}
    server = SumServer(terms, secrets.token_bytes(ID), adverts)
    sent, received = {k: len(advert) for k, advert in adverts.items()}, dict.fromkeys(adverts, 0)
    while server.outcome is None:
        for k, message in server.messages().items():
            received[k] += len(message)
            if (vanish or {}).get(k, len(STEPS)) > kind_of(message) // 2:
                answer = clients[k].answer(message)
                sent[k] += len(answer)
                server.receive(k, answer)
        server.advance()
    return Rehearsal(server.outcome, sent, received)
