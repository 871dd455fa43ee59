"""python -m scripts.pages [--list] [--verbose] [--jobs N] [PAGE ...]"""

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.pages.blocks import ROOT, blocks, commands, pages
from scripts.pages.run import Page, Result, copy_working_tree


def run(path: Path, verbose: bool) -> Result:
    """Run one page in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="airpool-page-", ignore_cleanup_errors=True) as temporary:
        folder, scratch = Path(temporary, "airpool"), Path(temporary, "scratch")
        folder.mkdir()
        scratch.mkdir()
        copy_working_tree(folder)
        return Page(path, folder, scratch, verbose=verbose).run()


def row(path: Path, result: Result) -> str:
    """The line of a page: blocks, those that ran, those that did not and why, seconds."""
    why = "; ".join(f"{count} not run: {reason}" for reason, count in sorted(result.not_run.items()))
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    end = "  FAILED" if result.failure else ""
    doctests = f"  {result.doctests} doctests in make test" if result.doctests else ""
    return f"{name:<32} {result.blocks:3} blocks  {result.run:3} run  {result.seconds:5.0f} s{doctests}  {why}{end}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Run every command and code block of the pages.")
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="default: all that have blocks")
    parser.add_argument("--list", action="store_true", help="print commands and marks, run nothing")
    parser.add_argument("--verbose", action="store_true", help="print each command with its time")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="pages at once")
    options = parser.parse_args()
    found = {path.resolve(): list(blocks(path.read_text("utf-8"))) for path in options.pages or pages()}
    found = {path: each for path, each in found.items() if each}
    if not found:
        sys.exit("no block in any page, so nothing was checked")
    if options.list:
        for path, each in found.items():
            for block in each:
                print(f"{path.name}:{block.line}: {block.language or 'indented'} {block.marks or ''}")
                for command in commands(block) if block.language in ("sh", "console") else ():
                    print(f"    {command.text}")
        return
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // options.jobs)))
    begin, results = time.monotonic(), []
    first = sorted(found, key=lambda path: -len([each for each in found[path] if each.language in ("sh", "console")]))
    with ThreadPoolExecutor(options.jobs) as pool:
        for path, result in zip(first, pool.map(lambda path: run(path, options.verbose), first), strict=True):
            print(row(path, result), flush=True)
            if result.failure:
                print(f"\n{result.failure}\n", file=sys.stderr, flush=True)
            results.append(result)
    blocks_, ran = sum(each.blocks for each in results), sum(each.run for each in results)
    used = os.times()
    print(
        f"{len(results)} pages, {blocks_} blocks, {ran} run, {sum(each.doctests for each in results)} doctests, "
        f"{time.monotonic() - begin:.0f} s, of processors {used.children_user + used.children_system:.0f} s"
    )
    sys.exit(any(each.failure for each in results))


if __name__ == "__main__":
    main()
