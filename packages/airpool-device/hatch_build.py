"""Takes the code of airpool and airpool-runtime into the wheel of airpool-device."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CodeOfBoth(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for package in ("airpool", "airpool-runtime"):
            source = (Path(self.root) / ".." / package / "src").resolve()
            if not source.is_dir():
                raise FileNotFoundError(f"{source}: airpool-device is built in the checkout alone, which has the code")
            for path in sorted(source.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    build_data["force_include"][str(path)] = str(path.relative_to(source))
