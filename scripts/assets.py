"""Puts together what ships under src/airpool/assets: weights, latents and posteriors, and a manifest with checksums.

    python scripts/assets.py --trunk PART1 PART2 --head FILE --codec compact=FILE --codec q16=FILE --encoded DIR \\
        --results RESULTS.json --voxels VOXELS.npz --out src/airpool/assets/modelnet40

--encoded: the folder with CODEC-SPLIT0.safetensors, CODEC-SPLIT1.safetensors, … (quantised latents in parts, as
studies/train_codecs.py keeps them) and objects-SPLIT.safetensors (labels and local posteriors).
--results: what is to be said of it, taken into the manifest as it is.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save

from airpool import files
from airpool.data import dataset
from airpool.data.tensors import sha256
from airpool.models import codec as codecs
from airpool.models import local, weights
from airpool.version import __version__

SPLITS = ("validation", "test")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trunk", type=Path, nargs="+", required=True)
    parser.add_argument("--head", type=Path, required=True)
    parser.add_argument("--codec", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--encoded", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--voxels", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    model, about = weights.load(args.trunk)
    weights.save(args.out / "trunk.safetensors", model, about)
    local.load(args.head)
    files.write(args.out / "head.safetensors", args.head.read_bytes())
    names = dict(each.split("=", 1) for each in args.codec)
    for name, file in names.items():
        codecs.load(Path(file))
        files.write(args.out / f"{name}.safetensors", Path(file).read_bytes())
        for split in SPLITS:
            parts = [load_file(part) for part in sorted(args.encoded.glob(f"{name}-{split}[0-9].safetensors"))]
            latents = torch.cat([part["latents"] for part in parts])
            content = save({"latents": latents, "step": parts[0]["scale"]})
            files.write(args.out / f"{name}-{split}.safetensors", content)
    for split in SPLITS:
        name = f"objects-{split}.safetensors"
        files.write(args.out / name, (args.encoded / name).read_bytes())

    made = sorted(path for path in args.out.glob("*.safetensors"))
    manifest = {
        "version": __version__,
        "data": {"file": args.voxels.name, "sha256": sha256(args.voxels)},
        "classes": list(dataset.read(args.voxels).classes),
        "codecs": list(names),
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in made},
        "results": json.loads(args.results.read_text()),
    }
    files.write(args.out / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    for name, each in manifest["files"].items():
        print(f"{each['bytes'] / 1e6:8.2f} MB  {name}")
    print(f"{sum(each['bytes'] for each in manifest['files'].values()) / 1e6:8.2f} MB  in all")


if __name__ == "__main__":
    main()
