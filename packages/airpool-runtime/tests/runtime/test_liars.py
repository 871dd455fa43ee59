"""Devices that do not follow the secure sum: one round lost at most, the liar named and left out, the rest goes on."""

import asyncio
import os
import shutil

import pytest

from airpool.network import Channel
from airpool.protocol import traffic
from airpool_runtime import secure_medium as rosters
from airpool_runtime import up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.charge import Counted
from airpool_runtime.keys import authority
from airpool_runtime.medium import PortOptions
from airpool_runtime.secure import client, shamir
from airpool_runtime.secure.messages import Kind, kind_of
from airpool_runtime.secure_medium import SECURE, SecureDevice

from .systems import network, small

COUNT, LIAR, ROUNDS = 5, 3, 6
NET = network(COUNT, channel=Channel(access="secure"), dropouts=1)
OPTIONS = {"quorum": COUNT - 1}


class LyingClient(client.Client):
    """Follows the protocol, but for one trick."""

    def __init__(self, *how, trick):
        super().__init__(*how)
        self.trick = trick
        if trick in BAD_ADVERTS:
            self.advert = self.advert._replace(**BAD_ADVERTS[trick])
        if trick == "other seed":
            self._secrets[0].seed = shamir.random_element()

    def answer(self, message):
        kind, answer = kind_of(message), super().answer(message)
        head, body = answer[:17], answer[17:]
        sealed = (COUNT - 1) * traffic.ciphertext_size(1)
        match self.trick, kind:
            case "garbage ciphertexts", Kind.ANNOUNCEMENT:
                return head + os.urandom(sealed) + body[sealed:]
            case "wrong hashes", Kind.ANNOUNCEMENT:
                return head + body[:sealed] + os.urandom(len(body) - sealed)
            case "wrong share", Kind.SIGNED:
                return head + os.urandom(len(body))
            case "wrong length", Kind.SHARED:
                return answer[:-1]
            case "wrong kind", Kind.SHARED:
                return bytes([Kind.REVEALED]) + answer[1:]
            case "wrong id", Kind.ANNOUNCEMENT:
                return head[:1] + bytes(16) + body
            case _:
                return answer


BAD_ADVERTS = {
    "certificate": {"certificate": bytes(64)},
    "mask key of small order": {"mask_keys": (bytes(32),)},
    "channel key of small order": {"channel": bytes(32)},
    "wrong seed hash": {"seed_hashes": (bytes(32),)},
}
LIES = ("other seed", "garbage ciphertexts", "wrong hashes", "wrong share", "wrong length", "wrong kind", "wrong id")
# Rounds that a trick costs the others.
LOST = {"wrong seed hash": 1, "other seed": 1, "garbage ciphertexts": 1, "wrong hashes": 1}


class Liar(SecureDevice):
    trick = ""

    def _client(self):
        return LyingClient(self._session, self._terms, self._taken, trick=self.trick)


def lying(folder, trick):
    """Ports of all devices, of which one lies."""
    honest = SECURE.ports(NET, range(COUNT), PortOptions(keys=folder, quorum=OPTIONS["quorum"]))

    def port(line, k):
        if k != LIAR:
            return honest(line, k)
        found = Liar(line, rosters.session_of(folder, k, COUNT), NET, **OPTIONS)
        found.trick = trick
        return found

    return port


async def played(folder, trick, *, roster, medium="loopback"):
    """Results, charges of the honest devices, and the faults that the hub's status names."""
    charges = {k: Counted() for k in range(COUNT)}
    options = PortOptions(keys=folder / "air" if roster else None)
    how = {"secured": lying(folder, trick), "charges": charges, "options": options, **OPTIONS}
    async with small(NET, medium, patience=0.5 if roster else 5.0, **how) as system:
        results = await system.infer(ROUNDS)
        status = await system.air.status()
    honest = [charges[k].spent for k in range(COUNT) if k != LIAR]
    return results, honest, {each.device: each.reason for each in status.faults}


@pytest.fixture
def folder(tmp_path):
    authority.create(tmp_path / "keys", devices=COUNT)
    return tmp_path / "keys"


@pytest.mark.parametrize("trick", [*BAD_ADVERTS, *LIES])
def test_a_liar_costs_one_round_at_most_and_is_named_and_left_out(folder, trick):
    results, charged, faults = asyncio.run(played(folder, trick, roster=True))
    answered = [each for each in results if each.status == "answered"]
    assert len(answered) == ROUNDS - LOST.get(trick, 0)
    assert results[-1].devices == COUNT - 1
    assert all(spent <= len(answered) + 1 for spent in charged)
    assert faults.keys() == {LIAR}
    lied_later = trick in (*LIES, "wrong seed hash")
    assert faults[LIAR].startswith("set aside: " if lied_later else "not ready; its advert was rejected: ")


def test_a_hub_without_a_roster_learns_it_from_the_devices_and_none_of_them_pays(folder):
    results, charged, faults = asyncio.run(played(folder, "certificate", roster=False))
    assert [each.status for each in results] == ["withheld", *["answered"] * (ROUNDS - 1)]
    assert charged == [ROUNDS - 1] * (COUNT - 1)
    assert faults == {LIAR: "set aside: 4 devices cannot use what it sent"}
    assert f"device {LIAR}: set aside" in results[0].reason


def test_over_grpc_a_liar_is_named_in_what_the_server_answers(folder):
    results, _, faults = asyncio.run(played(folder, "wrong hashes", roster=True, medium="grpc"))
    assert f"device {LIAR}: set aside: " in results[0].reason
    assert [each.status for each in results[1:]] == ["answered"] * (ROUNDS - 1)
    assert faults.keys() == {LIAR}


@pytest.mark.check
def test_over_processes_a_device_of_another_identity_is_left_out_and_the_others_answer(tmp_path):
    """Device 3 was issued another identity, which the rosters of the others and of the hub do not have."""

    async def play():
        setup = up.Setup(network(COUNT, dimension=40, channel=NET.channel, dropouts=1), COUNT, quorum=COUNT - 1)
        async with up.running(setup) as system, up.client(system) as asked:
            log, keys = system.folder / f"device {LIAR}-{LIAR}.log", system.folder / "keys"
            await system.roles[f"device {LIAR}-{LIAR}"].stop()
            later = shutil.copytree(keys, tmp_path / "later")
            authority.revoke(later, f"device-{LIAR}")
            authority.reissue(later, f"device-{LIAR}")
            shutil.copytree(later / f"device-{LIAR}", keys / f"device-{LIAR}", dirs_exist_ok=True)
            await system.start(f"device {LIAR}-{LIAR}")
            results = [await asked.Infer(wire.Nothing(), timeout=60) for _ in range(ROUNDS)]
            return results, log.read_text()

    results, log = asyncio.run(play())
    assert [(each.status, each.devices) for each in results] == [("answered", COUNT - 1)] * ROUNDS
    assert "not signed by its identity" in log
