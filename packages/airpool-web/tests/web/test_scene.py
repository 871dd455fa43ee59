"""The scene's answers are those of `airpool.infer`; whatever is uploaded, the page says what it is."""

import json
import struct
import zlib
from base64 import b64decode
from contextlib import asynccontextmanager
from functools import partial
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

import airpool
from airpool.models.vision import shapes
from airpool.models.vision.views import Cameras, views
from airpool.protocol.inference import Simulation
from airpool_web import meshes
from airpool_web.meshes import LastUsed, file_name
from airpool_web.settings import asked_network

pytest.importorskip("starlette")
pytest.importorskip("trimesh")

import httpx
from anyio.from_thread import start_blocking_portal

from airpool_web.app import PageOptions, app

SETTINGS = [
    {"epsilon": "2"},
    {"epsilon": "1", "fading": "rician", "participation": "0.6", "receiver_noise_std": "0.3", "outage": "0.2"},
    {"epsilon": "4", "scheme": "2.1", "threshold": "0.4", "score_bound": "2", "devices": "5"},
    {"epsilon": "4", "scheme": "2.2", "num_selected": "7", "codec": "compact"},
    {"epsilon": "2", "cover_noise": "true", "participation": "0.5", "slots": "6", "sure": "0.8"},
    {"way": "noise", "noise_std": "0.1", "fading": "rayleigh", "power_rule": "backoff", "power_dbm": "5"},
]
HERE = "http://127.0.0.1:8350"
CUBE = shapes.all()[0].off.encode()


@pytest.fixture(scope="module")
def client():
    """One page for all tests of this module, so that objects are encoded once: `client(method, path, options)`."""

    @asynccontextmanager
    async def opened():
        page = app(PageOptions())
        transport = httpx.ASGITransport(app=page)
        async with page.router.lifespan_context(page), httpx.AsyncClient(transport=transport, base_url=HERE) as found:
            yield found

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened()) as found:
        yield lambda method, path, **how: portal.call(partial(found.request, method, path, **how))


