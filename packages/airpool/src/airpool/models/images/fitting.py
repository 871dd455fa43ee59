"""`airpool.fit`: a model of your own sensors, from their features or, of cameras, from their pictures.

model = airpool.fit(images="shop")                       # shop/CAMERA/CLASS/OBJECT.jpg
model = airpool.fit(features, labels, groups=subjects)
model.save("shop.safetensors")
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from airpool._support.arrays import Array
from airpool._support.progress import Progress, automatic
from airpool.models.images import folder
from airpool.models.images import trunk as trunks
from airpool.models.images import videos as of_videos
from airpool.models.images.features import PictureFeatures, features
from airpool.models.images.pictures import require_enough
from airpool.models.images.trunk import ImageTrunk
from airpool.models.sensors import fitting as of_features
from airpool.models.sensors.fitted import Fitted
from airpool.models.sensors.fitting import EPSILON, FitRecipe
from airpool.network import Claim, Network

# A frozen trunk's features and few objects: linear heads.
RECIPE = FitRecipe(hidden=(0,), codec_steps=600)

_LEAST = 3  # objects of a class: one to train on, one to validate, one to test


def fit(
    features: Any = None,
    labels: ArrayLike | None = None,
    *,
    images: Path | str | None = None,
    videos: Path | str | None = None,
    cache: Path | str | None = None,
    groups: ArrayLike | None = None,
    present: Array | None = None,
    split: ArrayLike | None = None,
    epsilon: ArrayLike = EPSILON,
    network: Network | None = None,
    claim: Claim = Claim(),
    recipe: FitRecipe | None = None,
    name: str | None = None,
    progress: Progress = automatic,
) -> Fitted:
    """A model of K sensors, from features and labels (models.sensors.fitting.fit), or of cameras from their pictures.

    images: a folder CAMERA/CLASS/OBJECT.jpg or CLASS/OBJECT_CAMERA.jpg, or a CSV file with the columns file, camera,
    class, object and, if you like, group and split. videos: a folder of one video for each camera, and labels.csv
    (models.images.videos). The trunk is the one that ships. cache: a file for what it makes of
    each picture, which then is not computed again. A picture that is not there or cannot be read is a missing sensor;
    `model.about["pictures"]` says what was left out.
    groups, present, split: of features alone. epsilon, network, claim, recipe, name, progress: of both.

    >>> import numpy as np
    >>> labels = np.arange(60) % 3                                      # three classes, seen by four sensors
    >>> features = np.eye(3)[labels][:, None] + np.random.default_rng(0).normal(scale=0.2, size=(60, 4, 3))
    >>> quick = FitRecipe(alike=True, hidden=(0,), head_steps=20, codec_steps=1, trials=1)  # left out: longer
    >>> model = fit(features, labels, epsilon=4, recipe=quick)
    >>> model.classes, model.num_devices, model.codecs[0]
    (('0', '1', '2'), 4, 'vote')
    """
    if images is None and videos is None:
        if features is None or labels is None:
            raise TypeError("give features and labels, or images or videos: a folder of them")
        if cache is not None:
            raise TypeError("cache is for images: features are there already")
        return of_features.fit(
            features,
            labels,
            groups=groups,
            present=present,
            split=split,
            epsilon=epsilon,
            network=network,
            claim=claim,
            recipe=recipe,
            name=name or "own",
            progress=progress,
        )
    if features is not None or labels is not None or (images is not None and videos is not None):
        raise TypeError("give features and labels, or images, or videos, not several of them")
    for mixed, given in (("groups", groups), ("present", present), ("split", split)):
        if given is not None:
            raise TypeError(f"{mixed} is for features: of images, give a CSV file with a column for it")
    taken = of_videos.found(videos) if videos is not None else folder.found(images or "")
    found = seen(taken, trunks.shipped(), cache=cache, progress=progress)
    return fitted(
        found,
        trunks.shipped(),
        epsilon=epsilon,
        network=network,
        claim=claim,
        recipe=recipe or RECIPE,
        name=name or "cameras",
        progress=progress,
    )


def seen(pictures: Any, trunk: ImageTrunk, *, cache: Path | str | None, progress: Any = automatic) -> PictureFeatures:
    """Features that the trunk makes of the pictures; an error where they are too few to be worth the work."""
    require_enough(pictures.labels, pictures.groups, _LEAST if pictures.split is None else 1)
    found = features(pictures, trunk, kept=None if cache is None else Path(cache), progress=progress)
    require_enough(found.pictures.labels, found.pictures.groups, _LEAST if pictures.split is None else 1)
    return found


def fitted(
    found: PictureFeatures,
    trunk: ImageTrunk,
    *,
    split: ArrayLike | None = None,
    epsilon: ArrayLike = EPSILON,
    network: Network | None = None,
    claim: Claim = Claim(),
    recipe: FitRecipe = RECIPE,
    name: str = "cameras",
    progress: Progress = automatic,
) -> Fitted:
    """A model of the features of pictures. split: (N,); left out, as their list says, or by group."""
    pictures = found.pictures
    model = of_features.fit(
        found.features,
        pictures.labels,
        groups=pictures.groups,
        present=None if found.present.all() else found.present,
        split=pictures.split if split is None else split,
        epsilon=epsilon,
        network=network,
        claim=claim,
        recipe=recipe,
        name=name,
        progress=progress,
    )
    about = {"cameras": list(pictures.cameras), "read": int(found.present.sum()), "notes": list(pictures.notes)}
    return replace(model, trunk=trunk, about={**model.about, "pictures": about})
