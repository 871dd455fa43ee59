"""Puts together what ships in packages/airpool-models: weights, latents, posteriors, a manifest with checksums.

    python scripts/assets.py MESHES.npz.xz --trunk FILE --logits lite2=FILE --logits vgg11=FILE \\
        --codec compact=lite2:DIR --codec q16=vgg11:DIR --more DIR --results RESULTS.json \\
        --out packages/airpool-models/src/airpool_models/modelnet40

--logits: of all validation and test views, as studies/train_trunk.py keeps them; those of the trunk that ships first.
The local head is the trunk's own classifier with temperatures of validation; a vote is fitted to the posteriors of
validation on each trunk.
--codec: the folder where studies/train_codecs.py kept its weights and its latents, quantised, in parts. Long latents
are kept in their principal directions. Of a codec on a trunk that does not ship, the decoder alone is kept.
--more: a folder of other files that ship. --results: what is to be said of it, taken into the manifest as it is.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save

from airpool._support import files
from airpool._support.files import sha256
from airpool._support.version import __version__
from airpool.models import local, weights
from airpool.models.codecs import codec as codecs
from airpool.models.codecs import vote
from airpool.models.codecs.dense import DenseCodec
from airpool_lab.vision import cad

SPLITS = ("validation", "test")
LONG, RANK = 256, 64  # latents longer than LONG are kept in RANK directions


def main() -> None:
    args = parsed()
    args.out.mkdir(parents=True, exist_ok=True)
    meshes = cad.read(args.meshes)
    data = {"file": args.meshes.name, "sha256": sha256(args.meshes)}
    model, about = weights.load(args.trunk)
    weights.save(args.out / "trunk.safetensors", model, about)

    known: dict[str, str] = {}  # codec → trunk
    for number, (trunk, file) in enumerate(each.split("=", 1) for each in args.logits):
        found = load_file(file)
        labels = {split: torch.from_numpy(meshes.label[found[f"{split}_index"].numpy()]) for split in SPLITS}
        temperatures = local.fit_temperatures(found["validation"].float(), labels["validation"])
        posteriors = {split: local.posteriors(found[split].float(), temperatures).half() for split in SPLITS}
        for split in SPLITS:
            kept = {"posteriors": posteriors[split], "labels": labels[split].to(torch.uint8)}
            files.write(args.out / f"{trunk}-{split}.safetensors", save(kept))
        name = f"vote-{trunk}" if number else "vote"
        fitted = vote.fit(posteriors["validation"].float(), labels["validation"])
        codecs.save(args.out / f"{name}.safetensors", fitted, {"fitted to": "posteriors of validation", "data": data})
        print(f"{name}: sharpness {fitted.sharpness:g}")
        if not number:
            head = local.calibrated(local.own(model), found["validation"].float(), labels["validation"])
            local.save(args.out / "head.safetensors", head, {"data": data})
        known[name] = trunk

    for name, _, where in (each.partition("=") for each in args.codec):
        known[name], _, folder = where.partition(":")
        codec, about = codecs.load(Path(folder) / f"{name}.safetensors")
        runs = known[name] == known["vote"]  # on the trunk that ships
        codecs.save(args.out / f"{name}.safetensors", codec if runs else server_half(codec), about)
        for split in SPLITS:
            parts = [load_file(part) for part in sorted(Path(folder).glob(f"{name}-{split}[0-9].safetensors"))]
            latents = torch.cat([part["latents"] * part["scale"] for part in parts])
            small = packed(latents, rank=RANK if latents.shape[-1] > LONG else None)
            error = float((codecs.unpacked(small) - latents).norm() / latents.norm())
            files.write(args.out / f"{name}-{split}.safetensors", save(small))
            print(f"{name}, {split}: error {error:.2%}")
    for path in sorted(args.more.glob("*")) if args.more else ():
        files.write(args.out / path.name, path.read_bytes())

    made = sorted(path for path in args.out.glob("*.safetensors"))
    order = sorted(known, key=lambda name: (known[name] != known["vote"], name != "vote", name))
    manifest = {
        "version": __version__,
        "data": data,
        "classes": meshes.classes.tolist(),
        "codecs": {name: known[name] for name in order},
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in made},
        "results": json.loads(args.results.read_text()) if args.results else {},
    }
    files.write(args.out / "manifest.json", json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    for name, each in manifest["files"].items():
        print(f"{each['bytes'] / 1e6:8.2f} MB  {name}")
    print(f"{sum(each['bytes'] for each in manifest['files'].values()) / 1e6:8.2f} MB  in all")


def server_half(codec: DenseCodec) -> DenseCodec:
    """The decoder alone: without its trunk, nothing could run the encoder."""
    return DenseCodec(codec.shape, {key: each for key, each in codec.arrays.items() if key.startswith("decoder.")})


def packed(latents: torch.Tensor, *, rank: int | None = None) -> dict[str, torch.Tensor]:
    """Latents (N, K, r) as bytes; with a rank, in their first `rank` principal directions, each with its own step."""
    if rank is None:
        steps, step = codecs.quantised(latents)
        return {"latents": steps, "step": step.reshape(1)}
    flat = latents.flatten(0, -2).float()
    centre = flat.mean(0)
    basis = torch.linalg.svd(flat - centre, full_matrices=False).Vh[:rank].half().float()
    inside = (latents - centre) @ torch.linalg.pinv(basis)
    step = inside.abs().flatten(0, -2).amax(0).clamp(min=1e-12) / 127
    whole = (inside / step).round().to(torch.int8)
    return {"latents": whole, "step": step, "basis": basis.half().contiguous(), "centre": centre}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshes", type=Path)
    parser.add_argument("--trunk", type=Path, nargs="+", required=True)
    parser.add_argument("--logits", action="append", required=True, metavar="TRUNK=FILE")
    parser.add_argument("--codec", action="append", default=[], metavar="NAME=TRUNK:FOLDER")
    parser.add_argument("--more", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
