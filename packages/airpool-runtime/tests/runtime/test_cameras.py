"""Cameras that break, over real sockets: no crash, no wrong charge, one line for the operator, noise alone."""

import asyncio
import io
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from airpool.network import Threshold
from airpool.protocol.inference import infer_features
from airpool_runtime import air, capture, demo_clips, logs, metrics, seeing, sources
from airpool_runtime import device as devices
from airpool_runtime.capture import CameraFrame, Capture
from airpool_runtime.charge import Counted
from airpool_runtime.device import Device, Seen
from airpool_runtime.medium import PortOptions
from airpool_runtime.messages import Announcement
from airpool_runtime.seeing import Condition, SourceError, seen
from airpool_runtime.server import ServerCodec
from airpool_runtime.sources import Place, source_of

from .mjpeg import Cameras, jpeg, serving
from .systems import CLASSES, R, network, small

SIDE = 32
CODEC = ServerCodec(lambda estimate: estimate[:CLASSES], ("a", "b", "c"), R)


class Colours:
    """A bundle whose latent is the class that a view's colour stands for, as one-hot."""

    view_shape = (3, SIDE, SIDE)

    def camera(self, *, device, devices):
        return None

    def encoder(self, *, device, devices):
        return lambda view: Seen(np.eye(R)[int(np.argmax(view.reshape(3, -1).mean(1)))])


@pytest.fixture
def said():
    """Events of the log, as they come."""
    found: list[tuple[str, dict[str, Any]]] = []

    def observe(name, fields):
        found.append((name, dict(fields)))

    logs.observers.append(observe)
    yield found
    logs.observers.remove(observe)


@pytest.fixture
def hasty(monkeypatch):
    """Cameras that count as frozen after a second, as back after a tenth, and are opened again at once."""
    monkeypatch.setattr(capture, "_FROZEN_SECONDS", 1.0)
    monkeypatch.setattr(capture, "_STALE_SECONDS", 3.0)
    monkeypatch.setattr(capture, "_LONGEST_WAIT", 0.5)
    monkeypatch.setattr(seeing, "STEADY_SECONDS", 0.1)
    made: list[Capture] = []
    init = Capture.__init__

    def noted(self, *args, **rest):
        init(self, *args, **rest)
        made.append(self)

    monkeypatch.setattr(Capture, "__init__", noted)
    yield
    for each in made:
        each.close()


def live(at, k, devices=12):
    bundle: Any = Colours()
    return source_of(f"{at}/{k}", Place(k, devices), bundle=bundle)[0]


def an_hour_ahead(number):
    return CameraFrame(np.full((SIDE, SIDE, 3), 100, np.uint8), time.time() + 3600)


