"""Trains EfficientNet-Lite on renders of ModelNet40's CAD models and measures it on the validation split.

    PYTHONPATH=src python -m studies.train_cad MESHES.npz.xz --imagenet LITE0.safetensors --out DIR --state STATE

Renders into the GPU's memory, trains on single views, and writes to DIR: the averaged weights (fp16), the logits of all
validation and test views (fp16) and a JSON of parameters, versions and validation numbers. Labels of the test set are
not read. Resumes from STATE after an interruption; `--seconds` ends a command early, its state on disk. `--minutes`
chooses the number of steps by the speed measured at the start; `--steps` repeats a run exactly as long.
A trial on a CPU: `--objects 60 --resolution 64 --steps 4 --groups 4 --extra 2 --no-compile`.
"""

import argparse
import copy
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from airpool.data import cad, mesh_views
from airpool.data.mesh_views import Cameras, Triangles
from airpool.models.lite import Lite, LiteNet, imagenet

# Noise on the mean of 12 vectors of length one, times 12: the exact Gaussian curve at δ = 1e-5 (spec §3.2, §3.3).
NOISE = {1: 3.7306316348159414, 2: 1.9938124456435353, 4: 1.0811618495202397}
SAVE_EVERY = 60.0  # seconds
BLOCK = 512  # objects rendered at a time


def rendered(triangles: Triangles, ends: Tensor, index: Tensor, cameras: Cameras) -> Tensor:
    """Views (B, K, 2, H, H) uint8 of the objects at `index`, block by block."""
    shape = (len(index), cameras.num_views, 2, cameras.resolution, cameras.resolution)
    out = torch.empty(shape, dtype=torch.uint8, device=triangles.corners.device)
    for first in range(0, len(index), BLOCK):
        part = _taken(triangles, ends, index[first : first + BLOCK])
        out[first : first + BLOCK] = mesh_views.render(part, cameras, dtype=torch.uint8)
    return out


def varied(triangles: Triangles, ends: Tensor, index: Tensor, count: int, options: argparse.Namespace) -> Tensor:
    """Extra training views (B, count, 2, H, H) uint8: any azimuth, elevation 30 ± 10°, sides shrunk by up to 12 %."""
    size, rng = options.resolution, np.random.default_rng(options.seed)
    device = triangles.corners.device
    out = torch.empty(len(index), count, 2, size, size, dtype=torch.uint8, device=device)
    for first in range(0, len(index), BLOCK):
        part = _taken(triangles, ends, index[first : first + BLOCK])
        for k in range(count):
            stretch = torch.as_tensor(rng.uniform(0.88, 1.0, (part.num_meshes, 1, 3)), device=device).float()
            camera = Cameras(1, rng.uniform(20, 40), rng.uniform(0, 360), size)
            changed = part._replace(corners=part.corners * stretch[part.mesh])
            out[first : first + BLOCK, k] = mesh_views.render(changed, camera, dtype=torch.uint8)[:, 0]
    return out


def _taken(triangles: Triangles, ends: Tensor, index: Tensor) -> Triangles:
    counts = ends[index + 1] - ends[index]
    mesh = torch.repeat_interleave(torch.arange(len(index), device=counts.device), counts)
    within = torch.arange(len(mesh), device=counts.device) - (counts.cumsum(0) - counts)[mesh]
    return Triangles(triangles.corners[ends[index][mesh] + within], mesh, len(index))


def augmented(views: Tensor, rng: torch.Generator) -> Tensor:
    """Views (B, 2, H, H) float of uint8 ones: turned, scaled, shifted, mirrored, lit otherwise, a part erased."""
    count, _, size, _ = views.shape
    device = views.device

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(count, *shape, device=device, generator=rng) * (high - low) + low

    x = views.float() / 255
    angle, scale = uniform(-0.18, 0.18), torch.exp(uniform(-0.18, 0.18))
    mirror = torch.where(uniform(0, 1) < 0.5, -1.0, 1.0)
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    shift = uniform(-0.1, 0.1, 2)
    theta = torch.stack((cos * mirror, -sin, shift[:, 0], sin * mirror, cos, shift[:, 1]), 1).view(-1, 2, 3)
    grid = functional.affine_grid(theta, [count, 2, size, size], align_corners=False)
    x = functional.grid_sample(x, grid, align_corners=False)
    seen = x > 0
    gain, bias = uniform(0.75, 1.25, 2, 1, 1), uniform(-0.1, 0.1, 2, 1, 1)
    x = ((x * gain + bias).clamp(0, 1)) * seen
    half = 0.5 * uniform(0.1, 0.5, 2, 1) * (uniform(0, 1, 1, 1) < 0.4)
    ticks = (torch.arange(size, device=device) + 0.5) / size
    inside = (ticks - uniform(0, 1, 2, 1)).abs() < half  # (B, 2, H): columns, rows
    return x * ~(inside[:, 0, None, :] & inside[:, 1, :, None])[:, None]


