"""Lines of Python by package, without generated code: python scripts/size.py."""

from pathlib import Path

PACKAGES = Path(__file__).resolve().parent.parent / "packages"


def sizes() -> dict[str, tuple[int, int]]:
    """Lines and files of each package's own code."""
    found = {}
    for source in sorted(PACKAGES.glob("*/src")):
        files = [path for path in source.rglob("*.py") if "_pb2" not in path.name]
        found[source.parent.name] = sum(len(path.read_text("utf-8").splitlines()) for path in files), len(files)
    return found


if __name__ == "__main__":
    for name, (lines, files) in sizes().items():
        print(f"{name:16} {lines:6,} lines in {files:3} files")
    lines, files = (sum(column) for column in zip(*sizes().values(), strict=True))
    print(f"{'all':16} {lines:6,} lines in {files:3} files")
