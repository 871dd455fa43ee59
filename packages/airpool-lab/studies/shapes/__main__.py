"""Writes the asset."""

from airpool._support import files

from . import ASSET, asset, built

if __name__ == "__main__":
    meshes = built()
    files.write(ASSET, asset(meshes))
    print(f"{ASSET.name}: {len(meshes)} shapes, {ASSET.stat().st_size / 1000:.0f} kB")
