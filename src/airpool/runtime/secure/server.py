"""The server in one inference: a state machine that collects answers, and goes on without those who gave none.

    server = Server(terms, inference, adverts)
    for device, message in server.messages().items(): ...        # to every device that is still there
    server.receive(device, answer)                               # as answers arrive, in any order
    server.advance()                                             # all have answered, or time is up
    ...                                                          # until there is server.outcome

It learns the sum of the survivors' values and nothing else of them. With fewer than t answers in any step the round is
dropped and nothing is opened. A wrong answer counts as none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airpool.runtime.secure import keys, masks, messages, shamir
from airpool.runtime.secure.client import own_key, pair_key, seed_hash, share_hash
from airpool.runtime.secure.group import Group, Terms
from airpool.runtime.secure.messages import Advert, Kind, RefusedError
from airpool.runtime.secure.ring import Residues


@dataclass(frozen=True, eq=False)
class Outcome:
    """total: the sum of the survivors' values, modulo 2^B; None where the round was dropped, and `dropped` says why.

    wrong: devices whose shares are not those that were dealt to them, by the dealers' word.
    """

    total: Residues | None
    survivors: tuple[int, ...] = ()
    dropped: str = ""
    wrong: tuple[int, ...] = ()


class SumServer:
    """One inference of the devices that advertised."""

    def __init__(self, terms: Terms, inference: bytes, adverts: Mapping[int, bytes]) -> None:
        ready = {device: Advert.from_bytes(adverts[device]) for device in sorted(adverts)}
        self._terms, self._group = terms, Group(inference, terms, ready)
        self._steps = {
            Kind.SHARES: (self._read_shares, self._shared),
            Kind.MASKED: (self._read_masked, self._survived),
            Kind.SIGNATURE: (self._read_signature, self._signed),
            Kind.REVEALED: (self._read_shares_given_out, self._open),
        }
        self._kind = Kind.SHARES
        self._answers: dict[int, Any] = {}
        self._hashes: dict[int, dict[int, list[bytes]]] = {}
        self._masked: dict[int, Residues] = {}
        self._sharing: list[int] = []
        self.outcome: Outcome | None = None
        said = messages.announcement(inference, ready)
        self._messages = dict.fromkeys(ready, said)

    def messages(self) -> dict[int, bytes]:
        """The next message to each device."""
        return dict(self._messages)

    @property
    def waiting(self) -> set[int]:
        """The devices that have not answered yet."""
        return set(self._messages) - set(self._answers)

    def receive(self, device: int, answer: bytes) -> None:
        """Takes a device's answer; an error where it is not what this step allows, or the second one."""
        if self.outcome is not None or device not in self.waiting:
            raise RefusedError(f"no answer is expected from device {device}")
        read, _ = self._steps[self._kind]
        self._answers[device] = read(device, messages.unpack(self._kind, self._group.inference, answer))

    def advance(self) -> None:
        """Goes on with those who have answered: to the next messages, or to the outcome."""
        if self.outcome is not None:
            return
        answers, self._answers = dict(sorted(self._answers.items())), {}
        _, go_on = self._steps[self._kind]
        if len(answers) < self._terms.survivors:
            least = self._terms.survivors
            self._finish(
                Outcome(None, dropped=f"{len(answers)} devices sent {self._kind.name}, must be {least} or more")
            )
            return
        go_on(answers)

    def _finish(self, outcome: Outcome) -> None:
        self.outcome, self._messages = outcome, {}

    def _read_shares(self, device: int, body: bytes) -> tuple[dict[int, bytes], dict[int, list[bytes]]]:
        devices = self._group.devices
        others = [other for other in devices if other != device]
        size = len(others) * messages.CIPHERTEXT
        sealed = messages.cut(body[:size], messages.CIPHERTEXT, len(others))
        hashes = messages.cut(body[size:], messages.HASH, 2 * len(devices))
        pairs = (hashes[2 * place : 2 * place + 2] for place in range(len(devices)))
        return dict(zip(others, sealed, strict=True)), dict(zip(devices, pairs, strict=True))

    def _shared(self, answers: dict[int, Any]) -> None:
        self._kind, self._sharing = Kind.MASKED, list(answers)
        self._hashes = {device: hashes for device, (_, hashes) in answers.items()}
        who = messages.subset(self._sharing, self._group.devices)
        self._messages = {
            to: self._said(Kind.SHARED, who, *(answers[device][0][to] for device in answers if device != to))
            for to in answers
        }

    def _read_masked(self, device: int, body: bytes) -> tuple[Residues, bytes]:
        ring = self._terms.ring
        size = ring.wire.itemsize * self._terms.dimension
        whole = messages.cut(body, size + messages.SIGNATURE, 1)[0]
        return ring.from_bytes(whole[:size]), whole[size:]

    def _survived(self, answers: dict[int, tuple[Residues, bytes]]) -> None:
        self._masked = {device: residues for device, (residues, _) in answers.items()}
        if list(answers) == self._sharing:  # all have signed this list already
            self._signed({device: signature for device, (_, signature) in answers.items()})
            return
        self._kind = Kind.SIGNATURE
        said = self._said(Kind.SURVIVORS, messages.subset(list(answers), self._sharing))
        self._messages = dict.fromkeys(answers, said)

    def _read_signature(self, device: int, body: bytes) -> bytes:
        return messages.cut(body, messages.SIGNATURE, 1)[0]

    def _signed(self, answers: dict[int, bytes]) -> None:
        self._kind = Kind.REVEALED
        who = messages.subset(list(answers), list(self._masked))
        self._messages = dict.fromkeys(answers, self._said(Kind.SIGNED, who, *answers.values()))

    def _read_shares_given_out(self, device: int, body: bytes) -> dict[int, bytes]:
        return dict(zip(self._sharing, messages.cut(body, shamir.SIZE, len(self._sharing)), strict=True))

    def _open(self, answers: dict[int, dict[int, bytes]]) -> None:
        """Reconstructs the seeds of the survivors and the keys of the others, checks them, and takes the masks off."""
        survivors, threshold, wrong = tuple(self._masked), self._terms.survivors, set[int]()
        own, lost = {}, {}
        for device in self._sharing:
            alive = device in self._masked
            good = {}
            for holder, given in answers.items():
                if share_hash(given[device]) == self._hashes[device][holder][alive]:
                    good[holder + 1] = int.from_bytes(given[device], "big")
                else:
                    wrong.add(holder)
            found = shamir.secret(dict(list(good.items())[:threshold])) if len(good) >= threshold else None
            if found is None or not self._fits(device, found, alive=alive):
                why = f"the shares of device {device} do not give its {'seed' if alive else 'key'}"
                self._finish(Outcome(None, dropped=why, wrong=tuple(sorted(wrong))))
                return
            if alive:
                own[device] = self._stream(own_key(self._group, found))
            else:
                private = keys.mask_key(found)
                lost[device] = {k: self._stream(pair_key(self._group, private, device, k)) for k in survivors}
        ring = self._terms.ring
        total = masks.unmasked(ring.total(self._masked.values()), own, lost, ring)
        self._finish(Outcome(total, survivors, wrong=tuple(sorted(wrong))))

    def _fits(self, device: int, secret: int, *, alive: bool) -> bool:
        """Whether a reconstructed secret is the one whose hash or public key was advertised."""
        advert = self._group.adverts[device]
        if alive:
            return seed_hash(secret) == advert.seed_hash
        return keys.mask_key(secret).public_key().public_bytes_raw() == advert.mask_key

    def _stream(self, key: bytes) -> Residues:
        return masks.stream(key, self._terms.ring, self._terms.dimension)

    def _said(self, kind: Kind, *parts: bytes) -> bytes:
        return messages.pack(kind, self._group.inference, *parts)
