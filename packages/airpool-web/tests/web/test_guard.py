"""Who may ask, and what binds the browser."""

import asyncio
from http.cookies import SimpleCookie

import pytest

from airpool_runtime.door import HEADER_BYTES
from airpool_web.app import PageOptions, app

from .asking import asked, at_path

TOKEN = "0123456789abcdef0123456789abcdef"
SECRET = PageOptions(token=TOKEN)
BOUND = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


def entering(token, **headers):
    return ("POST", "/enter", {"data": {"token": token}, "headers": headers})


def test_the_headers_are_on_every_reply():
    replies = asked(
        ("GET", "/"),
        ("GET", "/nothing"),
        ("PUT", "/"),
        ("GET", "/api/about"),
        ("GET", "/api/nothing"),
        ("DELETE", "/api/about"),
        ("GET", "/", {"headers": {"host": "evil.example"}}),
        ("GET", "/", {"headers": {"origin": "http://evil.example"}}),
        ("GET", "/", {"headers": {"x": "x" * HEADER_BYTES}}),
    )
    assert [each.status_code for each in replies] == [200, 404, 405, 200, 404, 405, 421, 403, 431]
    for each in [*replies, *asked(("GET", "/"), ("GET", "/api/about"), entering("wrong"), options=SECRET)]:
        policy = dict(part.strip().split(" ", 1) for part in each.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert "unsafe" not in each.headers["content-security-policy"]
        assert {name: each.headers[name] for name in BOUND} == BOUND
        assert "server" not in each.headers


def test_refusals_are_told_in_json_and_end_the_connection():
    (one,) = asked(("GET", "/api/about", {"headers": {"host": "evil.example"}}))
    assert one.headers["connection"] == "close"
    assert "Host" in one.json()["error"]
    assert one.json()["field"] is None


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[", "10.0.0.1", "127.0.0.1@evil", "%"]
)
def test_a_name_that_leads_here_is_refused(host):
    assert asked(("GET", "/", {"headers": {"host": host}}))[0].status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8350", "localhost:1", "[::1]:8350", "127.0.0.1"])
def test_this_machine_is_served_by_any_of_its_names(host):
    same = {"host": host, "origin": f"http://{host}"}
    assert [each.status_code for each in asked(("GET", "/", {"headers": same}))] == [200]


@pytest.mark.parametrize("options", [PageOptions(), SECRET], ids=["no token", "token"])
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:8351", "https://127.0.0.1:8350", ""]
)
def test_a_page_from_elsewhere_is_refused(origin, options):
    async def entered(client):
        await client.post("/enter", data={"token": TOKEN})
        return [await client.get("/api/about", headers={"origin": origin})]

    assert asked(options=options, then=entered)[-1].status_code == 403


def test_the_token_is_asked_for_once_and_kept_in_a_cookie():
    async def play(client):
        first = [await client.get("/"), await client.get("/api/about"), await client.get("/js/main.js")]
        return [*first, await client.post("/enter", data={"token": f" {TOKEN}\n"}), await client.get("/api/about")]

    form, api, script, entered, about = asked(options=SECRET, then=play)
    assert [each.status_code for each in (form, api, script, entered, about)] == [401, 401, 401, 303, 200]
    assert '<form method="post" action="/enter">' in form.text
    assert "load it again" in api.json()["error"]
    assert entered.headers["location"] == "/"
    (cookie,) = SimpleCookie(entered.headers["set-cookie"]).values()
    assert (cookie["httponly"], cookie["samesite"].lower(), cookie["path"]) == (True, "strict", "/")
    assert not cookie["secure"]
    assert TOKEN not in cookie.value


def test_over_tls_the_cookie_stays_there():
    async def play(client):
        return [await client.post("https://127.0.0.1:8350/enter", data={"token": TOKEN})]

    assert "secure" in asked(options=SECRET, then=play)[0].headers["set-cookie"].lower()


@pytest.mark.parametrize("given", ["", "wrong", TOKEN[:-1], TOKEN + "0", "é", "\x00", TOKEN.upper()])
def test_a_wrong_token_is_told_and_gives_nothing(given):
    wrong, after = asked(entering(given), ("GET", "/api/about"), options=SECRET)
    assert (wrong.status_code, after.status_code) == (401, 401)
    assert "This token is wrong." in wrong.text
    assert "set-cookie" not in wrong.headers


@pytest.mark.parametrize("cookie", ["airpool=", "airpool=x", "airpool=é", "other=1", ";;=", f"airpool={TOKEN}"])
def test_a_cookie_of_ones_own_making_gives_nothing(cookie):
    (one,) = asked(("GET", "/api/about", {"headers": {"cookie": cookie.encode("latin-1")}}), options=SECRET)
    assert one.status_code == 401


def test_tokens_cannot_be_tried_in_turn():
    tries = asked(*(entering(f"guess {k}") for k in range(8)), entering(TOKEN), options=SECRET)
    codes = [each.status_code for each in tries]
    assert codes[:5] == 5 * [401]
    assert codes[-1] == 429
    assert "wait" in tries[-1].json()["error"]


def test_a_form_that_is_too_long_is_refused():
    long, broken = asked(entering("x" * 5_000), ("POST", "/enter", {"content": b"\xff\xfe"}), options=SECRET)
    assert long.status_code == 413
    assert broken.status_code == 401


def test_a_host_that_is_none_is_no_way_around_the_token():
    for host in ("[", "127.0.0.1/enter?", "x/api/about#", "::::"):
        (one,) = asked(("GET", "/api/about", {"headers": {"host": host}}), options=SECRET)
        assert one.status_code == 401


def test_too_many_requests_are_refused(monkeypatch):
    monkeypatch.setattr("airpool_web.app._PER_SECOND", 1e-9)
    assert at_path("/")[0] == 429


def test_the_page_is_started_and_ended_by_its_server():
    async def play():
        page, sent = app(PageOptions()), []
        said = iter(["lifespan.startup", "lifespan.shutdown"])

        async def receive():
            return {"type": next(said)}

        async def send(message):
            sent.append(message["type"])

        closed = []
        page.state.jobs.close = lambda: closed.append(True)
        await page({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
        await page({"type": "websocket"}, receive, send)
        return sent, closed

    assert asyncio.run(play()) == (["lifespan.startup.complete", "lifespan.shutdown.complete"], [True])
