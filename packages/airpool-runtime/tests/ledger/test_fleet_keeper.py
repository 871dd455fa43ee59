"""The server's connection to the fleet view: it may be absent, restart or hang, and inferences go on."""

import asyncio
import sqlite3
import threading
import time

import pytest

from airpool_runtime import logs, telling
from airpool_runtime.ledger.fleet import FleetReportError
from airpool_runtime.telling import FleetKeeper, ViewUnavailableError

WAIT = 30.0


@pytest.fixture
def keeper(tmp_path):
    it = FleetKeeper(f"sqlite:///{tmp_path / 'fleet.db'}")
    yield it
    asyncio.run(it.stop())


async def until(condition):
    """Waits until something holds; an error if it does not within the time."""
    async with asyncio.timeout(WAIT):
        while not condition():
            await asyncio.sleep(0.01)


def test_rows_are_taken_and_counted(keeper, told):
    async def play():
        return await keeper.done(lambda view, pause: (view.take(told, pause=pause), view.owner(told.origin.key)))

    assert asyncio.run(play()) == (6, "device-3")
    assert keeper.status.up


def test_while_the_view_hangs_the_loop_runs_and_the_queue_is_bounded(keeper, monkeypatch):
    monkeypatch.setattr(telling, "_SLOW_SECONDS", 0.0)
    release, begun = threading.Event(), threading.Event()

    def hangs(_view, _pause):
        begun.set()
        release.wait(WAIT)
        return "done"

    async def play():
        first = asyncio.create_task(keeper.done(hangs))
        await until(begun.is_set)
        others = [asyncio.create_task(keeper.done(lambda *_: "after")) for _ in range(20)]
        await until(lambda: sum(each.done() for each in others) == 20 - telling._QUEUED)
        full, status = [each for each in others if each.done()], keeper.status
        release.set()
        return (
            await first,
            [str(each.exception()) for each in full],
            status,
            await asyncio.gather(*(each for each in others if each not in full)),
        )

    first, full, status, after = asyncio.run(play())
    assert first == "done"
    assert set(full) == {"the fleet view has too much to do: try later"}
    assert (status.up, status.queued, status.postponed) == (False, 8, 12)
    assert after == ["after"] * 8


def test_a_stop_interrupts_a_long_upload_and_leaves_a_hanging_one_behind(keeper, tmp_path, monkeypatch):
    monkeypatch.setattr(telling, "_STOP_SECONDS", 0.3)
    release = threading.Event()

    def endless(_view, pause):
        while True:
            pause()

    async def play():
        task = asyncio.create_task(keeper.done(endless))
        await asyncio.sleep(0.05)
        await keeper.stop()
        with pytest.raises(ViewUnavailableError, match="stopping"):
            await task
        other = FleetKeeper(f"sqlite:///{tmp_path / 'other.db'}")
        task = asyncio.create_task(other.done(lambda *_: release.wait(WAIT)))
        await until(lambda: other._busy_since is not None)
        await other.stop()
        left = not task.done()
        release.set()
        await task
        return left

    assert asyncio.run(play())
    assert not keeper._thread.is_alive()


class Flaky:
    """A view whose connection breaks as often as it is told to."""

    breaks, opened, away = 0, 0, 0

    def __init__(self, url):
        Flaky.opened += 1
        if Flaky.away:
            Flaky.away -= 1
            raise ValueError("the fleet view: connection refused")
        self._broken = False

    def owner(self, key):
        if Flaky.breaks:
            Flaky.breaks -= 1
            self._broken = True
            raise sqlite3.OperationalError("server closed the connection")
        if key == "odd":
            raise sqlite3.DataError("no")
        return "device-0"

    def answers(self):
        return not self._broken

    def close(self):
        pass


@pytest.fixture
def flaky(monkeypatch):
    monkeypatch.setattr(telling, "Fleet", Flaky)
    monkeypatch.setattr(telling, "_SHORTEST_WAIT", 0.05)
    for name in ("breaks", "opened", "away"):
        monkeypatch.setattr(Flaky, name, 0)
    return Flaky


def owner(keeper, key="x"):
    return keeper.done(lambda view, _: view.owner(key))


def test_a_lost_connection_is_made_again_and_the_job_done(flaky):
    async def play():
        keeper = FleetKeeper("sqlite:///x")
        try:
            flaky.breaks = 1
            found = [await owner(keeper)]
            with pytest.raises(FleetReportError, match="does not take this"):
                await owner(keeper, "odd")
            flaky.breaks, flaky.away = 1, 3
            with pytest.raises(ViewUnavailableError, match=r"not available \(the fleet view: connection refused\)"):
                await owner(keeper)
            with pytest.raises(ViewUnavailableError, match="try later"):
                await owner(keeper)
            await until(lambda: keeper.status.up)  # by itself, with no job to do
            return [*found, await owner(keeper)], keeper.status.postponed
        finally:
            await keeper.stop()

    assert asyncio.run(play()) == (["device-0"] * 2, 2)


def test_a_server_starts_without_its_view_and_says_so(monkeypatch, capfd):
    httpx, http = pytest.importorskip("httpx"), pytest.importorskip("airpool_runtime.http")
    pytest.importorskip("psycopg")
    from airpool import Network
    from airpool_runtime.air import Air
    from airpool_runtime.server import Server, ServerCodec

    monkeypatch.setattr(logs, "_state", {"role": "server", "on": True})
    net = Network.uniform(num_devices=2, noise_std=0.05, dimension=2)
    server = Server(net, ServerCodec(lambda z: z, ("a", "b"), 2), Air(net))

    async def play():
        keeper = FleetKeeper("postgresql://user:S3cret@127.0.0.1:1/base")
        try:
            await until(lambda: "refused" in keeper.status.reason)
            with pytest.raises(ViewUnavailableError, match="try later"):
                await owner(keeper)
            transport = httpx.ASGITransport(app=http.app(server, fleet=keeper))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return (await client.get("/readyz")).json()["fleet"], (await client.get("/metrics")).text
        finally:
            await keeper.stop()

    ready, metrics = asyncio.run(play())
    assert "refused" in ready
    assert 'airpool_fleet_view{what="up"} 0.0' in metrics
    assert 'airpool_fleet_view{what="postponed"} 1.0' in metrics
    said = capfd.readouterr().err
    assert "not connected" in said
    assert "S3cret" not in said + ready


def test_a_wrong_url_or_file_is_an_error_at_once():
    for url in ("mysql://x", "sqlite:////nonexistent/folder/fleet.db"):
        with pytest.raises(ValueError, match="fleet view"):
            FleetKeeper(url)


@pytest.mark.check
def test_a_view_in_postgresql_comes_back_after_a_restart(postgres, told):
    async def play():
        keeper = FleetKeeper(postgres.url)
        try:
            await until(lambda: keeper.status.up)
            part = type(told)(told.origin, told.texts, told.rows[:3])
            found = [await keeper.done(lambda view, pause: view.take(part, pause=pause))]
            postgres.stop()
            with pytest.raises(ViewUnavailableError):
                await owner(keeper)
            assert not keeper.status.up
            postgres.start()
            await until(lambda: keeper.status.up)
            found.append(await keeper.done(lambda view, pause: view.take(told, pause=pause)))
            # A restart between two jobs costs nothing that a device sees.
            postgres.stop()
            postgres.start()
            time.sleep(0.1)
            return [*found, await owner(keeper, told.origin.key)]
        finally:
            await keeper.stop()

    assert asyncio.run(play()) == [3, 3, "device-3"]
