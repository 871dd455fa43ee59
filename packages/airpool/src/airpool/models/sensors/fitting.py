"""`airpool.fit`: from features of your own sensors to a model, with local heads, the vote, and a codec.

    model = airpool.fit(features, labels, groups=subjects, epsilon=(2, 8))
    model.save("own.safetensors")                            # airpool evaluate --model own.safetensors --epsilon 2

Objects are split into train, validation and test, by group. Heads are chosen, and the vote is fitted, on what heads
that were trained on other groups say of the training objects. The vote is the default unless the codec is better on the
validation groups beyond doubt. The test objects are kept in the model and not looked at.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from airpool._support.arrays import Array, positive
from airpool._support.progress import Progress, automatic
from airpool._support.threads import single_thread
from airpool.account.calibration import calibrate
from airpool.models.codecs import codec as codecs
from airpool.models.codecs import training as codec_training
from airpool.models.codecs import vote as votes
from airpool.models.codecs.codec import Codec
from airpool.models.codecs.dense import RATIOS, CodecShape, DenseCodec
from airpool.models.codecs.training import CodecRecipe, Setting, decoded, setting
from airpool.models.local import HeadRecipe
from airpool.models.model import declared
from airpool.models.sensors import fitted as sensor_heads
from airpool.models.sensors.fitted import Crossed, Fitted, Heads, Part, halved, kept
from airpool.models.sensors.stacking import Sensors, presence, stack, standardising
from airpool.models.stored import HeldOut
from airpool.network import Claim, Network, require_network

EPSILON = (1.0, 2.0, 4.0, 8.0)

_HELD_OUT: tuple[HeldOut, ...] = ("validation", "test")
_DOUBT = 2.0  # standard errors over groups, by which a codec must be better than the vote to be the default


@dataclass(frozen=True)
class FitRecipe:
    """Training settings of `fit`.

    alike: whether sensors share one head and one encoder; None: those of an array if it pays. hidden: units of
    the local heads to choose from, 0 for linear. head_steps, codec_steps: at least. codec_hidden, server_hidden: units
    of the codec's two ends. dimension: r; None: the number of
    classes. trials: draws of the noise for each validation object, by which codec and vote are compared.

    >>> FitRecipe(hidden=(0,), head_steps=100).codec_steps
    1500
    """

    alike: bool | None = None
    hidden: tuple[int, ...] = (0, 128)
    head: HeadRecipe = field(
        default_factory=lambda: HeadRecipe(views=256, learning_rate=3e-3, weight_decay=0.1, label_smoothing=0.1)
    )
    head_steps: int = 500
    codec: CodecRecipe = field(default_factory=lambda: CodecRecipe(objects=128))
    codec_steps: int = 1500
    codec_hidden: int = 128
    server_hidden: int = 512
    dimension: int | None = None
    trials: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("head_steps", "codec_steps", "codec_hidden", "server_hidden", "dimension", "trials", "seed"):
            value, least = getattr(self, name), 0 if name == "seed" else 1
            if not (name == "dimension" and value is None) and (type(value) is not int or value < least):
                raise ValueError(f"{name}={value!r} must be a whole number ≥ {least}")
        if not self.hidden:
            raise ValueError("hidden is empty: name one size of the local heads at least, 0 for linear")


@dataclass(frozen=True, eq=False)
class _Choice:
    """Local heads of a recipe, and all objects as they see them."""

    recipe: HeadRecipe
    alike: bool
    sensors: Sensors
    objects: Part
    crossed: Crossed


@single_thread()
def fit(
    features: Any,
    labels: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    present: Array | None = None,
    split: ArrayLike | None = None,
    epsilon: ArrayLike = EPSILON,
    network: Network | None = None,
    claim: Claim = Claim(),
    recipe: FitRecipe | None = None,
    name: str = "own",
    progress: Progress = automatic,
) -> Fitted:
    """A model of K sensors from features (N, K, F), or a list of K arrays (N, F_k), and labels (N,), numbers or text.

    groups: (N,), what the split must not tear apart, such as subjects. present: (N, K) bool, False where a sensor was
    missing. split: (N,) of "train", "validation" and "test"; left out, three, one and one fifth of the groups.
    epsilon: budgets that the codec is trained for and chosen by. network: devices and channel; left out, K equal
    devices on an ideal channel. claim: what each budget is about. The same arguments and torch give the same model on a
    CPU.
    progress: left out, shown where there is a terminal or a notebook.
    """
    how = recipe or FitRecipe()
    whole, widths = stack(features)
    count, num_devices, _ = whole.shape
    classes, targets = class_of(labels, count)
    there = presence(whole, present)
    if num_devices == 1:
        warnings.warn("one sensor: nothing is pooled, and its own noise alone protects it", stacklevel=2)
    group = group_of(groups, count)
    kinds = dealt_out(targets, group, split, seed=how.seed)
    rows = {kind: torch.from_numpy(kinds == kind) for kind in PARTS}
    _check(classes, targets, kinds)
    budgets = np.atleast_1d(positive("epsilon", epsilon)).tolist()
    codec_dimension = how.dimension or len(classes)
    settings = {r: _settings(network, claim, num_devices, r, budgets) for r in {codec_dimension, len(classes)}}

    train = rows["train"]
    fold = torch.from_numpy(folds(targets[train.numpy()], group[train.numpy()], seed=how.seed))
    objects = Part(whole, torch.from_numpy(targets), there)
    alike = _alike(how, features, widths)
    best = _choice(how, objects, widths, alike=alike, train=train, fold=fold, progress=progress)
    shown, aside = best.objects[train], best.objects[rows["validation"]]
    classifiers = sensor_heads.trained(best.recipe, shown, aside, alike=best.alike, num_classes=len(classes))
    heads = Heads(classifiers, best.crossed.temperatures)
    vote = votes.fit(best.crossed.posteriors, shown.labels, seed=how.seed)
    codec = _codec(how, best, shown, settings[codec_dimension], progress)
    made = {"vote": vote, "compact": codec}

    @torch.no_grad()
    def sent(part: Part) -> dict[str, Tensor]:
        view = {"feature": part.features, "posterior": heads.posteriors(part.features)}
        return {each: declared(codecs.encoded(by, view), None, part.present)[0] for each, by in made.items()}

    right = {each: _accuracy(made[each], z, aside.labels, settings, how) for each, z in sent(aside).items()}
    held: dict[HeldOut, dict[str, Tensor]] = {}
    for kind in _HELD_OUT:
        if len(part := best.objects[rows[kind]]):
            _, posteriors = declared(part.features, heads.posteriors(part.features), part.present)
            assert posteriors is not None
            held[kind] = kept(part.labels, posteriors, {"compact": sent(part)["compact"]})
    gain = (right["compact"] - right["vote"]).mean(0)
    order = ("compact", "vote") if _beyond_doubt(gain, group[rows["validation"].numpy()]) else ("vote", "compact")
    about = {
        "epsilon": budgets,
        "validation": {each: right[each].mean(1).tolist() for each in order},
        "split": {kind: int(those.sum()) for kind, those in rows.items()} | {"groups": groups is not None},
        "heads": {"alike": best.alike, "hidden": best.recipe.hidden},
        "missing": int((~there).sum()),
        "recipe": asdict(how),
    }
    return Fitted(name, classes, best.sensors, heads, {each: made[each] for each in order}, held, about)


def _check(classes: Sequence[str], targets: NDArray[np.int64], kinds: NDArray[np.str_]) -> None:
    seen = np.bincount(targets[kinds == "train"], minlength=len(classes))
    for index in np.flatnonzero(seen == 0).tolist():
        held = int(np.sum(targets == index))
        raise ValueError(
            f"class {classes[index]} has no training objects, its {held} are all held out: give more objects or groups "
            "of it, or a split"
        )
    if (few := int(np.sum(kinds == "validation"))) < 2:
        raise ValueError(f"{few} validation objects: the choice between codec and vote needs 2 at least")
    for kind in ("validation", "test"):
        held = np.bincount(targets[kinds == kind], minlength=len(classes))
        if held.any() and (lacking := [classes[k] for k in np.flatnonzero(held == 0).tolist()]):
            warnings.warn(f"no {kind} objects of class {', '.join(lacking)}: accuracy says nothing of it", stacklevel=3)


def _settings(
    network: Network | None, claim: Claim, num_devices: int, dimension: int, epsilon: Sequence[float]
) -> list[Setting]:
    """The network calibrated to each ε."""
    if network is not None:
        require_network(network)
        if network.devices.count != num_devices:
            raise ValueError(f"the network has {network.devices.count} devices, features are of {num_devices} sensors")
        network.scheme.require_coins(
            f"the network has scheme {network.scheme.name}, must be 1 to fit a model, which then serves all schemes"
        )
    if not epsilon:
        raise ValueError("epsilon is empty: a codec is trained for one budget at least")
    net = Network.uniform(num_devices=num_devices) if network is None else network
    net = replace(net, dimension=dimension)
    return [setting(calibrate(net, claim, epsilon=each)) for each in epsilon]


def _choice(
    how: FitRecipe,
    objects: Part,
    widths: tuple[int, ...],
    *,
    alike: Sequence[bool],
    train: Tensor,
    fold: Tensor,
    progress: Progress,
) -> _Choice:
    """The local heads that are least surprised by the labels of groups that they were not trained on."""
    tried: list[_Choice] = []
    num_classes = int(objects.labels.max()) + 1
    with progress("local heads", len(alike) * len(how.hidden) * len(fold.unique())) as advance:
        for same in alike:
            sensors = standardising(objects.features[train], objects.present[train], widths, alike=same)
            features = sensors.scaled(objects.features).where(objects.present[..., None], 0.0)
            scaled = replace(objects, features=features)
            pairs = int(train.sum()) * (len(widths) if same else 1)
            for hidden in how.hidden:
                recipe = replace(how.head, hidden=hidden, seed=how.seed)
                recipe = sensor_heads.long_enough(recipe, pairs, steps=how.head_steps)
                found = sensor_heads.crossed(
                    recipe, scaled[train], fold, alike=same, num_classes=num_classes, on_fold=advance
                )
                tried.append(_Choice(recipe, same, sensors, scaled, found))
    return min(tried, key=lambda each: each.crossed.loss)


def _alike(how: FitRecipe, features: Any, widths: tuple[int, ...]) -> tuple[bool, ...]:
    """Whether sensors share a head: as the recipe says, else never those of a list, and both are tried for an array."""
    if how.alike and len(set(widths)) > 1:
        raise ValueError(f"alike=True, but features have widths {', '.join(map(str, widths))}: no head fits all")
    if how.alike is not None:
        return (how.alike,)
    return (False,) if isinstance(features, Sequence) or len(widths) == 1 else (True, False)


def _codec(how: FitRecipe, best: _Choice, shown: Part, settings: Sequence[Setting], progress: Progress) -> DenseCodec:
    """Trained through the noise of every setting, and rounded as it is stored."""
    _, num_devices, width = shown.features.shape
    ratios = np.clip([each.level.noise_std / each.level.signal for each in settings], *RATIOS)
    shape = CodecShape(
        dimension=settings[0].network.dimension,
        num_classes=int(best.objects.labels.max()) + 1,
        features=width,
        hidden=how.codec_hidden,
        server_hidden=how.server_hidden,
        encoders=1 if best.alike else num_devices,
        ratios=(ratios.min(), ratios.max()),
    )
    steps = max(1, len(shown) // how.codec.objects)
    recipe = replace(how.codec, seed=how.seed, epochs=max(how.codec.epochs, math.ceil(how.codec_steps / steps)))
    with progress("codec", recipe.epochs) as advance:
        codec = codec_training.fit(
            recipe,
            shape,
            shown.features,
            shown.labels,
            settings=settings,
            present=None if shown.present.all() else shown.present,
            on_epochs=advance,
        )
    return replace(codec, arrays={key: value.float() for key, value in halved(codec.arrays).items()})


@torch.no_grad()
def _accuracy(
    codec: Codec, latents: Tensor, labels: Tensor, settings: Mapping[int, Sequence[Setting]], how: FitRecipe
) -> Tensor:
    """Of every object in each setting of the codec's dimension, (S, N), over the same draws of the noise for codecs of
    one dimension."""
    out = []
    for here in settings[codec.dimension]:
        rng = torch.Generator().manual_seed(how.seed)
        found = decoded(codec, latents, here, rng, trials=how.trials).argmax(-1)
        out.append((found == labels[:, None]).double().mean(1))
    return torch.stack(out)


def _beyond_doubt(gain: Tensor, group: NDArray[np.int64]) -> bool:
    """Whether gains (N,) of objects mean one in other groups, too. Of a single group nothing follows for another."""
    index, sizes = np.unique(group, return_inverse=True, return_counts=True)[1:]
    each = np.bincount(index, gain.numpy()) / sizes
    return len(each) > 1 and bool(each.mean() > _DOUBT * each.std(ddof=1) / len(each) ** 0.5)


def class_of(labels: ArrayLike, count: int) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The classes, in order, and the class (N,) of every object, from labels (N,), whole numbers or text."""
    given = _column("labels", labels, count, "class")
    if given.dtype.kind == "f":
        if np.any(given != np.round(given)):
            raise ValueError("labels are fractions, must be whole numbers or text: the class of every object")
        given = given.astype(np.int64)
    elif given.dtype.kind not in "iuUb":
        raise ValueError(f"labels are {given.dtype}, must be whole numbers or text: the class of every object")
    names, index = np.unique(given, return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"labels hold one class, {names[0]}: there is nothing to tell apart")
    return tuple(map(str, names.tolist())), index.astype(np.int64)


