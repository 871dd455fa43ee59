"""The page's files: as they lie, once compressed, and none from elsewhere."""

import gzip

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airpool_web.app import table

from .asking import asked, at_path

HOSTILE = [
    "/../pyproject.toml",
    "/../app.py",
    "/js/../../app.py",
    "/..%2fapp.py",
    "/%2e%2e/app.py",
    "/%2e%2e%2fapp.py",
    "/..\\app.py",
    "/..%5capp.py",
    "//etc/passwd",
    "/etc/passwd",
    "/%2fetc%2fpasswd",
    "/static/index.html",
    "/index.html%00",
    "/index.html%00.js",
    "/js//main.js",
    "/js",
    "/js/",
    "/file:///etc/passwd",
    "/vendor/SHA256SUMS",
    "/vendor/three.LICENSE",
    "/%c0%ae%c0%ae/app.py",
    "/%ff",
]


def test_every_file_of_the_table_is_served_as_it_lies():
    paths = sorted(table())
    assert {"/", "/index.html", "/js/main.js", "/css/page.css", "/css/tokens.css", "/vendor/uPlot.min.css"} <= set(
        paths
    )
    plain = asked(*(("GET", path, {"headers": {"accept-encoding": "identity"}}) for path in paths))
    packed = asked(*(("GET", path, {"headers": {"accept-encoding": "br, gzip"}}) for path in paths))
    for path, one, other in zip(paths, plain, packed, strict=True):
        content = table()[path].content
        assert (one.status_code, one.content, one.headers.get("content-encoding")) == (200, content, None)
        assert (other.content, other.headers["content-encoding"]) == (content, "gzip")
        assert one.headers["vary"] == other.headers["vary"] == "Accept-Encoding"
        assert one.headers["content-type"] == table()[path].kind


def test_a_browser_that_takes_no_gzip_gets_none():
    for how in ("gzip;q=0", "deflate", "xgzip", ""):
        (one,) = asked(("GET", "/", {"headers": {"accept-encoding": how}}))
        assert "content-encoding" not in one.headers
    (one,) = asked(("GET", "/", {"headers": {"accept-encoding": "GZIP ; q=0.5"}}))
    assert one.headers["content-encoding"] == "gzip"


def test_a_file_that_the_browser_has_is_not_sent_again():
    (first,) = asked(("GET", "/js/main.js"))
    tag = first.headers["etag"]
    same, other = (
        asked(("GET", "/js/main.js", {"headers": {"if-none-match": each}}))[0] for each in (tag, '"another"')
    )
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert (other.status_code, other.content) == (200, first.content)
    assert first.headers["cache-control"] == "no-cache"


def test_compressed_files_are_the_same_in_every_process():
    for each in table().values():
        assert gzip.decompress(each.compressed) == each.content
        assert each.compressed[4:8] == bytes(4)  # no time of compression


def test_a_head_has_no_body():
    (one,) = asked(("HEAD", "/"))
    assert (one.status_code, one.content) == (200, b"")


@pytest.mark.parametrize("path", HOSTILE)
def test_no_path_leads_out_of_the_folder(path):
    (one,) = asked(("GET", httpx.URL("http://127.0.0.1:8350").copy_with(raw_path=path.encode())))
    assert (one.status_code, one.text) == (404, "there is no such page\n")
    assert at_path(path)[0] == 404


@given(st.text(st.sampled_from("./\\%2e0\x00\n~:?#aé"), max_size=12))
def test_a_path_is_a_name_of_the_table_or_nothing(path):
    status, _, body = at_path("/" + path)
    known = table().get("/" + path)
    assert (status, body) == (200, known.content) if known else (status == 404 and len(body) < 30)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "X"])
def test_files_can_only_be_read(method):
    status, headers, _ = at_path("/", method=method)
    assert status == 405
    assert b"content-security-policy" in headers
