"""Source of a device's views, named by a short text:

    latents:MODEL/SPLIT    held-out latents, shipped or of a model of your own (a file), one object after the other
    images:FOLDER          pictures in turn, a folder or CSV file as of `airpool fit`
    camera:INDEX           a camera of this machine, by OpenCV
    video:FILE             a video, played in a loop and in real time; video:demo, our own shapes on a turntable
    rtsp://HOST/PATH       a stream, by OpenCV
    http://HOST/PATH       MJPEG, or one picture after the other; also https
    mesh:PATH              a mesh, or a folder of them in turn, rendered from this device's camera (needs torch)
    MODULE:FUNCTION        a function of your own: number → latent, or (latent, posterior); or a view, with a bundle

All but latents give views (C, H, H), which a bundle makes latents of (bundle.py). "In turn" goes by the inference's
number: the same number is the same object for every device. Cameras, videos and streams are live (capture.py):
{device} in their text stands for the device's index.
"""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.arrays import Floats
from airpool._support.extras import load
from airpool.models import stored
from airpool.models.cameras import camera, camera_note
from airpool.models.images import folder, videos
from airpool.models.images.pictures import Pictures, named, natural, shown
from airpool.models.vision import picture
from airpool.models.vision.meshes import SUFFIXES
from airpool_runtime import capture, demo_clips, logs
from airpool_runtime.bundle import Bundle, read
from airpool_runtime.capture import CameraFrame, Capture, Reader
from airpool_runtime.device import Seen, Source
from airpool_runtime.seeing import SourceError

View = NDArray[Any]
DEMO = "video:demo"
_STORED, _STREAMS = ("mesh", "images"), ("rtsp", "rtsps", "http", "https")
_LIVE = ("camera", "video", *_STREAMS)
_FIRST_FRAME_SECONDS = 10.0


def held_out_latents(model: str, split: str, codec: str | None, device: int, devices: int) -> tuple[Floats, Floats]:
    """Latents (N, r) and posteriors (N, L) of one device; with more devices than cameras, these repeat."""
    held = stored.found(model)
    arrays = held.objects(split, codec)
    view = camera(device, devices, arrays["posteriors"].shape[1])
    turn = order(len(arrays["labels"]))
    own = {name: each[turn, view] if name in ("latents", "posteriors") else each for name, each in arrays.items()}
    posteriors = own["posteriors"].astype(np.float32)
    sent = stored.latents_of(held.codec(codec), own, posteriors)
    return sent.astype(np.float64), posteriors.astype(np.float64)


def held_out_labels(model: str, split: str) -> list[int]:
    known = stored.found(model).objects(split)["labels"]
    return known[order(len(known))].astype(int).tolist()


@cache
def order(objects: int) -> list[int]:
    """The place in the file of the first object, of the second, and so on."""
    return sorted(range(objects), key=lambda place: hashlib.sha256(b"%d" % place).digest())


def listed(path: Path) -> Pictures:
    return folder.found(path, more=(".npy",))


def in_order(found: Pictures) -> list[int]:
    """Objects in one shuffled order; of a list with splits, those to test."""
    some = [k for k in range(len(found.objects)) if found.split is None or found.split[k] == "test"]
    some = some or list(range(len(found.objects)))
    return [some[k] for k in order(len(some))]


def cameras(path: Path, found: Pictures) -> list[str]:
    """Names of the cameras. One whose folder is empty is one, too: else others would be taken for their neighbours."""
    own, file = set(found.cameras), found.shots[0].file
    if path.is_dir() and file is not None and file.parents[2] == path:
        own |= {shown(each.name) for each in path.iterdir() if each.is_dir() and not each.name.startswith((".", "__"))}
    return sorted(own, key=natural)


class DevicePictures:
    """Pictures of one camera, by its name."""

    def __init__(self, found: Pictures, camera: str) -> None:
        self._objects, self._turn, self._camera = found.objects, in_order(found), camera
        self._files = {shot.object: shot.file for shot in found.shots if found.cameras[shot.camera] == camera}
        if not self._files:
            raise ValueError(f"no picture by camera {camera}, which this device is; there is {named(found.cameras)}")

    def read(self, number: int, shape: Sequence[int]) -> View:
        """The view (C, H, H) of an inference's object."""
        wanted = self._turn[number % len(self._turn)]
        path = self._files.get(wanted)
        if path is None:
            raise SourceError("gone", f"{self._objects[wanted]}: camera {self._camera} has no such picture")
        return view(path, shape)


