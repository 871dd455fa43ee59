"""The process that serves the page: where it listens, and how it ends."""

import signal
import socket
import ssl
from contextlib import ExitStack

import httpx
import pytest

from airpool_runtime import secured
from airpool_runtime.keys import authority
from airpool_web import serving
from benchmarks.page_process import Page

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authority") / "keys"
    authority.create(folder)
    return folder


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(TOKEN + "\n")
    return file


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", "[::1]:0"])
def test_loopback_needs_nothing(address):
    try:
        where = serving.bound(address, token=None, credentials=None)
    except OSError:
        pytest.skip(f"no {address} on this machine")
    with where.sock:
        assert where.url == f"http://{address.rpartition(':')[0]}:{where.sock.getsockname()[1]}/".replace(
            "localhost", "127.0.0.1"
        )


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0"])
@pytest.mark.parametrize(("token", "certified"), [(None, False), (TOKEN, False), (None, True)])
def test_beyond_loopback_a_token_and_keys_are_needed(address, token, certified, keys):
    credentials = secured.credentials(keys / "server", "server") if certified else None
    with pytest.raises(
        ValueError, match="beyond this machine: the page then needs --token-file FILE and --keys FOLDER"
    ):
        serving.bound(address, token=token, credentials=credentials)


def test_with_both_it_listens_beyond_loopback(keys):
    credentials = secured.credentials(keys / "server", "server")
    where = serving.bound("0.0.0.0:0", token=TOKEN, credentials=credentials)
    with where.sock:
        assert where.url.startswith("https://0.0.0.0:")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--listen", "127.0.0.1"], "'127.0.0.1' must be HOST:PORT"),
        (["--listen", ":8350"], "':8350' must be HOST:PORT"),
        (["--listen", "127.0.0.1:x"], "must be HOST:PORT"),
        (["--listen", "127.0.0.1:70000"], "must be HOST:PORT"),
        (["--listen", "0.0.0.0:0"], "needs --token-file FILE and --keys FOLDER"),
        (["--listen", "192.0.2.1:0"], "beyond this machine"),
        (["--model", "nothing"], "nothing"),
        (["--token-file", "nothing"], "nothing"),
        (["--keys", "nothing"], "nothing"),
        (["--listen"], "--listen"),
    ],
)
def test_bad_options_are_told_before_anything_is_served(refused, options, said):
    assert said in refused("ui", *options)


def test_a_short_token_is_refused(refused, tmp_path):
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("short")
    assert "at least" in refused("ui", "--token-file", file)


def test_a_taken_port_is_told(refused):
    where = serving.bound("127.0.0.1:0", token=None, credentials=None)
    with where.sock:
        assert "cannot listen" in refused("ui", "--listen", f"127.0.0.1:{where.sock.getsockname()[1]}")


@pytest.mark.parametrize(("sign", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_page_is_served_until_it_is_stopped(tmp_path, sign, status):
    page = Page(tmp_path)
    try:
        assert "<title>airpool</title>" in httpx.get(page.url).text
        assert page.stop(sign) == status
    finally:
        page.stop(signal.SIGKILL)
    assert page.log.read_text() == ("The page is closed.\n" if status == 0 else "")


@pytest.mark.parametrize("path", ["/api/audit", "/api/answer"])
def test_ctrl_c_while_something_is_computed_ends_it_without_a_word(tmp_path, path):
    page = Page(tmp_path)
    try:
        with httpx.Client(base_url=page.url, timeout=60).stream("POST", path, json={"epsilon": "1.3"}) as reply:
            next(reply.iter_raw())
            assert page.stop(signal.SIGINT) == 0
    finally:
        page.stop(signal.SIGKILL)
    assert page.log.read_text() == "The page is closed.\n"


def test_over_tls_with_a_token(tmp_path, keys, token_file):
    trust = ssl.create_default_context(cafile=keys / "ca.crt")
    trust.check_hostname = False  # the certificate names a role
    with (
        Page(tmp_path, "--token-file", token_file, "--keys", keys / "server") as page,
        httpx.Client(base_url=page.url, verify=trust) as client,
    ):
        assert page.url.startswith("https://")
        assert client.get("/api/about").status_code == 401
        entered = client.post("/enter", data={"token": TOKEN})
        assert entered.status_code == 303
        assert "Secure" in entered.headers["set-cookie"]
        assert client.get("/api/about").json()["model"] == "modelnet40"


def test_connections_that_ask_nothing_keep_nobody_out(tmp_path):
    with Page(tmp_path) as page, ExitStack() as stack:
        url = httpx.URL(page.url)
        for _ in range(300):
            stack.enter_context(socket.create_connection((url.host, url.port), timeout=30))
        assert httpx.get(f"{page.url}api/about", timeout=30).status_code == 200
