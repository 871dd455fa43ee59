"""Draws the figures of docs/theory/accuracy.md from the tables in studies/results.

    python -m studies.theory_figures                                all of them, in seconds
    python -m studies.theory_figures asymptotics-depth              one figure
    python -m studies.theory_figures --fresh --azimuths FILE        measures the tables again first, in minutes

Every figure is a module with `measure`, which writes tables, and `draw`, which reads them.
"""

import argparse
import shlex
from pathlib import Path
from types import ModuleType

from studies import asymptotics_depth, asymptotics_devices, certificates
from studies.tables import FIGURES, RESULTS

MODULES: dict[str, ModuleType] = {
    "asymptotics-devices": asymptotics_devices,
    "asymptotics-depth": asymptotics_depth,
    "certificates": certificates,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m studies.theory_figures")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(MODULES)}; all by default")
    parser.add_argument("--fresh", action="store_true", help="measure the tables again")
    parser.add_argument("--azimuths", type=Path, help="latents (N, V, r) and labels of V azimuths, safetensors")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--figures", type=Path, default=FIGURES)
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - MODULES.keys():
        parser.error(f"{', '.join(sorted(unknown))}: there is {', '.join(MODULES)}")
    for name in given.names or MODULES:
        if given.fresh:
            command = ["python", "-m", "studies.theory_figures", name, "--fresh"]
            command += ["--azimuths", given.azimuths.name] if given.azimuths else []
            MODULES[name].measure(given.results, azimuths=given.azimuths, command=shlex.join(command))
        MODULES[name].draw(given.results, given.figures)
        print(f"drew {name}")


if __name__ == "__main__":
    main()