def view(path: Path, shape: Sequence[int]) -> View:
    try:
        if path.suffix == ".npy":
            return checked(files.array(path), shape)
        return fitted(picture.read(path, alpha=shape[0] != 3), shape)
    except (OSError, ValueError) as error:
        kind = error.kind if isinstance(error, SourceError) else "damaged"
        raise SourceError(kind, f"{path}: {error}") from None


def checked(found: View, shape: Sequence[int]) -> View:
    """A view of the trunk's own shape as it is; any other picture fitted."""
    if found.shape == tuple(shape):
        return found
    if found.dtype == np.uint8 and (found.ndim == 2 or (found.ndim == 3 and found.shape[2] in (1, 2, 3, 4))):
        return fitted(found, shape)
    wanted = f"a view {tuple(shape)}, or a picture (h, w, 3) of bytes"
    raise SourceError("size", f"a view of shape {found.shape}, {found.dtype}: must be {wanted}")


def fitted(image: View, shape: Sequence[int]) -> View:
    """An image (h, w), (h, w, channels) of bytes as the trunk takes it: cut to a square, resized, channels first.

    A trunk of three channels reads red, green, blue, exactly as in training (models/vision/picture.py); of one, grey;
    of two, grey and depth, which is the image's alpha.
    """
    channels, side = shape[0], shape[-1]
    planes = image[..., None] if image.ndim == 2 else image
    colours, alpha = (planes[..., :-1], planes[..., -1]) if planes.shape[2] in (2, 4) else (planes, None)
    if channels == 3:
        return picture.prepared(np.ascontiguousarray(np.broadcast_to(colours, (*colours.shape[:2], 3))), side)
    if channels not in (1, 2) or (channels == 2 and alpha is None):
        why = f"the trunk reads {channels} channels: of two, the second is depth, as an image's alpha"
        raise SourceError("size", why)
    image_of = load("PIL.Image", "pictures")
    grey = image_of.fromarray(np.ascontiguousarray(colours)).convert("L") if colours.shape[2] == 3 else colours[..., 0]
    wanted = [np.asarray(grey)] if channels == 1 or alpha is None else [np.asarray(grey), alpha]
    cut = min(image.shape[:2])
    top, left = (image.shape[0] - cut) // 2, (image.shape[1] - cut) // 2
    square = [np.ascontiguousarray(each[top : top + cut, left : left + cut]) for each in wanted]
    return np.stack([image_of.fromarray(each).resize((side, side), image_of.Resampling.BOX) for each in square])


@dataclass(frozen=True)
class Place:
    """Index of a device and the number of devices."""

    device: int
    devices: int


def source_of(text: str, at: Place, *, codec: str | None = None, bundle: Bundle | None = None) -> tuple[Source, bool]:
    """The source that a text names, and whether it is quick: whether it may run between two messages."""
    require(text, bundle=bundle is not None)
    kind, _, rest = text.partition(":")
    if kind == "latents":
        return _latents(rest, at, codec), True
    if kind not in (*_STORED, *_LIVE):
        return _function(text, at, bundle), False
    assert bundle is not None
    if name := bundle.camera(device=at.device, devices=at.devices):
        logs.event("camera", device=at.device, reason=f"this device is camera {name} of the model")
    encode = bundle.encoder(device=at.device, devices=at.devices)
    if kind in _LIVE:
        return _live(text, at, bundle, encode), False
    view = (_mesh if kind == "mesh" else _images)(rest, at, bundle)
    return lambda number: _encoded(encode, partial(view, number), bundle), False


def _encoded(encode: Callable[[View], Seen], view: Callable[[], View], bundle: Bundle) -> Seen:
    """A view, encoded. Where there is none, something is encoded all the same: nobody is to tell it by the time."""
    try:
        found = view()
    except Exception:
        encode(np.zeros(bundle.view_shape, np.uint8))
        raise
    return encode(found)


