"""What airpool is built from: a bill of materials, and what is known against it.

    python scripts/supply.py --out out/sbom.json
    python scripts/supply.py --hashes out/requirements.txt --packages airpool airpool-models airpool-runtime

Checks that every dependency is pinned by name and version alone, that what is installed is what is pinned, and that
it fits together (`pip check`). Writes the bill of materials of this environment (CycloneDX). Asks pip-audit for known
vulnerabilities; where it reaches no service, the result says that nothing was audited.

--hashes writes what this platform would install, with the hash of each file, for `pip install --require-hashes -r`
on machines like this one (docs/decisions/0019).
"""

import argparse
import json
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+]+)")


def pins(text: str) -> dict[str, str]:
    """Versions by name; an error for a line that is more or less than one pin.

    >>> pins("numpy==2.4.6\\n")
    {'numpy': '2.4.6'}
    """
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        pin = _PIN.fullmatch(line)
        if pin is None:
            raise ValueError(f"constraints.txt: {line!r} must be NAME==VERSION")
        found[_normal(pin[1])] = pin[2]
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def differing(pinned: dict[str, str]) -> list[str]:
    """What is installed in another version than pinned. A build of the same version (torch's +cpu) is the same."""
    there = {_normal(each.metadata["Name"]): each.version for each in distributions()}
    return [
        f"{name}: {there[name]} is installed, {version} is pinned"
        for name, version in sorted(pinned.items())
        if name in there and there[name].partition("+")[0] != version
    ]


def bill_of_materials(out: Path) -> int:
    """Writes it, without folders of this machine, and returns how many components it has."""
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "cyclonedx_py", "environment", sys.executable]
    command += ["--pyproject", "packages/airpool/pyproject.toml"]
    subprocess.run([*command, "--output-reproducible", "-o", str(out)], check=True, cwd=ROOT, capture_output=True)
    bill = json.loads(out.read_text("utf-8"))
    for each in bill["components"]:  # the packages are installed from the checkout
        known = each.get("externalReferences", [])
        each["externalReferences"] = [link for link in known if not link["url"].startswith("file:")]
    out.write_text(json.dumps(bill, indent=2) + "\n", "utf-8")
    return len(bill["components"])


def audited() -> tuple[list[str], int]:
    """Known vulnerabilities of what is pinned, and how many packages a service knew."""
    command = [sys.executable, "-m", "pip_audit", "-r", "constraints.txt", "--no-deps", "--disable-pip", "-f", "json"]
    try:
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, subprocess.TimeoutExpired):
        return [], 0
    known = [each for each in found if "vulns" in each]
    return [f"{x['name']} {x['version']}: {v['id']}" for x in known for v in x["vulns"]], len(known)


def locked(report: dict[str, Any]) -> str:
    """Requirements with hashes, of a report of pip: names, versions and hashes, never where a file came from.

    >>> file = {"url": "https://example.org/x.whl", "archive_info": {"hashes": {"sha256": "ab"}}}
    >>> locked({"install": [{"metadata": {"name": "NumPy", "version": "2.4.6"}, "download_info": file}]})
    'numpy==2.4.6 --hash=sha256:ab\\n'
    """
    found = [(each["metadata"], each["download_info"].get("archive_info")) for each in report["install"]]
    lines = [
        f"{_normal(what['name'])}=={what['version']} --hash=sha256:{file['hashes']['sha256']}\n"
        for what, file in found
        if file is not None  # airpool's own packages, from their folders
    ]
    return "".join(sorted(lines))


def hashes(packages: list[str]) -> str:
    """What pip would install here for these packages of the checkout, within the constraints."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    done = subprocess.run(
        [*command, "-c", "constraints.txt", *(f"./packages/{each}" for each in packages)],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return locked(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description="Bill of materials and audit.")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "sbom.json", help="where the bill of materials goes")
    parser.add_argument("--offline", action="store_true", help="do not ask pip-audit")
    parser.add_argument("--hashes", type=Path, help="write only the requirements of this platform, with hashes")
    some = ["airpool", "airpool-models", "airpool-runtime"]
    parser.add_argument("--packages", nargs="+", default=some, help='for --hashes, such as "airpool[plots]"')
    options = parser.parse_args()
    if options.hashes is not None:
        options.hashes.write_text(hashes(options.packages), "utf-8")
        return
    pinned = pins((ROOT / "constraints.txt").read_text("utf-8"))
    wrong = differing(pinned)
    fits = subprocess.run([sys.executable, "-m", "pip", "check"], check=False, capture_output=True, text=True)
    wrong += fits.stdout.splitlines() if fits.returncode else []
    print(f"{len(pinned)} dependencies are pinned by name and version")
    print(f"{bill_of_materials(options.out.resolve())} components: {options.out}")
    vulnerable, asked = ([], 0) if options.offline else audited()
    why = "" if asked else ": not asked" if options.offline else ": no service can be reached"
    print(f"pip-audit: {asked} of {len(pinned)} packages audited{why}")
    for line in wrong + vulnerable:
        print(line)
    sys.exit(1 if wrong or vulnerable else 0)


if __name__ == "__main__":
    main()
