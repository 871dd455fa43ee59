"""Data and folder of a training job; a trunk on disk, for what is trained on its features."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from airpool._support.files import sha256
from airpool._support.progress import Progress, silent
from airpool.models import weights
from airpool.models.vision import features
from airpool.models.vision.features import Images
from airpool.models.vision.mvcnn import MVCNN, Architecture
from airpool_lab.training import card
from airpool_lab.vision import runs
from airpool_lab.vision.cad import Split
from airpool_lab.vision.runs import Source

_CAMERAS = 12
_BATCH = 16  # objects at a time


@dataclass(frozen=True, eq=False)
class Splits:
    """Views of a packed file's objects, and what trunks make of them. extra_views: of training objects."""

    source: Source
    resolution: int
    extra_views: int = 0
    torch_device: torch.device | str = "cpu"
    progress: Progress = silent
    _images: dict[Split, Images] = field(default_factory=dict)
    _features: dict[tuple[MVCNN, Split, bool], Tensor] = field(default_factory=dict)

    def require(self, which: Split, what: str) -> None:
        """Raises an error if a split that `what` needs has no objects."""
        if not len(self.source.rows[which]):
            raise ValueError(f"{self.source.path} has no {which} objects, on which a {what} depends")

    def images(self, which: Split) -> Images | None:
        """Views of a split: of the cameras, then the extra ones. None for a split without objects."""
        total, extra = len(self.source.rows[which]), self.extra_views if which == "train" else 0
        if total and which not in self._images:
            with self.progress(f"rendering {which}", total) as advance:
                self._images[which] = self.source.images(
                    which,
                    resolution=self.resolution,
                    extra_views=extra,
                    torch_device=self.torch_device,
                    on_objects=advance,
                )
        return self._images.get(which)

    def features(self, model: MVCNN, which: Split, what: str, *, whole: bool = False) -> tuple[Tensor, Tensor]:
        """Features of the cameras' views, on which `what` depends, and labels (N,): averages (N, 12, F) of the maps.

        whole: the maps (N, 12, F·49) in half precision, 0.6 MB an object for VGG11, 5.3 GB for ModelNet40's training.
        """
        self.require(which, what)
        shown = self.images(which)
        assert shown is not None
        if (key := (model, which, whole)) not in self._features:
            views = shown.views[:, :_CAMERAS]
            with self.progress(f"features of {which}", len(views)) as advance:
                if not whole:
                    self._features[key] = features.pooled(model.features, views, on_objects=advance)
                    return self._features[key], shown.labels
                size = (*views.shape[:2], math.prod(model.architecture.map_shape))
                self._features[key] = torch.empty(size, dtype=torch.float16, device=views.device)
                found = features.maps(model.features, views, batch=_BATCH)
                for rows, some in zip(self._features[key].split(_BATCH), found, strict=True):
                    rows.copy_(some)
                    advance(len(some))
        return self._features[key], shown.labels


Made = tuple[dict[str, Any], list[Path]]  # a card, and all files that were written


@dataclass(frozen=True)
class TrainingJob:
    """A training job: data, folder of the results, hardware, and the objects it may use.

    objects: at most that many of each split. test: whether the test set is read, after training. torch_device: cpu or
    cuda; None: cuda where there is one. log: called with a line for each epoch.
    """

    data: Path
    out: Path
    objects: int | None = None
    test: bool = False
    torch_device: str | None = None
    progress: Progress = silent
    log: Callable[[str], None] = lambda _: None

    def device(self) -> str:
        """The hardware; on CUDA, with the speed-ups that are safe for training."""
        wanted, there = self.torch_device, torch.cuda.is_available()
        if wanted not in (None, "cpu", "cuda"):
            raise ValueError(f"--torch-device {wanted!r} must be cpu or cuda")
        if wanted == "cuda" and not there:
            raise ValueError("--torch-device cuda: torch finds no CUDA device here; leave it out, or use cpu")
        if wanted == "cpu" or not there:
            return "cpu"
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        return "cuda"


@dataclass(frozen=True, eq=False)
class Work:
    """A job whose data have been read."""

    job: TrainingJob
    source: Source
    splits: Splits

    def file(self, name: str) -> Path:
        return self.job.out / f"{name}.safetensors"

    def card(
        self,
        name: str,
        files: Sequence[Path],
        recipe: Any,
        runs: Any,
        *,
        architecture: Mapping[str, Any] | None = None,
        trunk: Mapping[str, str] | None = None,
        calibration: Mapping[str, Any] | None = None,
        air: Mapping[str, Any] | None = None,
    ) -> Made:
        """The card of a result, written beside its weights."""
        made = card.card(
            name=name,
            data=self.source.about(),
            split=self.source.split(),
            recipe=asdict(recipe),
            runs=runs,
            architecture=architecture,
            trunk=trunk,
            calibration=calibration,
            air=air,
        )
        return made, [*files, *card.write(self.job.out / name, made)]


def begin(job: TrainingJob, name: str, architecture: Architecture, *, extra_views: int = 0) -> Work:
    """Reads the data and makes the folder. name: of the files to be written."""
    check_name(name)
    device = job.device()
    job.out.mkdir(parents=True, exist_ok=True)
    with job.progress("reading", None):
        source = runs.source(job.data, limit=job.objects)
    if job.test and not len(source.rows["test"]):
        raise ValueError(f"{job.data} holds no test objects: leave out --test")
    return Work(job, source, Splits(source, architecture.resolution, extra_views, device, job.progress))


def check_name(name: str) -> None:
    if not name or Path(name).name != name:
        raise ValueError(f"--name {name!r} must be a name, without folders")


@dataclass(frozen=True, eq=False)
class StoredTrunk:
    """A trunk on disk, and the data that it is to see."""

    files: Sequence[Path]
    model: MVCNN
    about: Mapping[str, Any]
    work: Work

    def require_classes(self) -> None:
        """Raises an error if the trunk's own classifier names other classes than the data's."""
        weights.require_classes(self.files, self.about, self.model.architecture.num_classes, self.work.source.classes)

    def features(self, which: Split, what: str, *, whole: bool = False) -> tuple[Tensor, Tensor]:
        return self.work.splits.features(self.model, which, what, whole=whole)

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of the files, by name."""
        return {path.name: sha256(path) for path in self.files}


def on_trunk(files: Sequence[Path], job: TrainingJob, name: str, work: Work | None = None) -> StoredTrunk:
    """A trunk on disk for the views that are rendered here. work: the job, if it has begun."""
    model, about = weights.load(files, device=job.device())
    if model.architecture.in_channels != 2:
        raise ValueError(f"{files[0]} takes {model.architecture.in_channels} channels: must be 2, shading and depth")
    return StoredTrunk(files, model, about, work or begin(job, name, model.architecture))