def require(text: str, *, bundle: bool) -> None:
    """Raises a ValueError where a text names no source; nothing is opened. bundle: whether there is one."""
    kind, _, rest = text.partition(":")
    if not rest:
        known = "latents:MODEL/SPLIT, images:FOLDER, camera:INDEX, video:FILE, rtsp://..., http://..., mesh:PATH"
        raise ValueError(f"source {text!r} must be {known} or MODULE:FUNCTION")
    if kind == "latents":
        held_out_labels(*_held_out(rest))
    elif kind not in (*_STORED, *_LIVE):
        _imported(text)
    elif not bundle:
        raise ValueError(
            f"source {text!r} gives views: give --bundle FILE, which makes latents of them (airpool bundle)"
        )
    elif kind == "camera" and not rest.replace("{device}", "0").isdecimal():
        raise ValueError(f"camera:{rest} must be a number: which camera of this machine")
    elif kind in _STREAMS and not urlsplit(text).hostname:
        raise ValueError(f"source {_without_secrets(text)!r} must name a host, as in {kind}://HOST/PATH")
    elif (kind in _STORED or kind == "video") and text != DEMO and "{device}" not in rest and not Path(rest).exists():
        raise ValueError(f"{kind}:{rest}: there is no such file or folder")


def require_views(text: str, bundle: Path) -> None:
    """Raises a ValueError where a bundle does not read what a source gives."""
    kind = text.partition(":")[0]
    if kind == "latents":
        raise ValueError("--bundle makes latents of views: it does not go with a source of latents")
    if kind in _LIVE and text != DEMO:
        _require_no_depth(text, read(bundle, threads=1))


def labels_of(text: str, classes: tuple[str, ...]) -> list[int] | None:
    """The true labels of a source's objects, where they are known: of shipped latents, and of files or folders named by
    class."""
    kind, _, rest = text.partition(":")
    if kind == "latents":
        return held_out_labels(*_held_out(rest))
    if kind == "images":
        found = listed(Path(rest))
        names = [found.labels[k] for k in in_order(found)]
    elif kind == "mesh" and Path(rest).is_dir():
        names = [path.stem.rpartition("_")[0] for path in _meshes(Path(rest))]
    else:
        return None
    return [classes.index(name) for name in names] if set(names) <= set(classes) else None


def cameras_of(text: str, devices: int) -> str | None:
    """A note on a model's sensors left out or repeated where devices have its held-out objects; None without any."""
    kind, _, rest = text.partition(":")
    if kind == "images":
        return camera_note(devices, len(listed(Path(rest)).cameras))
    if kind != "latents":
        return None
    model, split = _held_out(rest)
    return camera_note(devices, stored.found(model).objects(split)["posteriors"].shape[1])


def _held_out(text: str) -> tuple[str, str]:
    """Model and split of a text such as modelnet40/test; a model may be a path."""
    model, _, split = text.rpartition("/")
    return (model, split) if model and not split.endswith(".safetensors") else (text, "test")


def _latents(text: str, at: Place, codec: str | None) -> Source:
    latents, posteriors = held_out_latents(*_held_out(text), codec, at.device, at.devices)
    return lambda number: Seen(latents[number % len(latents)], posteriors[number % len(latents)])


def _mesh(text: str, at: Place, bundle: Bundle) -> Callable[[int], View]:
    load("torch", "rendering a mesh")
    from airpool.models.vision import meshes
    from airpool.models.vision.views import Cameras, views

    objects = [meshes.read(path) for path in _meshes(Path(text))]
    own = Cameras(at.devices, resolution=bundle.view_shape[-1]).alone(at.device)

    def view(number: int) -> View:
        mesh = objects[number % len(objects)]
        return views([(mesh.vertices, mesh.faces)], own)[0, 0].numpy()

    return view


def _meshes(path: Path) -> list[Path]:
    """The file, or the files of a folder by name."""
    found = sorted(each for each in path.iterdir() if each.suffix.lower() in SUFFIXES) if path.is_dir() else [path]
    if not found or not found[0].exists():
        raise ValueError(f"{path}: no file that ends with {', '.join(SUFFIXES)}")
    return found


