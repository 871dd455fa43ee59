"""Data and folder of a training job; a trunk on disk, for what is trained on its features."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from airpool._support.progress import Progress, silent
from airpool._support.tensors import sha256
from airpool.models import card, weights
from airpool.models.vision import runs
from airpool.models.vision.cad import Split
from airpool.models.vision.mvcnn import MVCNN, Architecture
from airpool.models.vision.runs import Source
from airpool.models.vision.splits import Splits

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

    def card(self, name: str, files: Sequence[Path], recipe: Any, runs: Any, **more: Any) -> Made:
        """The card of a result, written beside its weights."""
        about = {"data": self.source.about(), "split": self.source.split(), "recipe": asdict(recipe)}
        made = card.card(name=name, runs=runs, **about, **more)
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