def loss_of(logits: Tensor, labels: Tensor, options: argparse.Namespace) -> Tensor:
    """Cross-entropy of each view (G, V, C), and how far each is from what the views of its object say together."""
    log_p = logits.log_softmax(-1)
    target = functional.one_hot(labels, logits.shape[-1]).float()[:, None]
    smooth = target * (1 - options.smoothing) + options.smoothing / logits.shape[-1]
    loss = -(smooth * log_p).sum(-1).mean()
    if options.consistency:
        together = log_p.mean(1, keepdim=True).log_softmax(-1).detach()
        loss = loss + options.consistency * (together.exp() * (together - log_p)).sum(-1).mean()
    return loss


@torch.no_grad()
def logits_of(model: nn.Module, views: Tensor, batch: int = 1024) -> Tensor:
    """Logits (B, K, C) float32 of views (B, K, 2, H, H) uint8."""
    model.eval()
    flat = views.flatten(0, 1)
    out = []
    for part in flat.split(batch):
        x = (part.float() / 255).contiguous(memory_format=torch.channels_last)
        with torch.autocast(x.device.type, torch.float16 if x.is_cuda else torch.bfloat16):
            out.append(model(x).float())
    return torch.cat(out).unflatten(0, views.shape[:2])


def measured(logits: Tensor, labels: Tensor, *, draws: int = 20) -> dict[str, Any]:
    """Validation numbers of logits (B, K, C): without noise, single views, the vote under noise (spec §11)."""
    logits, labels = logits.double().cpu(), labels.cpu()
    log_p = logits.log_softmax(-1)
    each = log_p.argmax(-1) == labels[:, None]
    pooled = log_p.mean(1)
    result: dict[str, Any] = {
        "no_noise": float((pooled.argmax(-1) == labels).double().mean()),
        "one_view": float(each.double().mean()),
        "one_view_nll": float(functional.nll_loss(log_p.flatten(0, 1), labels.repeat_interleave(log_p.shape[1]))),
        "agreement": float((log_p.argmax(-1) == pooled.argmax(-1)[:, None]).double().mean()),
    }
    for epsilon, noise in NOISE.items():
        by_sharpness = {t: voted(log_p, labels, noise / log_p.shape[1], t, draws) for t in (0.5, 1.0, 2.0, 4.0)}
        best = max(by_sharpness, key=lambda t: by_sharpness[t])
        result[f"epsilon_{epsilon}"] = {"accuracy": by_sharpness[best], "sharpness": best}
    return result


def voted(log_p: Tensor, labels: Tensor, noise_std: float, sharpness: float, draws: int, folds: int = 5) -> float:
    """Accuracy of the soft vote with class means and prior from the other folds, over random noise."""
    rng = torch.Generator().manual_seed(0)
    posterior = (sharpness * log_p).softmax(-1)
    count, classes = len(labels), log_p.shape[-1]
    z = functional.normalize(posterior - 1 / classes, dim=-1).mean(1)
    ideal = functional.normalize(torch.eye(classes, dtype=z.dtype) - 1 / classes, dim=-1)
    fold = torch.randperm(count, generator=rng) % folds
    noise = noise_std * torch.randn(draws, count, classes, generator=rng, dtype=z.dtype)
    right = 0.0
    for number in range(folds):
        fit, held = fold != number, fold == number
        one_hot = functional.one_hot(labels[fit], classes).to(z.dtype)
        sizes = one_hot.sum(0)
        means = (one_hot.T @ z[fit] + 2 * ideal) / (sizes + 2)[:, None]  # two perfect objects in each class
        rest = z[fit] - means[labels[fit]]
        covariance = rest.T @ rest / len(rest) + noise_std**2 * torch.eye(classes, dtype=z.dtype)
        weights = torch.linalg.solve(covariance, means.T)
        bias = ((sizes + 1) / (sizes + 1).sum()).log() - 0.5 * (means.T * weights).sum(0)
        right += float(((z[held] + noise[:, held]) @ weights + bias).argmax(-1).eq(labels[held]).double().mean(0).sum())
    return right / count


