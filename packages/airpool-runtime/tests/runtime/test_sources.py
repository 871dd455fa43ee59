"""What devices see, the bundle without torch, and the wire's generated code."""

import asyncio
import io
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import airpool
import airpool_runtime
from airpool.models.codecs import codec as codecs
from airpool.models.layers import in_numpy
from airpool.models.sensors.fitted import Fitted
from airpool.models.vision import shapes
from airpool.models.vision.views import Cameras, views
from airpool.protocol.inference import Simulation
from airpool_runtime import bundle as bundles
from airpool_runtime import seeded, sources
from airpool_runtime.air import Air
from airpool_runtime.device import Device, Seen
from airpool_runtime.device import run as run_device
from airpool_runtime.loopback import LoopbackDevice
from airpool_runtime.seeing import SourceError
from airpool_runtime.server import Server, codec_of
from airpool_runtime.sources import Place, labels_of, source_of

RUNTIME = Path(airpool_runtime.__file__).parent


@pytest.fixture(scope="module")
def model():
    return airpool.load("modelnet40")


@pytest.mark.parametrize("codec", ["vote", "compact", "q16"])
@pytest.mark.parametrize("devices", [12, 4, 14])
def test_shipped_latents_are_the_models_own(model, codec, devices):
    held = model.held_out("validation", codec=codec).fitted(devices)
    turn = sources.order(len(held.labels))
    for k in (0, devices - 1):
        latents, posteriors = sources.held_out_latents("modelnet40", "validation", codec, k, devices)
        np.testing.assert_allclose(latents, held.latents[turn, k], atol=3e-6)
        np.testing.assert_array_equal(posteriors, held.posteriors[turn, k])
    assert sources.held_out_labels("modelnet40", "validation") == held.labels[turn].tolist()


def test_a_model_of_own_sensors_is_a_source_too(tmp_path):
    own = airpool.load("wearables")
    assert isinstance(own, Fitted)
    own.save(tmp_path / "own.safetensors")
    held = own.held_out("test")
    turn = sources.order(len(held))
    for name in ("wearables", str(tmp_path / "own.safetensors")):
        for text in (f"latents:{name}/test", f"latents:{name}"):
            source, quick = source_of(text, Place(3, 5))
            assert quick
            seen = source(7)
            np.testing.assert_allclose(seen.latent, held.latents[turn[7], 3], atol=3e-6)  # in NumPy, there in torch
            np.testing.assert_array_equal(seen.posterior, held.posteriors[turn[7], 3])
            assert labels_of(text, own.classes) == held.labels[turn].tolist()
    with pytest.raises(ValueError, match="held-out objects 'train' must be test or validation"):
        source_of("latents:wearables/train", Place(3, 5))


def test_shipped_objects_come_in_one_shuffled_order():
    """Files are sorted by class: their first hundred objects are of one class, and its accuracy is not the model's."""
    assert sorted(sources.order(2468)) == list(range(2468))
    assert sources.order(6) == [4, 3, 0, 1, 2, 5]  # wherever it runs
    assert len(set(sources.held_out_labels("modelnet40", "test")[:100])) > 20


@pytest.mark.parametrize(
    "text", ["latents:other/test", "latents:modelnet40/train", "nothing", "no.such:thing", "os:nope"]
)
def test_a_source_that_is_not_there_is_an_error(text):
    with pytest.raises(ValueError, match=r"source|there is|is not a file"):
        source_of(text, Place(0, 12))


@pytest.mark.parametrize("text", ["mesh:x.off", "images:views", "camera:0"])
def test_views_need_a_bundle(text):
    with pytest.raises(ValueError, match="give --bundle FILE"):
        source_of(text, Place(0, 12))