def group_of(given: ArrayLike | None, count: int) -> NDArray[np.int64]:
    """The group (N,) of every object; left out, one for each."""
    if given is None:
        return np.arange(count)
    return np.unique(_column("groups", given, count, "group"), return_inverse=True)[1]


def _column(name: str, values: Any, count: int, what: str) -> NDArray[Any]:
    """Values (N,) of one type, bytes as text. Missing are None, what is not finite, and text without a letter."""
    given = np.asanyarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    if given.shape != (count,):
        raise ValueError(f"{name} has shape {given.shape}, must be ({count},), one for each object of features")
    # Of a list of text NumPy makes text, of a NaN in it, too.
    rows = list(values) if given.dtype.kind == "U" and isinstance(values, list | tuple) else given.tolist()
    for row, each in enumerate(rows):
        if each is None or each in ("", b"") or (isinstance(each, float) and not math.isfinite(each)):
            raise ValueError(f"{name}[{row}] is {each!r}: every object needs a {what}")
    if given.dtype.kind == "S":
        return np.char.decode(given, "utf-8", "replace")
    return np.array(rows) if given.dtype.kind == "O" else np.asarray(given)


Names = NDArray[np.str_]

PARTS = ("train", "validation", "test")

_OF_FIVE = ("test", "validation", "train", "train", "train")
_FEWEST = 4  # groups: two to train on
_FOLDS = 3


