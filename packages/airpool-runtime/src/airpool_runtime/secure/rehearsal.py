"""All devices and the server in one process, message by message: for tests, measurements and studies."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool.protocol.ring import Residues
from airpool.protocol.traffic import ID
from airpool_runtime.secure.client import Client
from airpool_runtime.secure.group import Terms
from airpool_runtime.secure.keys import Session, public_bytes
from airpool_runtime.secure.messages import Kind, kind_of
from airpool_runtime.secure.server import Outcome, SumServer

STEPS = ("share", "mask", "sign", "reveal")


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The outcome of each slot, and the bytes that each device sent and received, its advert included."""

    outcomes: tuple[Outcome, ...]
    sent: dict[int, int]
    received: dict[int, int]

    @property
    def outcome(self) -> Outcome:
        """Of the last slot."""
        return self.outcomes[-1]


def sessions(num_devices: int) -> list[Session]:
    """Devices that know each other: fresh identities, one roster."""
    identities = [Ed25519PrivateKey.generate() for _ in range(num_devices)]
    roster = [public_bytes(identity) for identity in identities]
    return [Session(device, identity, roster) for device, identity in enumerate(identities)]


def rehearse(
    values: Mapping[int, Residues], terms: Terms, of: Sequence[Session], *, vanish: Mapping[int, int] | None = None
) -> Rehearsal:
    """One slot of the devices that have values; they are the ready ones, and answer one after the other.

    vanish: the step, of `STEPS`, from which on a device no longer answers; `sign` takes place if a device vanished.
    """
    return rehearse_slots([values], terms, of, vanish={k: (0, step) for k, step in (vanish or {}).items()})


def rehearse_slots(
    values: Sequence[Mapping[int, Residues]],
    terms: Terms,
    of: Sequence[Session],
    *,
    vanish: Mapping[int, tuple[int, int]] | None = None,
) -> Rehearsal:
    """One inference of as many slots as there are values, at most those of the terms; fewer if one is dropped.

    vanish: slot and step from which on a device no longer answers.
    """
    slot, never = 0, (len(values), 0)
    clients = {k: Client(of[k], terms, lambda k=k: values[slot][k]) for k in values[0]}
    adverts = {k: client.advert.to_bytes() for k, client in clients.items()}
    server = SumServer(terms, secrets.token_bytes(ID), adverts)
    sent, received = {k: len(advert) for k, advert in adverts.items()}, dict.fromkeys(adverts, 0)
    outcomes = list[Outcome]()
    while slot < len(values):
        for k, message in server.messages().items():
            received[k] += len(message)
            if (vanish or {}).get(k, never) > (slot, _step(message)):
                answer = clients[k].answer(message)
                sent[k] += len(answer)
                server.receive(k, answer)
        server.advance()
        if (outcome := server.outcome) is not None:
            outcomes.append(outcome)
            slot += 1
            if slot == len(values) or len(server.staying()) < terms.survivors:
                break
            server.go_on(server.staying())
    return Rehearsal(tuple(outcomes), sent, received)


def _step(message: bytes) -> int:
    return 1 if kind_of(message) == Kind.NEXT else kind_of(message) // 2