def _images(text: str, at: Place, bundle: Bundle) -> Callable[[int], View]:
    folder = Path(text)
    found = listed(folder)
    own = _own(at, bundle, cameras(folder, found))
    return partial(DevicePictures(found, own).read, shape=bundle.view_shape)


def _live(text: str, at: Place, bundle: Bundle, encode: Callable[[View], Seen]) -> Source:
    """The newest frame of a camera, file or stream. What is of this machine must be there at the start."""
    if text != DEMO:
        _require_no_depth(text, bundle)
    kind, _, rest = text.replace("{device}", str(at.device)).partition(":")
    if kind in _STREAMS:
        url = f"{kind}:{rest}"
        opening = partial(capture.stream if kind.startswith("rtsp") else capture.HttpPictures, url)
    elif kind == "camera":
        opening = partial(capture.camera, int(rest))
    elif text == DEMO:
        opening = partial(demo_clips.Player, at.device, at.devices)
    else:
        opening = partial(capture.video, _clip(Path(rest), at, bundle))
    try:
        opened: Reader | None = None if kind in _STREAMS else opening()
    except OSError as error:
        raise ValueError(str(error)) from None
    live = Capture(opening, name=_without_secrets(f"{kind}:{rest}"), device=at.device, opened=opened)
    live.wait(_FIRST_FRAME_SECONDS)

    def source(_: int) -> Seen:
        try:
            frame = live.newest()
        except SourceError:
            if (last := live.last) is None:
                last = CameraFrame(np.zeros(bundle.view_shape, np.uint8), 0.0)
            encode(checked(last.pixels, bundle.view_shape))  # a black frame takes as long as another
            raise
        return replace(encode(checked(frame.pixels, bundle.view_shape)), time=frame.time)

    return source


def _require_no_depth(text: str, bundle: Bundle) -> None:
    if bundle.view_shape[0] == 2:
        raise ValueError(
            f"source {_without_secrets(text)!r} has no depth, which the bundle's trunk reads: make a bundle of a model "
            "of photographs, as airpool fit --images trains it"
        )


def _clip(path: Path, at: Place, bundle: Bundle) -> Path:
    """The video, or of a folder the one of this device's camera."""
    if not path.is_dir():
        return path
    found = videos.files(path)
    if (own := _own(at, bundle, list(found))) not in found:
        raise ValueError(f"{path}: no video of camera {own}, which device {at.device} is; there is {named([*found])}")
    return found[own]


def _own(at: Place, bundle: Bundle, names: Sequence[str]) -> str:
    """Name of the device's camera: as the model has it, else by its place among those that are there."""
    return bundle.camera(device=at.device, devices=at.devices) or names[camera(at.device, at.devices, len(names))]


def _without_secrets(text: str) -> str:
    """The text of a source without user and password.

    >>> _without_secrets("rtsp://me:secret@10.0.0.7/stream?key=5"), _without_secrets("camera:0")
    ('rtsp://10.0.0.7/stream', 'camera:0')
    """
    if text.partition(":")[0] not in _STREAMS:
        return text
    parts = urlsplit(text)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _imported(text: str) -> Callable[..., Any]:
    module, _, name = text.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"source {text!r}: {error}; give MODULE:FUNCTION of what can be imported") from None


def _function(text: str, at: Place, bundle: Bundle | None) -> Source:
    """Called with the number, and with device and devices where it names them; a CameraFrame has a time."""
    function = _imported(text)
    wanted = {"device": at.device, "devices": at.devices}
    given = {key: value for key, value in wanted.items() if key in inspect.signature(function).parameters}
    encode = None if bundle is None else bundle.encoder(device=at.device, devices=at.devices)

    def source(number: int) -> Seen:
        taken: float | None = None

        def view() -> Any:
            nonlocal taken
            found = function(number, **given)
            found, taken = (found.pixels, found.time) if isinstance(found, CameraFrame) else (found, None)
            return found if bundle is None else checked(np.asarray(found), bundle.view_shape)

        if encode is not None and bundle is not None:
            return replace(_encoded(encode, view, bundle), time=taken)
        found = view()
        latent, posterior = found if isinstance(found, tuple) else (found, None)
        own = None if posterior is None else np.asarray(posterior, np.float64)
        return Seen(np.asarray(latent, np.float64), own, taken)

    return source
