"""Latents of views that the packed file does not hold: gone wrong (selection), and from 1,000 azimuths (theory).

    PYTHONPATH=src python -m studies.encode_views VOXELS.npz --out DIR [--objects N] [--azimuths 1000]

Uses the trunk, the compact codec and the local head that ship. Needs torch, NumPy and safetensors only. Writes
corrupted-SPLIT.safetensors (latents int8 and their step, posteriors in half precision, kind) for validation and test,
and azimuths.safetensors (latents (N, K, r) int8, step, labels) of some test objects. Says what single views are worth.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from airpool import files
from airpool.data import dataset, modelnet
from airpool.data.views import object_views, renders
from airpool.data.voxels import unpack
from airpool.models import codec as codecs
from airpool.models import features, local, weights
from airpool.models.codec import quantised
from airpool.models.runs import some_rows
from studies.corruption import KINDS, Corruption, corrupted

ASSETS = Path(__file__).parent.parent / "src/airpool/assets/modelnet40"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voxels", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--objects", type=int, default=None, help="use so few objects only, for a trial")
    parser.add_argument("--azimuths", type=int, default=1000)
    parser.add_argument("--around", type=int, default=200, help="of so many test objects all azimuths are taken")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    args.out.mkdir(parents=True, exist_ok=True)
    trunk = weights.load(ASSETS / "trunk.safetensors", device=device)[0].features
    codec = codecs.load(ASSETS / "compact.safetensors", device=device)[0]
    head = local.load(ASSETS / "head.safetensors", device=device)[0]
    data = dataset.read(args.voxels)
    labels = torch.from_numpy(np.asarray(data.labels)).to(device)
    rng = torch.Generator(device).manual_seed(args.seed)

    def encoded(views: Tensor) -> tuple[Tensor, Tensor]:
        """Latents (N, 12, r) and posteriors (N, 12, C)."""
        with torch.no_grad():
            pooled = features.pooled(trunk, views)
            return codec.encoder(pooled), local.local_distribution(pooled, head.classifier, head.temperatures)

    for split in ("validation", "test"):
        start = time.perf_counter()
        rows = some_rows(modelnet.split(data, split), args.objects)
        views = renders(data.objects[rows], torch_device=device)
        own = labels[torch.as_tensor(rows)]
        right = (encoded(views)[1].argmax(-1) == own[:, None]).float().mean()
        print(f"{split}: clean views {right:.4f}", flush=True)
        bad, kind = corrupted(views, rng=rng, corruption=Corruption())
        latents, posteriors = encoded(bad)
        hit = (posteriors.argmax(-1) == own[:, None]).float()
        each = ", ".join(f"{name} {hit[kind == i].mean():.4f}" for i, name in enumerate(KINDS))
        print(f"{split}: corrupted views {hit.mean():.4f} ({each}), {time.perf_counter() - start:.1f} s", flush=True)
        whole, step = quantised(latents)
        kept = {"latents": whole, "step": step, "posteriors": posteriors.half(), "kind": kind.to(torch.uint8)}
        files.write(
            args.out / f"corrupted-{split}.safetensors", save({k: v.contiguous().cpu() for k, v in kept.items()})
        )

    start = time.perf_counter()
    rows = modelnet.split(data, "test")
    rows = rows[np.linspace(0, len(rows) - 1, min(args.around, args.objects or args.around)).astype(int)]
    found: list[Tensor] = []
    for some in np.array_split(rows, max(1, len(rows) // 4)):
        solid = torch.from_numpy(unpack(data.objects[some][:, 0])).to(device)
        seen = (object_views(solid, num_views=args.azimuths) * 255).round().byte()
        with torch.no_grad():
            found.append(
                torch.cat([codec.encoder(features.pooled(trunk, part)) for part in seen.split(100, dim=1)], dim=1)
            )
    latents, step = quantised(torch.cat(found))
    kept = {"latents": latents, "step": step, "labels": labels[torch.as_tensor(rows)].to(torch.uint8)}
    files.write(args.out / "azimuths.safetensors", save({k: v.contiguous().cpu() for k, v in kept.items()}))
    print(f"{len(rows)} objects from {args.azimuths} azimuths: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