def lr_at(step: int, steps: int, options: argparse.Namespace) -> float:
    warm = min(1.0, (step + 1) / max(1, min(options.warmup, steps // 10)))
    return options.lr * warm * 0.5 * (1 + math.cos(math.pi * min(step / steps, 1.0)))


class Training:
    """Model, average, optimiser and step: what a checkpoint holds."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        torch.manual_seed(options.seed)
        model = LiteNet(Lite(options.variant, drop_path=options.drop_path))
        start = load_file(options.imagenet)
        start |= {"_fc.weight": torch.zeros(1000, 1280), "_fc.bias": torch.zeros(1000)}
        imagenet(model, start)
        if options.start:
            model.load_state_dict({k: v.float() for k, v in load_file(options.start).items()}, strict=False)
        self.model = model.to(device).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        plain = [p for p in self.model.parameters() if p.ndim == 1]
        groups = [{"params": decayed, "weight_decay": options.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=options.lr, fused=device.type == "cuda")
        self.step = 0
        self.steps = options.steps

    def averaged(self, decay: float) -> None:
        pairs = zip(self.average.state_dict().values(), self.model.state_dict().values(), strict=True)
        old, new = zip(*[(a, b) for a, b in pairs if a.is_floating_point()], strict=True)
        weight = 1 - min(decay, (self.step + 1) / (self.step + 10))
        torch._foreach_lerp_(list(old), list(new), weight)  # pyright: ignore[reportPrivateImportUsage]

    def save(self, path: Path) -> None:
        state = {"model": self.model.state_dict(), "average": self.average.state_dict()}
        state |= {"optimiser": self.optimiser.state_dict(), "step": self.step, "steps": self.steps}
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.steps = state["step"], state["steps"]


def train(
    training: Training, views: Tensor, labels: Tensor, options: argparse.Namespace, ends_at: float, path: Path
) -> None:
    """Steps until the last one, or until the clock says so; the state on disk every minute."""
    device = views.device
    forward: Callable[[Tensor], Tensor] = training.model
    if options.compile and device.type == "cuda":
        forward = torch.compile(training.model)  # pyright: ignore[reportAssignmentType]
    saved, since, seen, losses = time.time(), time.time(), 0, []
    calibrate = 40 if training.steps is None else -1  # steps after which the speed is measured, over as many again
    while training.steps is None or training.step < training.steps:
        steps = training.steps or 10_000
        rng = torch.Generator(device).manual_seed(options.seed * 1_000_003 + training.step)
        rows = torch.randint(len(views), (options.groups,), device=device, generator=rng)
        columns = torch.rand(options.groups, views.shape[1], device=device, generator=rng).topk(options.views).indices
        x = augmented(views[rows[:, None], columns].flatten(0, 1), rng)
        for group in training.optimiser.param_groups:
            group["lr"] = lr_at(training.step, steps, options)
        training.model.train()
        with torch.autocast(device.type, torch.bfloat16):
            logits = forward(x.contiguous(memory_format=torch.channels_last))
        loss = loss_of(logits.float().unflatten(0, (options.groups, -1)), labels[rows], options)
        training.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(training.model.parameters(), 5.0)
        training.optimiser.step()
        training.averaged(options.average)
        training.step += 1
        seen += len(x)
        losses.append(loss.detach())
        if training.step in (calibrate, 2 * calibrate):
            torch.cuda.synchronize() if device.type == "cuda" else None
            if training.step == 2 * calibrate:
                training.steps = int(60 * options.minutes * calibrate / (time.time() - since))
                print(f"{seen / (time.time() - since):.0f} views/s: {training.steps} steps", flush=True)
            since, seen = time.time(), 0
        if training.step % 500 == 0:
            mean = float(torch.stack(losses).mean())
            print(
                f"step {training.step}/{training.steps} loss {mean:.4f} {seen / (time.time() - since):.0f} views/s",
                flush=True,
            )
            losses = []
        if time.time() - saved > SAVE_EVERY:
            training.save(path)
            saved = time.time()
        if training.step % 20 == 0 and time.time() > ends_at:
            break
    training.save(path)


def all_views(
    meshes: cad.Meshes, options: argparse.Namespace, device: torch.device, clock: dict[str, float]
) -> tuple[dict[str, np.ndarray], dict[str, Tensor]]:
    """Indices and views (B, K, 2, H, H) uint8 of each split, on the device; notes on the clock what took how long."""
    begin = time.time()
    chosen = np.arange(len(meshes))[:: len(meshes) // options.objects if options.objects else 1]
    splits = {name: np.intersect1d(meshes.indices(name), chosen) for name in cad.SPLITS}
    parts = [mesh_views.placed([meshes.mesh(i)], 30.0, device=device).corners for i in chosen]
    ends = torch.tensor([0, *np.cumsum([len(part) for part in parts])], device=device)
    triangles = Triangles(torch.cat(parts), torch.zeros(0, device=device), len(parts))
    clock["placed"] = time.time() - begin
    rows = {name: torch.as_tensor(np.searchsorted(chosen, index), device=device) for name, index in splits.items()}
    cameras = Cameras(resolution=options.resolution)
    views = {name: rendered(triangles, ends, index, cameras) for name, index in rows.items()}
    torch.cuda.synchronize() if device.type == "cuda" else None
    clock["rendered"] = time.time() - begin
    if options.extra:
        more = varied(triangles, ends, rows["train"], options.extra, options)
        views["train"] = torch.cat((views["train"], more), 1)
        del more
    torch.cuda.synchronize() if device.type == "cuda" else None
    clock["varied"] = time.time() - begin
    print({k: round(v, 1) for k, v in clock.items()}, {k: tuple(v.shape) for k, v in views.items()}, flush=True)
    return splits, views


def finish(
    training: Training,
    views: dict[str, Tensor],
    labels: dict[str, Tensor],
    splits: dict[str, np.ndarray],
    options: argparse.Namespace,
    clock: dict[str, float],
) -> None:
    """Weights, logits and the record of the run, on disk."""
    logits = {name: logits_of(training.average, views[name]).half().cpu() for name in ("validation", "test")}
    numbers = measured(logits["validation"].float(), labels["validation"])
    fitted = logits_of(training.average, views["train"][:1000, :12])
    numbers["train_one_view"] = float((fitted.argmax(-1) == labels["train"][:1000, None]).float().mean())
    weights = {
        k: v.half() if v.ndim > 1 else v for k, v in training.average.state_dict().items() if v.is_floating_point()
    }
    save_file({k: v.contiguous().cpu() for k, v in weights.items()}, options.out / f"{options.name}.safetensors")
    index = {f"{name}_index": torch.as_tensor(splits[name]) for name in logits}
    save_file({**logits, **index}, options.out / f"{options.name}-logits.safetensors")
    about = {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()}
    record = {"options": about, "step": training.step, "steps": training.steps, "seconds": clock, "validation": numbers}
    record["objects"] = {name: len(index) for name, index in splits.items()}
    record["versions"] = {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "device": torch.cuda.get_device_name() if views["train"].is_cuda else "cpu",
    }
    (options.out / f"{options.name}.json").write_text(json.dumps(record, indent=1))
    print(
        json.dumps({"step": training.step, "steps": training.steps, **numbers}),
        flush=True,
    )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshes", type=Path)
    parser.add_argument("--imagenet", type=Path, required=True, help="the package's state dict as safetensors")
    parser.add_argument("--start", type=Path, help="weights of an earlier run to start from")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--name", default="lite0")
    parser.add_argument("--variant", default="lite0")
    parser.add_argument("--resolution", type=int, default=224)
    parser.add_argument("--extra", type=int, default=24, help="extra views of each training object")
    parser.add_argument("--groups", type=int, default=64, help="objects in a batch")
    parser.add_argument("--views", type=int, default=6, help="views of each of them")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--consistency", type=float, default=0.0)
    parser.add_argument("--drop-path", type=float, default=0.1)
    parser.add_argument("--average", type=float, default=0.9995)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="from the start of this command")
    parser.add_argument("--objects", type=int, default=None, help="use N evenly spaced objects")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def main() -> None:
    options = parsed()
    begin = time.time()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    options.out.mkdir(parents=True, exist_ok=True)
    options.state.mkdir(parents=True, exist_ok=True)
    clock: dict[str, float] = {}

    meshes = cad.read(options.meshes)
    splits, views = all_views(meshes, options, device, clock)
    labels = {name: torch.as_tensor(meshes.label[splits[name]], device=device) for name in ("train", "validation")}
    training = Training(options, device)
    path = options.state / f"{options.name}.pt"
    if path.exists():
        training.load(path)
        print(f"resumed at step {training.step} of {training.steps}", flush=True)
    train(training, views["train"], labels["train"], options, begin + options.seconds, path)
    clock["trained"] = time.time() - begin

    finish(training, views, labels, splits, options, clock)


if __name__ == "__main__":
    main()