def posted(client, path, content):
    answer = client("POST", path, json=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def uploaded(client, data, name):
    return client("POST", "/api/mesh", content=data, headers={"X-Name": name})


@pytest.fixture(scope="module")
def chair():
    return next(each for each in shapes.all() if each.name == "chair_1")


def library(settings, shape, seed, trials=1):
    """What the library computes of a shape, without anything of the page but the network."""
    asked = asked_network(settings)
    from airpool.models.cameras import cameras

    seen = views([(shape.vertices, shape.faces)], Cameras())[:, cameras(asked.network.devices.count, 12)]
    rng = torch.Generator().manual_seed(seed)
    how = Simulation(trials)
    model = airpool.load("modelnet40")
    return airpool.infer(
        model, seen, network=asked.network, claim=asked.claim, rng=rng, codec=asked.codec, simulation=how
    ), model


@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
def test_an_inference_is_that_of_the_library_bit_for_bit(client, chair, settings):
    got = posted(client, "/api/infer", {**settings, "object": chair.name, "seed": "7"})
    out, model = library(settings, chair, 7)
    label = int(out.label[0, 0])
    assert got["label"] == (None if label < 0 else model.classes[label])
    assert got["right"] is (None if label < 0 else got["label"] == "chair")
    assert np.array_equal(np.array(got["received"], np.float32), out.estimate[0, 0].numpy())
    assert np.array_equal(np.array(got["probabilities"], np.float32), out.logits[0, 0].softmax(-1).numpy())
    assert [each["on_the_air"] for each in got["devices"]] == (out.received.alignment[0, 0] != 0).tolist()
    assert [each["took_part"] for each in got["devices"]] == out.received.taking_part[0, 0].tolist()
    assert [each["gain"] for each in got["devices"]] == out.received.gain[0, 0].tolist()
    assert [each["epsilon"] for each in got["devices"]] == out.report.epsilon.tolist()
    assert got["slots"]["used"] == int(out.slots[0, 0])
    assert len(got["ideal"]) == len(got["received"]) == out.estimate.shape[-1]


def test_many_trials_are_those_of_the_library(client, chair):
    settings = SETTINGS[1]
    got = posted(client, "/api/infer", {**settings, "object": chair.name, "seed": 3, "trials": 50})
    out, model = library(settings, chair, 3, trials=50)
    named = [None if c < 0 else model.classes[c] for c in out.label[0].tolist()]
    assert {each["label"]: each["count"] for each in got["frequency"]} == {n: named.count(n) for n in set(named)}
    assert sum(each["share"] for each in got["frequency"]) == pytest.approx(1)


@pytest.mark.parametrize("settings", [SETTINGS[1], SETTINGS[2]], ids=["fading", "five devices, scheme 2.1"])
def test_the_copied_program_makes_the_same_inference(client, chair, settings, capsys):
    got = posted(client, "/api/infer", {**settings, "object": chair.name, "seed": 11})
    found = {}
    exec(got["python"], found)
    assert np.array_equal(np.array(got["received"], np.float32), found["out"].estimate[0, 0].numpy())
    assert capsys.readouterr().out.startswith(got["label"] or "no answer")


def test_another_seed_gives_another_sum_and_the_same_seed_the_same(client):
    one, two, again = (
        posted(client, "/api/infer", {"object": "chair_0", "seed": seed})["received"] for seed in (1, 2, 1)
    )
    assert one == again != two


@pytest.mark.parametrize(
    ("settings", "state", "words"),
    [
        ({"participation": "0.3"}, "silent", "did not draw participation"),
        ({"participation": "0.3", "cover_noise": "true"}, "noise", "sends noise alone"),
        ({"fading": "rayleigh", "outage": "0.5"}, "silent", "channel is too weak"),
        ({"scheme": "2.2", "num_selected": "4"}, "silent", "not among the 4 lowest"),
        ({"scheme": "2.1", "threshold": "0.1"}, "silent", "above the threshold 0.1"),
        ({"fading": "rayleigh", "outage": "0.5", "power_rule": "backoff"}, "weak", "of its strength arrives"),
    ],
)
def test_every_silent_device_says_why(client, settings, state, words):
    devices = posted(client, "/api/infer", {**settings, "object": "chair_0", "seed": 1})["devices"]
    chosen = [each for each in devices if each["state"] == state]
    assert chosen
    assert all(words in each["reason"] for each in chosen)
    assert all(each["on_the_air"] == (each["state"] != "silent") for each in devices)


def test_what_the_server_sees_is_said_for_each_access(client):
    for access, words in (("superposed", "noisy sum"), ("orthogonal", "by itself"), ("secure", "secure sum")):
        got = posted(client, "/api/infer", {"access": access, "object": "chair_0"})
        assert words in got["server_sees"][0]
        assert got["noise_std"] > 0
        assert got["delta"] == 1e-5
        assert got["odds"]


def test_every_shape_can_be_looked_at(client):
    listed = client("GET", "/api/shapes").json()["shapes"]
    assert len(listed) == len(shapes.all())
    mesh = client("GET", f"/api/shape/{listed[5]['name']}").json()
    vertices = np.array(mesh["vertices"]).reshape(-1, 3)
    assert np.linalg.norm(vertices, axis=1).max() == pytest.approx(1, abs=1e-3)
    assert max(mesh["faces"]) < len(vertices)


@pytest.mark.parametrize("devices", [12, 5, 30])
def test_every_device_has_its_view(client, chair, devices):
    got = posted(client, "/api/views", {"object": chair.name, "devices": str(devices)})
    assert len(got["views"]) == len(got["azimuths"]) == got["devices"] == devices
    assert (got["note"] is None) == (devices == 12)
    grey, alpha = pixels(got["views"][-1])
    seen = views([(chair.vertices, chair.faces)], Cameras())[0, round(got["azimuths"][-1] / 30)]
    there = (seen[1] > 0).float()[None, None]
    assert np.allclose(alpha, torch.nn.functional.avg_pool2d(there, 2)[0, 0].numpy(), atol=0.5 / 255 + 1e-6)
    assert grey.max() > 0.3


def pixels(address):
    """Grey and alpha of a picture in a data: address."""
    picture = Image.open(BytesIO(b64decode(address.removeprefix("data:image/png;base64,"))))
    assert (picture.format, picture.mode) == ("PNG", "LA")
    return np.asarray(picture).transpose(2, 0, 1) / 255


@pytest.mark.parametrize("given", [{"model": "wearables"}, {"codec": "q16"}])
def test_a_model_without_views_shows_held_out_samples(client, given):
    listed = client("GET", "/api/shapes", params=given).json()
    assert listed["kind"] == "samples"
    assert "instead of a shape" in listed["note"]
    one = listed["shapes"][3]
    got = posted(client, "/api/infer", {**given, "object": one["name"], "seed": 1})
    assert got["truth"] == one["label"]
    seen = posted(client, "/api/views", {**given, "object": one["name"]})
    assert seen["views"] == []
    assert len(seen["azimuths"]) == seen["devices"] == len(got["devices"])
    refused = client("POST", "/api/infer", json={**given, "object": "chair_0"})
    assert refused.status_code == 404
    assert refused.json()["field"] == "object"


# Meshes of one's own


def test_a_mesh_of_one_s_own_is_inferred_as_a_shape_is(client, chair):
    found = uploaded(client, chair.off.encode(), "my%20chair.off").json()
    assert found["name"] == "my chair.off"
    assert found["num_faces"] == len(chair.faces)
    got = posted(client, "/api/infer", {"object": found["object"], "seed": 5})
    assert got["truth"] is None
    assert got["right"] is None
    assert got["label"] == "chair"
    same = posted(client, "/api/infer", {"object": chair.name, "seed": 5})
    # The file has six digits of every coordinate.
    assert np.allclose(got["probabilities"], same["probabilities"], atol=0.05)
    assert "Path('my chair.off')" in got["python"]
    assert client("GET", f"/api/shape/{found['object']}").json()["faces"] == found["faces"]


HOSTILE = {
    "notes.txt": (b"dear diary", "must end in .off"),
    "empty.off": (b"", "empty"),
    "noise.stl": (bytes(range(256)) * 40, "no mesh"),
    "cut.off": (CUBE[: len(CUBE) // 3], "no mesh"),
    "many.off": (b"OFF\n4000000000 4000000000 0\n0 0 0\n", "at most 200000"),
    "many.ply": (
        b"ply\nformat binary_little_endian 1.0\nelement vertex 4000000000\nproperty float x\nproperty float y\n"
        b"property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n\0\0\0\0",
        "no mesh",
    ),
    "many.stl": (b"\0" * 80 + struct.pack("<I", 2**32 - 1) + b"\0" * 50, "no mesh"),
    "nan.off": (b"OFF\n3 1 0\nnan 0 0\n0 inf 0\n0 0 1\n3 0 1 2\n", "no mesh"),
    "far.obj": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 900\n", "no mesh"),
    "flat.obj": (b"v 1 1 1\nv 1 1 1\nv 1 1 1\nf 1 2 3\n", "no mesh"),
    "nothing.obj": (b"mtllib ../../../../etc/passwd\nusemtl x\n", "no mesh"),
    "zip.obj": (b"PK\x03\x04" + zlib.compress(b"\0" * 10**7), "no mesh"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_no_mesh_is_refused_in_words(client, name):
    data, words = HOSTILE[name]
    answer = uploaded(client, data, name)
    assert answer.status_code == 400, answer.text
    told = answer.json()
    assert told["field"] == "object"
    assert words in told["error"]
    assert name in told["error"]
    assert "Traceback" not in answer.text
    assert len(told["error"]) < 300


def test_a_mesh_that_is_too_long_is_not_read_to_its_end(client):
    answer = uploaded(client, b"v 0 0 0\n" * (meshes.LIMITS.num_bytes // 8 + 1), "long.obj")
    assert answer.status_code == 413
    assert "bytes" in answer.json()["error"]


@pytest.mark.check
def test_a_mesh_that_takes_too_long_is_given_up_and_the_next_one_is_read(client, monkeypatch):
    rng = np.random.default_rng(0)
    corners, faces = rng.random((2_000, 3)), rng.integers(0, 2_000, (100_000, 3))
    slow = "OFF\n2000 100000 0\n" + "\n".join(" ".join(f"{x:.3f}" for x in row) for row in corners)
    slow += "\n" + "\n".join(f"3 {a} {b} {c}" for a, b, c in faces.tolist()) + "\n"
    with monkeypatch.context() as quick:
        quick.setattr(meshes, "SECONDS", 4.0)
        answer = uploaded(client, slow.encode(), "slow.off")
    assert answer.status_code == 400
    assert "simpler mesh" in answer.json()["error"]
    assert uploaded(client, CUBE, "cube.off").status_code == 200


def test_a_mesh_that_is_not_kept_any_more_is_said_to_be(client):
    answer = client("POST", "/api/views", json={"object": "own-0123456789abcdef"})
    assert answer.status_code == 404
    assert "choose its file again" in answer.json()["error"]


def test_few_things_are_kept_and_the_last_used_stay():
    kept = LastUsed[str](3, 100)
    for each in "abc":
        kept.put(each, each, 10)
    assert kept.get("a") == "a"
    kept.put("d", "d", 10)
    assert kept.get("b") is None
    assert kept.get("a") == "a"
    assert len(kept) == 3
    kept.put("e", "e", 95)
    assert len(kept) == 1
    assert kept.size <= 100


def test_names_of_files_are_shown_without_folders_and_control_characters():
    assert file_name("..%2F..%2Fetc%2Fpasswd.off") == "passwd.off"
    assert file_name("a%0d%0ab.off") == "ab.off"
    assert file_name("C:\\x\\ch%C3%A4ir.obj") == "chäir.obj"
    assert file_name(None) == ""
    assert len(file_name("x" * 5000 + ".off")) <= 81


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"object": 5},
        {"object": "../../etc/passwd"},
        {"object": "chair_0", "seed": -1},
        {"object": "chair_0", "seed": "1e9"},
        {"object": "chair_0", "seed": 2**60},
        {"object": "chair_0", "trials": 10**9},
        {"object": "chair_0", "trials": True},
        {"object": "chair_0", "devices": "0"},
        {"object": "chair_0", "unknown": "1"},
        {"object": "sample_3"},
    ],
    ids=json.dumps,
)
def test_a_mistake_is_told_and_nothing_fails(client, content):
    answer = client("POST", "/api/infer", json=content)
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]