def until(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def of_sources(said, event="source failed"):
    return {(fields["device"], fields["status"]) for name, fields in said if name == event}


BROKEN = {3: "gone", 4: "frozen", 5: "black", 7: "damaged"}
WORKING = {6: "small", 8: "4k", 9: "slow"}


def test_broken_cameras_send_noise_alone_are_charged_and_said_once(said, hasty):
    """Eleven cameras, of which five are broken, and three are odd: as accurate as six cameras beside five of zeros."""
    net, cameras, each = network(11, noise_std=0.1), Cameras(), 45
    silent = [*BROKEN, 10]

    async def play(at):
        charges = [Counted() for _ in range(11)]
        bundle: Any = Colours()
        sources = await asyncio.to_thread(lambda: [live(at, k, 11) for k in range(10)])
        sources.append(source_of(f"{__name__}:an_hour_ahead", Place(10, 11), bundle=bundle)[0])
        cameras.condition |= BROKEN | WORKING
        await asyncio.to_thread(until, lambda: set(BROKEN.items()) <= of_sources(said), 20.0)

        def shown(k, colour):
            return k in silent or int(np.argmax(sources[k](0).latent)) == colour

        results = []
        async with small(net, running=(), codec=CODEC, options=PortOptions(window=3.0)) as system:
            for k, source in enumerate(sources):
                system.ports[k] = await system.open_port(k)
                device = Device(k, net, source, charges[k], quick=False)
                system.tasks.append(asyncio.create_task(devices.run(device, system.ports[k])))
            for colour in range(CLASSES):
                cameras.colour = colour
                await asyncio.to_thread(until, lambda c=colour: all(shown(k, c) for k in range(11)), 20.0)
                results += [(colour, result) for result in await system.infer(each)]
            cameras.condition |= dict.fromkeys(BROKEN, "good")
            await asyncio.to_thread(until, lambda: {k for k, _ in of_sources(said, "source back")} >= set(BROKEN), 20.0)
        return results, [charge.spent for charge in charges], list(said)

    with serving(cameras) as at:
        results, spent, said = asyncio.run(play(at))
    count = CLASSES * each
    assert [result.status for _, result in results] == ["answered"] * count
    assert spent == [count] * 11  # every announcement is charged once, whatever is seen
    assert of_sources(said) == {*BROKEN.items(), (10, "window")}
    lines = [fields for name, fields in said if name == "source failed"]
    assert len(lines) == len(BROKEN) + 1  # once each, not once an inference
    assert next(line["reason"] for line in lines if line["device"] == 10).startswith(
        "the newest frame was taken 60 minutes after the announced moment"
    )
    assert {fields["device"] for name, fields in said if name == "source size"} == {6, 8}

    trials = 4000
    latents = np.tile(np.eye(R)[np.arange(trials) % CLASSES][:, None], (1, 11, 1))
    rng = np.random.default_rng(0)

    def predicted(quiet):
        z = latents.copy()
        z[:, quiet] = 0.0
        out = infer_features(z, net, server=lambda x: x[..., :CLASSES], rng=rng)
        return float(np.mean(np.asarray(out.label).reshape(-1) == np.arange(trials) % CLASSES))

    right = np.mean([result.label == colour for colour, result in results])
    expected, whole = predicted(silent), predicted([])
    error = np.sqrt(expected * (1 - expected) * (1 / count + 1 / trials))
    assert whole - expected > 4 * error  # else this test would tell nothing
    assert abs(right - expected) < 4 * error


def test_an_hours_difference_between_clocks_is_named(said, monkeypatch):
    """The air's clock is an hour behind: every device sends noise alone, and says why; the inferences are charged."""
    late = SimpleNamespace(time=lambda: time.time() - 3600, perf_counter=time.perf_counter)
    monkeypatch.setattr(air, "time", late)
    charges = [Counted() for _ in range(2)]

    async def play():
        async with small(network(2), running=(), codec=CODEC) as system:
            for k in range(2):
                system.ports[k] = await system.open_port(k)
                device = Device(k, network(2), lambda _: Seen(np.ones(R), time=time.time()), charges[k])
                system.tasks.append(asyncio.create_task(devices.run(device, system.ports[k])))
            return await system.infer(5)

    assert [result.status for result in asyncio.run(play())] == ["answered"] * 5
    assert [charge.spent for charge in charges] == [5, 5]
    reasons = [fields["reason"] for name, fields in said if name == "source failed"]
    assert reasons == ["the clock of this machine is 60 minutes ahead of the air's: set it"] * 2


NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("taken", "now", "window", "kind"),
    [
        (NOW - 0.4, NOW, 0.5, ""),
        (NOW + 0.4, NOW + 0.5, 0.5, ""),
        (NOW - 0.6, NOW, 0.5, "window"),
        (NOW + 3.0, NOW + 3.1, 0.5, "clock"),
        (NOW - 3600, NOW - 3600, 0.5, "clock"),
        (NOW - 7200, NOW - 3600, 0.5, "clock"),
        (NOW - 9999, NOW, 0.0, ""),
        (None, NOW + 3600, 0.5, ""),
        (float("nan"), NOW, 0.5, "window"),
    ],
)
def test_a_frame_is_sent_if_it_is_of_the_announced_moment(taken, now, window, kind):
    told = Announcement("a", 0, 1.0, "", 4, moment=NOW, window=window)
    noted = Condition(0)
    found = seen(lambda _: Seen(np.ones(R), time=taken), told, network(), noted, clock=lambda: now)
    assert (noted.kind, bool(np.isnan(found.latent).all())) == (kind, kind != "")


