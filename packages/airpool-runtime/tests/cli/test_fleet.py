"""`airpool fleet`: who is up, which version, the last refusal, what is left, until when a certificate holds."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from airpool import Network
from airpool._support.version import __version__
from airpool.cli import app
from airpool_runtime import transport
from airpool_runtime.air import Air
from airpool_runtime.keys import authority
from airpool_runtime.ledger.backup import content
from airpool_runtime.ledger.budget import Booking
from airpool_runtime.ledger.fleet import Fleet
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.remote import RemoteDevice
from airpool_runtime.secured import credentials
from airpool_runtime.service import AirService
from airpool_runtime.wire_pb2_grpc import add_AirServicer_to_server

NET = Network.uniform(num_devices=3, noise_std=0.5, dropouts=1)


def test_fleet_shows_each_device(tmp_path):
    keys, view = tmp_path / "keys", f"sqlite:///{tmp_path / 'fleet.db'}"
    authority.create(keys)
    for k in range(3):
        authority.add(keys, f"device-{k}")
    before = []
    for number in (5, 3):  # two devices that were replaced, one after the other
        with Ledger(tmp_path / f"{number}.db", keys / "device-0" / "identity.key", device="device-0") as ledger:
            ledger.charge_all([Booking(str(each), mechanism(NET, device=0)) for each in range(number)])
            before.insert(0, ledger.epsilon(1e-5))
        authority.revoke(keys, "device-0")
        authority.reissue(keys, "device-0")
    with Ledger(tmp_path / "l.db", keys / "device-0" / "identity.key", device="device-0") as ledger:
        ledger.charge("a", mechanism(NET, device=0))
        spent = ledger.epsilon(1e-5)
    base = Fleet(view)
    for name in ("5", "l", "3"):
        base.take(content(tmp_path / f"{name}.db"))
    base.close()

    async def play():
        air, own = Air(NET), credentials(keys / "air", "air")
        service = AirService(air, own)
        server, where = await transport.serve("127.0.0.1:0", lambda it: add_AirServicer_to_server(service, it), own)
        mine = credentials(keys / "device-0", "device-0")
        try:
            async with transport.channel(where, mine, role="air") as channel:
                port = await RemoteDevice.opened(channel, 0, simulated=False, network=NET)
                for _ in range(2):
                    air._standing.failed(0, "it withdrew (budget)")
                words = ["fleet", "--air", where, "--keys", str(keys), "--view", view, "--budget-epsilon", "8"]
                found = [await asyncio.to_thread(CliRunner().invoke, app, [*words, *more]) for more in (["--json"], [])]
                port.close()
                return found
        finally:
            await server.stop(None)

    said, table = asyncio.run(play())
    assert said.exit_code == 0, said.output
    found = json.loads(said.output)
    assert found["air"]["version"] == __version__
    first, second, _ = found["devices"]
    assert (first["up"], first["version"]) == (True, __version__)
    assert (second["up"], second["version"]) == (False, None)
    assert "it withdrew (budget)" in first["last_refusal"]
    assert abs(first["epsilon"] - spent) < 1e-9
    assert abs(first["left"] - (8 - spent)) < 1e-9
    assert first["earlier"] == pytest.approx(before)
    assert "device-0: earlier identities have spent ε = " in table.output
    assert first["certificate_until"] > "2000-01-01"
    assert first["certificate_until"] in table.output
    assert "0 of 3 devices are able, 3 needed" in table.output


def test_fleet_says_that_the_air_does_not_answer():
    result = CliRunner().invoke(app, ["fleet", "--air", "127.0.0.1:1"])
    assert isinstance(result.exception, OSError)
    assert "the air at 127.0.0.1:1 does not answer" in str(result.exception)