def dealt_out(labels: NDArray[np.int64], groups: NDArray[np.int64], given: ArrayLike | None, *, seed: int) -> Names:
    """Train, validation or test, (N,): as given, or a fifth of the groups for each of the last two.

    given: if it names no validation objects, a fifth of its training groups becomes that.
    """
    if given is None:
        return dealt(labels, groups, _OF_FIVE, seed=seed)
    out = np.asarray(given).astype(str)
    if out.shape != labels.shape:
        raise ValueError(f"split has shape {out.shape}, must be {labels.shape}")
    for other in sorted(set(out.tolist()) - set(PARTS)):
        raise ValueError(f"split has {other!r}, must be {', '.join(PARTS)}")
    if not np.any(out == "train"):
        raise ValueError("split has no train objects: there is nothing to learn from")
    out = out.astype(f"<U{len('validation')}")
    if not np.any(out == "validation"):
        rest = out == "train"
        out[rest] = dealt(labels[rest], groups[rest], ("validation", *["train"] * 4), seed=seed)
    first, index = np.unique(groups, return_index=True, return_inverse=True)[1:]
    for row in np.flatnonzero(out != out[first[index]]).tolist():
        rows = " and ".join(f"row {each} ({out[each]})" for each in (int(first[index[row]]), row))
        raise ValueError(
            f"a group leaks: {rows} are of the same one, so accuracy would be too good; keep each group in one part"
        )
    return out


def folds(labels: NDArray[np.int64], groups: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """Fold (N,) of each object, whole groups in one; of a single group, by object."""
    if len(np.unique(groups)) < 2:
        groups = np.arange(len(groups))
    count = min(_FOLDS, len(np.unique(groups)))
    return dealt(labels, groups, [str(each) for each in range(count)], seed=seed + 1).astype(np.int64)


def dealt(labels: NDArray[np.int64], groups: NDArray[np.int64], to: Sequence[str], *, seed: int) -> Names:
    """Groups dealt out in turn, those of one class after each other, so that every part has some of each."""
    names, index = np.unique(groups, return_inverse=True)
    if len(names) < min(_FEWEST, len(to)):
        raise ValueError(f"{len(names)} groups to split, must be {_FEWEST} or more: two to train on, two to judge")
    # Of a group, the most frequent class; random order within a class.
    table = np.zeros((len(names), int(labels.max()) + 1))
    np.add.at(table, (index, labels), 1)
    order = np.lexsort((np.random.default_rng(seed).permutation(len(names)), table.argmax(1)))
    part = np.empty(len(names), dtype=np.array(to).dtype)
    part[order] = [to[place % len(to)] for place in range(len(names))]
    return part[index]