def test_moment_and_window_reach_a_device_over_grpc():
    async def announced(window):
        async with small(network(2), "grpc", running=(0,), options=PortOptions(window=window)) as system:
            port = await system.open_port(1)
            try:
                await port.ready()
                asked = asyncio.create_task(system.server.infer())
                (told,) = await port.announcements()
                asked.cancel()
                return told
            finally:
                port.close()

    told = asyncio.run(announced(0.25))
    assert told.window == 0.25
    assert abs(told.moment - time.time()) < 60
    with pytest.raises(ValueError, match="frame_window=-1 must be from 0 to 3600"):
        air.Air(network(), options=PortOptions(window=-1))


def test_a_camera_that_comes_and_goes_is_one_fault_until_it_is_steady(said):
    now = 0.0
    one = Condition(3, clock=lambda: now)
    for step in range(10):
        now = step / 2
        one.failed("stale", "no frame") if step % 2 else one.works()
    assert [name for name, _ in said] == ["source failed"]
    assert (3, "stale") in seeing.faults()
    text = asyncio.run(metrics.RoleMetrics("device").text()).decode()
    assert 'airpool_source_fault{device="3",kind="stale"} 1.0' in text
    now += seeing.STEADY_SECONDS
    one.works()
    assert [name for name, _ in said] == ["source failed", "source back"]
    assert (3, "stale") not in seeing.faults()


class Given:
    """A reader of given frames, of which an exception is raised."""

    def __init__(self, *frames):
        self._frames = iter(frames)

    def read(self):
        time.sleep(0.01)
        found = next(self._frames, None)
        if found is None:
            time.sleep(0.05)
            return None
        if isinstance(found, Exception):
            raise found
        return found

    def close(self):
        pass


def test_a_reader_that_raises_anything_is_opened_again_and_the_newest_frame_alone_is_kept():
    frames = [np.full((8, 8, 3), 50 + k, np.uint8) for k in range(100)]
    opened = []

    def reader():
        opened.append(1)
        return Given(*frames[:50], RuntimeError("of a library")) if len(opened) == 1 else Given(*frames[50:])

    taken = Capture(reader, name="camera:0", device=0)
    try:
        until(lambda: len(opened) == 2 and taken._frame is not None and int(taken._frame.pixels[0, 0, 0]) == 149)
        assert int(taken.newest().pixels.mean()) == 149
        assert time.time() - taken.newest().time < 60
    finally:
        taken.close()
    assert not taken._thread.is_alive()


def test_a_camera_without_a_frame_never_blocks(said):
    class Hanging:
        def read(self):
            time.sleep(30)

        def close(self):
            pass

    reader: Any = Hanging
    taken = Capture(reader, name="camera:0", device=1)
    with pytest.raises(SourceError, match="no frame yet"):
        taken.newest()
    assert of_sources(said) == {(1, "gone")}
    taken._stop.set()


def test_a_black_frame_is_cut_resized_and_encoded_as_any_other(monkeypatch, hasty):
    """Else it would be answered sooner, and the server could tell."""
    fitted, black = [], np.zeros((64, 96, 3), np.uint8)
    monkeypatch.setattr(capture, "camera", lambda _: Given(*[black] * 100))
    checked = sources.checked
    monkeypatch.setattr(sources, "checked", lambda *view: fitted.append(view[0].shape) or checked(*view))
    bundle: Any = Colours()
    with pytest.raises(SourceError, match="black"):
        source_of("camera:0", Place(0, 2), bundle=bundle)[0](0)
    assert fitted == [(64, 96, 3)]


@pytest.mark.parametrize("rule", ["clip", "scale"])
def test_a_device_that_sees_nothing_is_the_last_to_be_chosen(rule):
    """Not taken for one that is sure within a bit, which those that choose by scores would prefer."""
    scheme = Threshold(score_rule=rule, score_bound=4.0, threshold=1.0)
    net = network(scheme=scheme)
    blind = seen(raises, Announcement("1", 0, 1.0, "", 12), net, Condition(0))
    bits, classes = devices._score(net, blind)
    unsure, _ = devices._score(net, Seen(np.zeros(R), np.full(16, 1 / 16)))
    bound = [float(scheme.bounded(np.array(each), of)) for each, of in ((bits, classes), (unsure, 16))]
    assert bound[0] == pytest.approx(scheme.score_range().high)
    assert bound[0] >= bound[1]


