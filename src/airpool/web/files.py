"""The page's files, read once, compressed once. A path is looked up in a table, so that none leads out of it."""

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from airpool.web.asked import takes_gzip

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


@dataclass(frozen=True)
class PageFile:
    """One file: its bytes, the same compressed, its media type, and its tag for caches."""

    content: bytes
    compressed: bytes
    kind: str
    tag: str


@cache
def table() -> dict[str, PageFile]:
    """Path in the address → file. The page itself is at /; tokens.css is shared with the pages that are written."""
    found = dict(_below(resources.files("airpool.web") / "static", "/"))
    shared = resources.files("airpool._support") / "templates" / "tokens.css"
    return found | {"/": found["/index.html"], "/css/tokens.css": _read(shared)}


def _below(folder: Traversable, prefix: str) -> list[tuple[str, PageFile]]:
    found = list[tuple[str, PageFile]]()
    for each in sorted(folder.iterdir(), key=lambda item: item.name):
        if each.is_dir():
            found += _below(each, f"{prefix}{each.name}/")
        elif _suffix(each.name) in _TYPES:
            found.append((prefix + each.name, _read(each)))
    return found


def _suffix(name: str) -> str:
    return "." + name.rpartition(".")[2]


def _read(file: Traversable) -> PageFile:
    content = file.read_bytes()
    compressed = gzip.compress(content, 9, mtime=0)
    return PageFile(content, compressed, _TYPES[_suffix(file.name)], f'"{sha256(content).hexdigest()[:32]}"')


async def served(request: Request) -> Response:
    """A file of the page; 304 where the browser has it already."""
    found = table().get(request.scope["path"])
    if found is None:
        return Response("there is no such page\n", 404, media_type="text/plain")
    headers = {"ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    if takes_gzip(request):
        return Response(found.compressed, headers=headers | {"Content-Encoding": "gzip"}, media_type=found.kind)
    return Response(found.content, headers=headers, media_type=found.kind)
