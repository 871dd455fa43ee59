"""Source of a device's views, named by a short text:

    latents:MODEL/SPLIT    held-out latents, shipped or of a model of your own (a file), one object after the other
    images:FOLDER          pictures in turn, a folder or CSV file as of `airpool fit`; folder: is its old form
    camera:INDEX           a camera of this machine, by OpenCV
    video:FILE             a video, played in a loop and in real time; video:demo, our own shapes on a turntable
    rtsp://HOST/PATH       a stream, by OpenCV
    http://HOST/PATH       MJPEG, or one picture after the other; also https
    mesh:PATH              a mesh, or a folder of them in turn, rendered from this device's camera (needs torch)
    MODULE:FUNCTION        a function of your own: number → latent, or (latent, posterior); or a view, with a bundle

All but latents give views (C, H, H), which a bundle makes latents of (bundle.py). "In turn" goes by the inference's
number. Cameras, videos and streams are live (capture.py): {device} in their text stands for the device's index.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from airpool._support.extras import load
from airpool.models.cameras import camera, camera_note
from airpool.models.images import videos
from airpool.models.images.pictures import named
from airpool.runtime import demo_clips, logs, pictures, readers, shipped
from airpool.runtime.bundle import Bundle, read
from airpool.runtime.capture import CameraFrame, Capture, Reader
from airpool.runtime.condition import SourceError
from airpool.runtime.device import Seen, Source

View = NDArray[Any]
DEMO = "video:demo"
_MESHES = (".off", ".obj", ".stl", ".ply")
_STORED, _STREAMS = ("mesh", "images", "folder"), ("rtsp", "rtsps", "http", "https")
_LIVE = ("camera", "video", *_STREAMS)
_FIRST_FRAME_SECONDS = 10.0


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
    view = (_mesh if kind == "mesh" else _images)(rest, at, bundle, old=kind == "folder")
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
        shipped.labels(*_held_out(rest))
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
        return shipped.labels(*_held_out(rest))
    if kind == "images":
        found = pictures.listed(Path(rest))
        names = [found.labels[k] for k in pictures.in_order(found)]
    elif kind in _STORED and Path(rest).is_dir():
        endings = _MESHES if kind == "mesh" else pictures.ENDINGS
        names = [path.stem.rpartition("_")[0] for path in pictures.in_turn(Path(rest), endings)]
    else:
        return None
    return [classes.index(name) for name in names] if set(names) <= set(classes) else None


def cameras_of(text: str, devices: int) -> str | None:
    """A note on a model's sensors left out or repeated where devices have its held-out objects; None without any."""
    kind, _, rest = text.partition(":")
    if kind == "images":
        return camera_note(devices, len(pictures.listed(Path(rest)).cameras))
    return camera_note(devices, shipped.cameras(*_held_out(rest))) if kind == "latents" else None


def _held_out(text: str) -> tuple[str, str]:
    """Model and split of a text such as modelnet40/test; a model may be a path."""
    model, _, split = text.rpartition("/")
    return (model, split) if model and not split.endswith(".safetensors") else (text, "test")


def _latents(text: str, at: Place, codec: str | None) -> Source:
    latents, posteriors = shipped.latents(*_held_out(text), codec, at.device, at.devices)
    return lambda number: Seen(latents[number % len(latents)], posteriors[number % len(latents)])


def _mesh(text: str, at: Place, bundle: Bundle, *, old: bool) -> Callable[[int], View]:
    load("torch", "rendering a mesh")
    from airpool.models.vision import meshes
    from airpool.models.vision.views import Cameras, views

    objects = [meshes.read(path) for path in pictures.in_turn(Path(text), _MESHES)]
    own = Cameras(at.devices, resolution=bundle.view_shape[-1]).alone(at.device)

    def view(number: int) -> View:
        mesh = objects[number % len(objects)]
        return views([(mesh.vertices, mesh.faces)], own)[0, 0].numpy()

    return view


def _images(text: str, at: Place, bundle: Bundle, *, old: bool) -> Callable[[int], View]:
    """Pictures in turn. old: PATH/3 is that of device 3, else all devices read PATH."""
    folder, shape = Path(text), bundle.view_shape
    if not old:
        found = pictures.listed(folder)
        own = _own(at, bundle, pictures.cameras(folder, found))
        return partial(pictures.DevicePictures(found, own).read, shape=shape)
    own = folder / str(at.device)
    paths = pictures.in_turn(own if own.is_dir() else folder)
    return lambda number: pictures.view(paths[number % len(paths)], shape)


def _live(text: str, at: Place, bundle: Bundle, encode: Callable[[View], Seen]) -> Source:
    """The newest frame of a camera, file or stream. What is of this machine must be there at the start."""
    if text != DEMO:
        _require_no_depth(text, bundle)
    kind, _, rest = text.replace("{device}", str(at.device)).partition(":")
    if kind in _STREAMS:
        url = f"{kind}:{rest}"
        opening = partial(readers.stream if kind.startswith("rtsp") else readers.pictures, url)
    elif kind == "camera":
        opening = partial(readers.camera, int(rest))
    elif text == DEMO:
        opening = partial(demo_clips.Player, at.device, at.devices)
    else:
        opening = partial(readers.video, _clip(Path(rest), at, bundle))
    try:
        opened: Reader | None = None if kind in _STREAMS else opening()
    except OSError as error:
        raise ValueError(str(error)) from None
    capture = Capture(opening, name=_without_secrets(f"{kind}:{rest}"), device=at.device, opened=opened)
    capture.wait(_FIRST_FRAME_SECONDS)

    def source(_: int) -> Seen:
        try:
            frame = capture.newest()
        except SourceError:
            if (last := capture.last) is None:
                last = CameraFrame(np.zeros(bundle.view_shape, np.uint8), 0.0)
            encode(pictures.checked(last.pixels, bundle.view_shape))  # a black frame takes as long as another
            raise
        return replace(encode(pictures.checked(frame.pixels, bundle.view_shape)), time=frame.time)

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
            return found if bundle is None else pictures.checked(np.asarray(found), bundle.view_shape)

        if encode is not None and bundle is not None:
            return replace(_encoded(encode, view, bundle), time=taken)
        found = view()
        latent, posterior = found if isinstance(found, tuple) else (found, None)
        own = None if posterior is None else np.asarray(posterior, np.float64)
        return Seen(np.asarray(latent, np.float64), own, taken)

    return source