def raises(_):
    raise SourceError("gone", "it is gone")


def test_passwords_of_cameras_are_not_logged(said, hasty):
    bundle: Any = Colours()
    source, quick = source_of("http://me:secret@127.0.0.1:9/x?key=secret", Place(0, 2), bundle=bundle)
    assert not quick
    with pytest.raises(SourceError):
        source(0)
    assert "secret" not in str(said)
    assert of_sources(said) == {(0, "gone")}


def test_a_video_plays_in_real_time_in_a_loop_and_colours_are_in_order(tmp_path, hasty):
    cv2 = pytest.importorskip("cv2", reason="the extra video is not installed")
    path = tmp_path / "red.avi"
    out = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 20.0, (160, 120))
    for k in range(20):
        frame = np.full((120, 160, 3), 20 + k, np.uint8)
        frame[..., 2] = 220  # OpenCV's order: blue, green, red
        out.write(frame)
    out.release()
    bundle: Any = Colours()
    source, _ = source_of(f"video:{path}", Place(0, 2), bundle=bundle)
    first = source(0)
    assert int(np.argmax(first.latent)) == 0
    assert first.time is not None
    time.sleep(1.2)  # longer than the video
    later = source(0)
    assert later.time is not None
    assert 1.0 < later.time - first.time < 30
    (tmp_path / "none.avi").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="no video that can be read"):
        source_of(f"video:{tmp_path / 'none.avi'}", Place(0, 2), bundle=bundle)


def test_a_stream_is_read_by_opencv_too():
    """As rtsp is: FFmpeg's own reader, of the same cameras."""
    pytest.importorskip("cv2", reason="the extra video is not installed")
    cameras = Cameras()
    cameras.colour = 2
    with serving(cameras) as at:
        reader = capture.stream(f"{at}/0")
        frame = reader.read()
        reader.close()
        assert frame is not None
        assert int(np.argmax(frame.reshape(-1, 3).mean(0))) == 2
    with pytest.raises(OSError, match="cannot be reached"):
        capture.stream("rtsp://127.0.0.1:9/none")


@pytest.mark.parametrize("sent", [b"content-length: -5\r\n\r\n", b"".join(b"h%d: x\r\n" % k for k in range(10**5))])
def test_a_stream_that_claims_what_does_not_end_is_not_read_on(monkeypatch, sent):
    stream: Any = io.BytesIO(b"--b\r\n" + sent + b"x" * 10**6)
    answer = Message(stream)
    monkeypatch.setattr(capture.HttpPictures, "_asked", lambda _: answer)
    with pytest.raises(OSError, match="it has ended the stream"):
        capture.HttpPictures("http://camera/x").read()
    assert answer.tell() < 5000


class Message(io.BufferedReader):
    """An answer that is MJPEG."""

    headers = SimpleNamespace(get_content_type=lambda: "multipart/x-mixed-replace")


