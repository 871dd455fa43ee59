"""Posteriors of views that do not ship: gone wrong (selection), and from many azimuths (theory).

    PYTHONPATH=src python -m studies.encode_views MESHES.npz.xz --trunk FILE --head FILE --out DIR [--objects N]

Needs torch, NumPy and safetensors only. Writes corrupted-SPLIT.safetensors (posteriors (N, K, C) in half precision, and
kind) for validation and test, and azimuths.safetensors (posteriors (N, 1000, C), labels) of some test objects. Says
what single views are worth.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from airpool._support import files
from airpool.models import local, weights
from airpool.models.vision import features
from airpool.models.vision.views import Cameras
from airpool_lab.vision import cad
from airpool_lab.vision.renders import renders
from airpool_lab.vision.runs import some_rows
from studies.corruption import KINDS, Corruption, corrupted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshes", type=Path)
    parser.add_argument("--trunk", type=Path, nargs="+", required=True)
    parser.add_argument("--head", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--objects", type=int, default=None, help="use at most N objects, for a trial", metavar="N")
    parser.add_argument("--azimuths", type=int, default=1000)
    parser.add_argument("--around", type=int, default=50, help="of so many test objects all azimuths are taken")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    args.out.mkdir(parents=True, exist_ok=True)
    model, _ = weights.load(args.trunk, device=device)
    cameras = Cameras(resolution=model.architecture.resolution)
    head = local.load(args.head, device=device)[0]
    data = cad.read(args.meshes)
    labels = torch.from_numpy(data.label).to(device)
    rng = torch.Generator(device).manual_seed(args.seed)

    @torch.no_grad()
    def seen(views: Tensor, temperatures: Tensor) -> Tensor:
        """Posteriors (N, K, C)."""
        return local.local_distribution(features.pooled(model.features, views), head.classifier, temperatures)

    def keep(name: str, **tensors: Tensor) -> None:
        content = save({key: value.contiguous().cpu() for key, value in tensors.items()})
        files.write(args.out / f"{name}.safetensors", content)

    for split in ("validation", "test"):
        start = time.perf_counter()
        rows = some_rows(data.indices(split), args.objects)
        views = renders(data, rows, cameras, torch_device=device)
        bad, kind = corrupted(views, rng=rng, corruption=Corruption())
        posteriors = seen(bad, head.temperatures)
        if split == "validation":  # of the test set nothing is measured here
            hit = (posteriors.argmax(-1) == labels[torch.as_tensor(rows)][:, None]).float()
            each = ", ".join(f"{name} {hit[kind == i].mean():.4f}" for i, name in enumerate(KINDS))
            print(f"{split}: corrupted views {hit.mean():.4f} ({each})", flush=True)
        keep(f"corrupted-{split}", posteriors=posteriors.half(), kind=kind.to(torch.uint8))
        print(f"{split}: {time.perf_counter() - start:.1f} s", flush=True)

    rows = some_rows(data.indices("test"), min(args.around, args.objects or args.around))
    around = replace(cameras, num_views=args.azimuths)
    nearest = (torch.arange(args.azimuths, device=device) * cameras.num_views / args.azimuths).round().long()
    temperatures = head.temperatures[nearest % cameras.num_views]
    found = [
        torch.cat([seen(part, t) for part, t in zip(views.split(100, 1), temperatures.split(100), strict=True)], 1)
        for some in np.array_split(rows, max(1, len(rows) // 4))
        for views in (renders(data, some, around, torch_device=device),)
    ]
    keep("azimuths", posteriors=torch.cat(found).half(), labels=labels[torch.as_tensor(rows)].to(torch.uint8))


if __name__ == "__main__":
    main()
