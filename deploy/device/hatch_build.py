"""Takes the code of src/airpool into the wheel of airpool-device, without the page's files."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LEFT_OUT = {"static", "__pycache__"}


class CodeWithoutPage(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = (Path(self.root) / "../../src").resolve()
        if not source.joinpath("airpool").is_dir():
            raise FileNotFoundError(f"{source}: airpool-device is built in the checkout alone, which has the code")
        for path in sorted(source.joinpath("airpool").rglob("*")):
            inside = path.relative_to(source)
            if path.is_file() and not LEFT_OUT & set(inside.parts):
                build_data["force_include"][str(path)] = str(inside)