def test_a_camera_that_gives_one_picture_at_a_time(tmp_path):
    """A snapshot's address; and parts without a length."""
    import http.server
    import threading

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            kind = "image/jpeg" if self.path == "/one" else "multipart/x-mixed-replace;boundary=b"
            self.send_header("Content-Type", kind if self.path != "/text" else "text/html")
            self.end_headers()
            part = b"\r\n--b\r\nContent-Type: image/jpeg\r\n\r\n" + jpeg(1) + b"\r\n"
            self.wfile.write(jpeg(1) if self.path == "/one" else 3 * part + b"--b--\r\n")

        def log_message(self, format, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        at = f"http://127.0.0.1:{server.server_address[1]}"
        for path, times in (("one", 2), ("parts", 3)):
            reader = capture.HttpPictures(f"{at}/{path}")
            frames = [reader.read() for _ in range(times)]
            assert [frame is not None and int(frame.reshape(-1, 3).mean(0).argmax()) for frame in frames] == [1] * times
            if path == "parts":
                with pytest.raises(OSError, match="ended"):
                    reader.read()
            reader.close()
        with pytest.raises(OSError, match="it gives text/html, must be MJPEG"):
            capture.HttpPictures(f"{at}/text")
        server.shutdown()


def test_clips_of_the_demonstration_show_one_moment_from_every_side(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRPOOL_CACHE", str(tmp_path))
    monkeypatch.setattr(demo_clips, "SHAPES", ("car_0", "chair_0"))
    players = [demo_clips.Player(k, 12) for k in range(12)]
    assert len(list(tmp_path.iterdir())) == 1  # rendered once for all
    frames = [each.at(1000.5) for each in players]
    assert {(frame.shape, frame.dtype.name) for frame in frames} == {((224, 224, 2), "uint8")}
    assert demo_clips.shape_at(1000.5) == ("car", "chair")[int(1000.5 / demo_clips.SECONDS) % 2]
    depth = np.stack([frame[..., 1] > 0 for frame in frames])
    assert depth.any((1, 2)).all()
    assert (depth[0] != depth[3]).any()  # another side
    assert (players[0].at(1000.5)[..., 1] > 0).sum() == depth[0].sum()  # where something stands there is no noise
    assert (players[0].at(1000.5) != frames[0]).any()  # but for the sensor's
    light = [int(players[0].at(1000.5 + 6 * demo_clips.SECONDS * k)[..., 0].max()) for k in range(6)]
    assert max(light) > min(light) + 5


@pytest.mark.check
def test_twelve_processes_of_which_four_fail_are_as_accurate_as_eight_beside_zeros(tmp_path, monkeypatch):
    """TLS and ledgers: every announcement is one row in every ledger; devices say why, the server does not know."""
    import airpool
    from airpool.evaluation.evaluate import evaluate
    from airpool.evaluation.objects import EncodedObjects
    from airpool_runtime import sources, up
    from airpool_runtime import wire_pb2 as wire
    from airpool_runtime.keys import authority
    from airpool_runtime.ledger import backup

    from .broken_source import BROKEN

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    keys, ledgers, count = tmp_path / "keys", tmp_path / "ledgers", 400
    authority.create(keys)
    for k in range(12):
        authority.add(keys, f"device-{k}")
    ledgers.mkdir()
    net = airpool.calibrate(airpool.Network.uniform(num_devices=12, dimension=40), epsilon=0.7)
    labels = sources.held_out_labels("modelnet40", "test")
    setup = up.Setup(net, 12, source="broken_source:seen", keys=keys, device_options={"ledger": ledgers})

    async def play():
        async with up.running(setup) as system, up.client(system) as client:
            results = [await client.Infer(wire.Nothing(), timeout=60) for _ in range(count)]
            logged = {name: (system.folder / f"{name}.log").read_text() for name in system.roles}
            return results, system.trouble(), logged

    results, trouble, logged = asyncio.run(play())
    assert [each.status for each in results] == ["answered"] * count
    assert {each.devices for each in results} == {12}  # the server cannot tell them from the others
    for k in range(12):
        assert len(backup.content(ledgers / f"device-{k}.db").rows) == count
        assert logged[f"device {k}-{k}"].count("source failed") == (k in BROKEN)
    assert [int(text.split()[1].strip(":")) for text in trouble] == sorted(BROKEN)
    assert "source" not in logged["air"] + logged["server"]

    model = airpool.load("modelnet40")
    held = model.held_out("test")
    turn = sources.order(len(held.labels))[:count]
    latents = held.latents[turn].clone()

    def predicted(z):
        objects = EncodedObjects(z, held.labels[turn], model.codec().server)
        return float(evaluate(objects, net, trials=20, seed=0).record()["accuracy_mean"])

    whole = predicted(latents)
    latents[:, list(BROKEN)] = 0.0
    expected = predicted(latents)
    right = np.mean([each.label == labels[each.number % len(labels)] for each in results])
    error = np.sqrt(expected * (1 - expected) / count)
    print(f"whole {whole:.3f}, predicted {expected:.3f} ± {error:.3f}, measured {right:.3f}")
    assert abs(right - expected) < 4 * error
    assert whole > expected
