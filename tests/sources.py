"""The code of all packages."""

from pathlib import Path

PACKAGES = Path(__file__).parents[1] / "packages"
MODULES = sorted(PACKAGES.glob("*/src/**/*.py"))


def place(path: Path) -> str:
    """A module's path below its package's src: airpool/network/file.py."""
    return "/".join(path.relative_to(PACKAGES).parts[2:])