def test_a_function_of_your_own_is_told_which_device_it_is(tmp_path, monkeypatch):
    (tmp_path / "own_sensor.py").write_text("def measured(number, device): return [number, device, 0.0], [0.5, 0.5]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    source, quick = source_of("own_sensor:measured", Place(3, 12))
    seen = source(7)
    assert seen.latent.tolist() == [7.0, 3.0, 0.0]
    assert seen.posterior is not None
    assert seen.posterior.tolist() == [0.5, 0.5]
    assert not quick


def test_labels_are_read_from_the_names_of_files(tmp_path, model):
    for name in ("chair_1", "lamp_0"):
        (tmp_path / f"{name}.off").write_text("")
    assert labels_of(f"mesh:{tmp_path}", model.classes) == [model.classes.index("chair"), model.classes.index("lamp")]
    (tmp_path / "thing_0.off").write_text("")
    assert labels_of(f"mesh:{tmp_path}", model.classes) is None


@torch.no_grad()
@pytest.mark.parametrize("devices", [12, 6, 24])
@pytest.mark.parametrize("codec", ["vote", "compact"])
def test_the_encoder_without_torch_is_that_of_the_model(model, codec, devices):
    chosen, rng = model.codec(codec), torch.Generator().manual_seed(0)
    maps = torch.rand(2, devices, 1280, 3, 3, generator=rng)
    averages = maps.mean((-2, -1))
    wanted = model._posteriors(averages)
    latents = chosen.encoder(wanted if codec == "vote" else averages)
    head = tuple(
        (layer.weight.numpy(), layer.bias.numpy()) for layer in model.head.classifier if hasattr(layer, "weight")
    )

    class Trunk:
        def __call__(self, batch):
            return batch

    own = codecs.moved(chosen, in_numpy)
    temperatures = model.head.temperatures.numpy()
    made = bundles.Bundle(Trunk(), (head,), temperatures, own, {})  # pyright: ignore[reportArgumentType]
    for k in (0, 5, devices - 1):
        seen = made.encoder(device=k, devices=devices)(maps[1, k].numpy())
        np.testing.assert_allclose(np.asarray(seen.posterior), wanted[1, k], atol=1e-6)
        np.testing.assert_allclose(seen.latent, latents[1, k], atol=1e-5)


def test_loopback_and_infer_give_the_same_from_views_of_a_mesh(model):
    net = airpool.calibrate(airpool.Network.uniform(num_devices=12, dimension=40, participation=0.9), epsilon=2.0)
    chosen = [next(shape for shape in shapes.all() if shape.label == label) for label in ("lamp", "chair")]
    resolution = model.trunk.architecture.resolution
    seen = views([(shape.vertices, shape.faces) for shape in chosen], Cameras(resolution=resolution))
    latents = model.encode(seen).double().numpy()

    async def play():
        air = Air(net, seed=2)
        tasks = []
        for k in range(12):
            device = Device(k, net, lambda i, k=k: Seen(latents[i, k]), seed=2)
            tasks.append(asyncio.create_task(run_device(device, LoopbackDevice(air, k))))
        server = Server(net, codec_of("modelnet40", net), air, simulated=True)
        results = [await server.infer() for _ in chosen]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return results

    for result in asyncio.run(play()):
        i = result.number
        how = Simulation(path="full")
        out = airpool.infer(model, seen[i : i + 1], network=net, rng=seeded.generator(2, i), simulation=how)
        assert result.label == int(out.label[0, 0])
        np.testing.assert_allclose(result.logits, out.logits[0, 0], atol=1e-5)
        assert result.name == chosen[i].label


def test_device_and_server_of_a_stored_model_load_no_torch():
    code = """
import sys
from airpool_runtime.server import codec_of
from airpool.network import file as network_file
import airpool_runtime.roles, airpool_runtime.bundle, airpool_runtime.transport
from airpool.network import Network
from airpool_runtime.sources import Place, source_of
from airpool_runtime.device import Device
net = Network.uniform(num_devices=12, dimension=40)
Device(3, net, source_of("latents:modelnet40/test", Place(3, 12))[0]).source(0)
source_of("latents:wearables/test", Place(3, 5))[0](0)
for model, codec, r in (("modelnet40", "vote", 40), ("modelnet40", "compact", 40), ("wearables", None, 19)):
    codec_of(model, Network.uniform(num_devices=5, dimension=r), codec=codec)
sys.exit("torch" in sys.modules or "rich" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_generated_code_is_that_of_the_proto_file(tmp_path):
    protoc = pytest.importorskip("grpc_tools.protoc")
    included = RUNTIME.parent
    args = ["", f"-I{included}", f"--python_out={tmp_path}", f"--grpc_python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main([*args, str(RUNTIME / "wire.proto")]) == 0
    for name in ("wire_pb2.py", "wire_pb2.pyi", "wire_pb2_grpc.py"):
        made, kept = ((folder / name).read_text() for folder in (tmp_path / "airpool_runtime", RUNTIME))
        if made.splitlines()[:12] != kept.splitlines()[:12] and name != "wire_pb2.pyi":
            pytest.skip("made by another version of grpcio-tools")
        assert made == kept


def test_a_file_that_is_no_bundle_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="airpool bundle"):
        bundles.read(tmp_path / "none.zip")
    (tmp_path / "bad.zip").write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match="damaged, or no bundle"):
        bundles.read(tmp_path / "bad.zip")


def test_a_small_bundle_cannot_claim_much_memory(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**9,)})
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("temperatures.npy", header.getvalue() + bytes(100))
    path = tmp_path / "claims.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in (
            ("trunk.onnx", b""),
            ("arrays.npz", inner.getvalue()),
            ("about.json", b"{}"),
        ):
            archive.writestr(name, part)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="which is not what it holds"):
            bundles.read(path)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trunk.onnx", bytes(257 * 2**20))
    with pytest.raises(ValueError, match="it unpacks to 269484032 bytes"):
        bundles.read(path)


class Recorded:
    """A bundle that gives back the view itself."""

    def __init__(self, *shape, cameras=()):
        self.view_shape, self.cameras, self.encoded = shape, cameras, []

    def camera(self, *, device, devices):
        return self.cameras[device] if self.cameras else None

    def encoder(self, *, device, devices):
        def encode(view):
            self.encoded.append(view)
            return Seen(view)

        return encode


def seen(text, *shape, device=0, number=0):
    recorded: Any = Recorded(*shape)
    return source_of(text, Place(device, 12), bundle=recorded)[0](number).latent


def test_images_are_cut_to_a_square_resized_and_put_channels_first(tmp_path):
    cv2 = pytest.importorskip("cv2", reason="the extra camera is not installed")
    image = np.zeros((40, 60, 4), np.uint8)
    image[:, 10:50] = (10, 20, 30, 200)  # blue, green, red, depth; what lies beside the square is cut off
    folder, file = f"images:{tmp_path}", tmp_path / "front" / "chair" / "a.png"
    file.parent.mkdir(parents=True)
    cv2.imwrite(str(file), image)
    colours, grey, both = (seen(folder, channels, 20, 20) for channels in (3, 1, 2))
    assert [int(channel.mean()) for channel in colours] == [30, 20, 10]
    assert (grey.shape, grey.dtype) == ((1, 20, 20), np.uint8)
    assert int(both[1].mean()) == 200
    cv2.imwrite(str(file), image[..., :3])
    with pytest.raises(SourceError, match="the second is depth"):
        seen(folder, 2, 20, 20)


def photographs(folder, cameras=("front", "left", "top"), objects=("chair/a", "chair/b", "lamp/a", "lamp/b")):
    """Pictures of one colour each: red says the camera, green the object."""
    from PIL import Image

    for c, name in enumerate(cameras):
        for o, thing in enumerate(objects):
            path = folder / name / f"{thing}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((30, 40, 3), (10 * c, 10 * o, 0), np.uint8)).save(path)
    return objects


def test_a_folder_of_cameras_shows_every_device_the_same_object(tmp_path, model):
    objects = photographs(tmp_path)
    text = f"images:{tmp_path}"
    turn = [objects[i] for i in sources.order(4)]
    assert labels_of(text, model.classes) == [model.classes.index(each.partition("/")[0]) for each in turn]
    bundle: Any = Recorded(3, 8, 8)
    for device in range(3):
        source, quick = source_of(text, Place(device, 3), bundle=bundle)
        assert not quick
        for number in range(8):
            red, green, blue = source(number).latent.reshape(3, -1).mean(1)
            assert (red, green, blue) == (10 * device, 10 * objects.index(turn[number % 4]), 0)


def test_pictures_are_those_of_training_to_the_byte(tmp_path):
    from PIL import Image

    from airpool.models.vision import picture

    rng = np.random.default_rng(0)
    path = tmp_path / "only" / "chair" / "a.jpg"
    path.parent.mkdir(parents=True)
    Image.fromarray(rng.integers(0, 256, (90, 120, 3), dtype=np.uint8)).save(path)
    bundle: Any = Recorded(3, 32, 32)
    found = source_of(f"images:{tmp_path}", Place(0, 1), bundle=bundle)[0](0).latent
    np.testing.assert_array_equal(found, picture.prepared(picture.read(path), 32))


def test_folders_of_cameras_are_in_the_order_of_their_numbers(tmp_path):
    photographs(tmp_path, [f"cam{k}" for k in range(12)], ["chair/a"])
    (tmp_path / "cam12").mkdir()  # without a picture
    assert sources.cameras(tmp_path, sources.listed(tmp_path)) == [f"cam{k}" for k in range(13)]


def test_the_camera_may_stand_in_the_name_of_a_picture(tmp_path, model):
    from PIL import Image

    (tmp_path / "lamp").mkdir()
    for k in range(2):
        Image.fromarray(np.full((9, 9, 3), 50 * (k + 1), np.uint8)).save(tmp_path / "lamp" / f"my_lamp_cam{k}.png")
    bundle: Any = Recorded(3, 8, 8)
    for k in range(2):
        found = source_of(f"images:{tmp_path}", Place(k, 2), bundle=bundle)[0](5).latent
        assert int(found.mean()) == 50 * (k + 1)
    assert labels_of(f"images:{tmp_path}", model.classes) == [model.classes.index("lamp")]
    photographs(tmp_path, ["a"], ["chair/a"])
    with pytest.raises(ValueError, match="pictures at different depths"):
        source_of(f"images:{tmp_path}", Place(0, 2), bundle=bundle)


def test_a_picture_that_is_missing_damaged_or_of_a_wrong_shape_is_named(tmp_path):
    photographs(tmp_path, ["a", "b"], ["chair/a"])
    (tmp_path / "b" / "chair" / "a.png").rename(tmp_path / "b" / "chair" / "b.png")
    (tmp_path / "c" / "chair").mkdir(parents=True)
    (tmp_path / "d" / "chair").mkdir(parents=True)
    whole = (tmp_path / "a" / "chair" / "a.png").read_bytes()
    (tmp_path / "c" / "chair" / "a.png").write_bytes(whole[: len(whole) // 2])
    np.save(tmp_path / "d" / "chair" / "a.npy", np.zeros((2, 5, 5), np.float32))
    bundle: Any = Recorded(3, 8, 8)
    first = sources.order(2).index(0)  # chair/a
    for device, why in ((1, "no such picture"), (2, "a.png: "), (3, r"shape \(2, 5, 5\), float32: must be a view")):
        source, encoded = source_of(f"images:{tmp_path}", Place(device, 4), bundle=bundle)[0], len(bundle.encoded)
        with pytest.raises(SourceError, match=why):
            source(first)
        assert len(bundle.encoded) == encoded + 1  # so that it takes as long as a good one
    (tmp_path / "e").mkdir()
    with pytest.raises(ValueError, match="no picture by camera e, which this device is; there is a, b, c and 1 more"):
        source_of(f"images:{tmp_path}", Place(4, 5), bundle=bundle)


def test_a_list_of_pictures_shows_those_to_test(tmp_path, model):
    photographs(tmp_path)
    rows = [
        f"{camera}/{thing}.png,{camera},{thing[:5].rstrip('/')},{thing},{'test' if thing.endswith('b') else 'train'}"
        for camera in ("front", "left", "top")
        for thing in ("chair/a", "chair/b", "lamp/a", "lamp/b")
    ]
    (tmp_path / "list.csv").write_text("\n".join(["file,camera,class,object,split", *rows]))
    text, bundle = f"images:{tmp_path / 'list.csv'}", cast("Any", Recorded(3, 8, 8))
    found = [source_of(text, Place(1, 3), bundle=bundle)[0](number).latent.mean((1, 2)) for number in range(3)]
    assert {tuple(each) for each in found} == {(10, 10, 0), (10, 30, 0)}
    assert labels_of(text, model.classes) == [model.classes.index(("chair", "lamp")[k]) for k in sources.order(2)]


def test_a_device_has_the_camera_that_the_model_was_fitted_for_or_is_refused(tmp_path):
    """By its name, wherever that stands among others."""
    photographs(tmp_path, ["door", "front", "left", "top"], ["chair/a"])
    bundle: Any = Recorded(3, 8, 8, cameras=("front", "left", "window"))
    for device, red in ((0, 10), (1, 20)):
        assert source_of(f"images:{tmp_path}", Place(device, 3), bundle=bundle)[0](0).latent[0].mean() == red
    with pytest.raises(ValueError, match="no picture by camera window, which this device is"):
        source_of(f"images:{tmp_path}", Place(2, 3), bundle=bundle)
    clips = tmp_path / "clips"
    clips.mkdir()
    for name in ("cam10.mp4", "cam2.mp4", "left.mp4"):
        (clips / name).touch()
    (clips / "labels.csv").touch()
    assert sources._clip(clips, Place(1, 3), bundle).name == "left.mp4"
    with pytest.raises(ValueError, match="no video of camera window, which device 2 is; there is cam2, cam10, left"):
        sources._clip(clips, Place(2, 3), bundle)
    unnamed: Any = Recorded(3, 8, 8)
    assert [sources._clip(clips, Place(k, 3), unnamed).stem for k in range(3)] == ["cam2", "cam10", "left"]


def test_a_plain_camera_is_refused_where_the_trunk_reads_depth():
    bundle: Any = Recorded(2, 8, 8)
    with pytest.raises(ValueError, match="has no depth, which the bundle's trunk reads"):
        source_of("camera:0", Place(0, 12), bundle=bundle)


def test_a_camera_that_is_not_there_is_an_error():
    pytest.importorskip("cv2", reason="the extra camera is not installed")
    with pytest.raises(ValueError, match="camera 77 cannot be opened"):
        seen("camera:77", 1, 20, 20)
    with pytest.raises(ValueError, match="must be a number"):
        seen("camera:front", 1, 20, 20)
