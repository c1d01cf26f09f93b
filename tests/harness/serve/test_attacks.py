"""The server under attack: it reads only its folder, survives, and sends its security headers."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.harness.serve.conftest import NASTY, SECRET, Server, start, stop

pytestmark = [pytest.mark.real, pytest.mark.slow]

TOKEN = "a token of the test that is long enough"
DESCRIPTORS_MAX = 60  # of the server at rest
UPS = [
    "..",
    "%2e%2e",
    "%2E%2e",
    "%252e%252e",
    "..%5c",
    "..\\",
    "%c0%ae%c0%ae",
    "....",
    ".%2e",
    "%00..",
    "..%00",
]
SEPARATORS = ["/", "%2f", "%5c", "\\", "%252f", "//", "/./"]
ROUTES = ["/files/", "/text/", "/hunt/", "/conformance/", "/matrix/", "/run/", "/bug/", "/"]


def raw(server: Server, data: bytes, wait_s: float = 20.0) -> bytes:
    """Send bytes as they are. Return what comes back until the server closes, or the first part of it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait_s) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused while it was still being sent
        received = b""
        try:
            while part := connection.recv(65536):
                received += part
        except OSError:
            pass
        return received


@pytest.mark.parametrize("route", ROUTES)
def test_no_path_leads_outside(route: str, server: Server) -> None:
    for up in UPS:
        for separator in SEPARATORS:
            for start_of_path in ("", f"lost{separator}", separator):
                path = f"{route}{start_of_path}{up}{separator}outside{separator}secret.txt"
                answer = server.get(path)
                assert SECRET.encode() not in answer.body, path
                assert answer.status in (400, 404), (path, answer.status)


@pytest.mark.parametrize(
    "path",
    [
        "/files/link-to-file",
        "/text/link-to-file",
        "/files/link-to-folder/secret.txt",
        "/text/link-to-folder/secret.txt",
        "/files/lost/link.json",
        "/text/lost/link.json",
        "/text/lost/inside.json",
        "/run/link-to-folder",
        "/conformance/link-to-folder",
        "/hunt/link-to-file",
        "/files/lost/pipe.json",
        "/text/lost/pipe.json",
        "/files/lost",
        "/files/lost/nodes",
        "/files/",
        "/files//etc/passwd",
        "/text//proc/self/environ",
        "/files/lost/verdict.json/",
        "/files/" + "a/" * 100 + "b",
        "/files/" + "a" * 300,
        "/files/lost/verdict.json%00.txt",
        "/run/%00",
        "/run/lost%2f..%2flost",
        "/compare?run=lost%2f..&run=..",
    ],
)
def test_links_devices_and_odd_names_are_not_served(path: str, server: Server) -> None:
    answer = server.get(path)
    assert answer.status in (400, 404)
    assert SECRET.encode() not in answer.body
    assert b"root:" not in answer.body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n\r\n",
        b"\x00\xff" * 500,
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n",
        b"GET http://other/ HTTP/1.1\r\nHost: other\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nBad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 300_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\nx",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
    ids=range(19),
)
def test_malformed_and_oversized_requests_end_their_connection_alone(
    data: bytes, server: Server
) -> None:
    answered = raw(server, data)
    assert answered[:9] in (b"", b"HTTP/1.1 ")
    assert answered[9:12] in (b"", b"200", b"400", b"404", b"405", b"414", b"421", b"431")
    assert server.get("/").status == 200


def test_only_reading_is_allowed(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "X"):
        assert server.get("/run/lost", method).status == 405
    assert server.get(f"/?{'q=' + 'a' * 9000}").status == 414


def test_another_name_of_the_host_is_refused(server: Server) -> None:
    """A page of another site that its name server points to 127.0.0.1 would send its own name."""
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::2]"):
        assert server.get("/", Host=host).status == 421
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:5"):
        assert server.get("/", Host=host).status == 200


def test_every_answer_has_the_rules_of_the_browser(server: Server) -> None:
    for path in (
        "/",
        "/run/lost",
        "/none",
        "/files/lost/history.jsonl",
        "/text/lost/campaign.toml",
    ):
        headers = server.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers


def test_two_hundred_clients_at_once_are_answered(server: Server) -> None:
    paths = ["/", "/run/lost", "/run/going-on", "/hunt/hunt.jsonl", "/files/lost/history.jsonl"]
    barrier = threading.Barrier(200)

    def client(number: int) -> list[int]:
        barrier.wait(60)
        return [server.get(paths[(number + turn) % len(paths)]).status for turn in range(5)]

    with ThreadPoolExecutor(200) as pool:
        found = list(pool.map(client, range(200)))
    assert {status for statuses in found for status in statuses} == {200}


def test_clients_that_never_finish_do_not_hold_up_others(server: Server) -> None:
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    try:
        for connection in slow:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        begun_s = time.monotonic()
        assert server.get("/bugs").status == 200
        assert time.monotonic() - begun_s < 30
    finally:
        for connection in slow:
            connection.close()


def test_hostile_words_of_an_address_are_shown_and_not_obeyed(server: Server) -> None:
    fields = (
        "q",
        "workload",
        "verdict",
        "version",
        "sort",
        "order",
        "first",
        "outcome",
        "area",
        "run",
    )
    query = urlencode({**dict.fromkeys(fields, NASTY), "renew": NASTY})
    pages = [
        *("/", "/compare", "/trends", "/hunts", "/bugs", "/conformance", "/contract", "/login"),
        *(
            "/run/lost",
            "/run/lost/live",
            "/run/going-on",
            "/hunt/hunt.jsonl",
            "/conformance/report",
        ),
        f"/run/{quote(NASTY)}",
        f"/bug/{quote(NASTY)}",
        f"/hunt/{quote(NASTY)}",
        f"/{quote(NASTY)}",
    ]
    for path in pages:
        answer = server.get(f"{path}?{query}")
        assert answer.status in (200, 303, 400, 404), path
        assert "<script" not in answer.text, path
        assert "<img" not in answer.text, path
        assert not set(answer.text) & {"\x1b", "\u202e"}, path
        assert NASTY not in str(answer.headers), path


def test_numbers_of_an_address_may_be_anything(server: Server) -> None:
    for first in ("-1", "9" * 400, "1e9", "\u0663", "0x10", " 5", "\x00"):
        assert server.get(f"/?{urlencode({'first': first})}").status == 200, first
    assert server.get("/?" + "&".join(["verdict=invalid"] * 500)).status == 200
    assert server.get("/?q=%ff%fe&verdict=%c0%80").status == 200


def test_two_hundred_clients_that_break_off_leave_the_server_whole(server: Server) -> None:
    """Each asks for a whole history and closes at once, with a reset."""
    request = b"GET /files/lost/history.jsonl HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(request)
    assert server.get("/").status == 200
    descriptors = Path(f"/proc/{server.process.pid}/fd")
    if descriptors.exists():
        end_s = time.monotonic() + 20
        while len(list(descriptors.iterdir())) > DESCRIPTORS_MAX and time.monotonic() < end_s:
            server.get("/bugs?q=none")
        assert len(list(descriptors.iterdir())) <= DESCRIPTORS_MAX


def test_a_token_is_asked_for(runs_folder: Path) -> None:
    guarded = start(runs_folder, "--host", "127.0.0.1", STATICFIRE_TOKEN=TOKEN)
    try:
        for path in (
            "/",
            "/run/lost",
            "/files/lost/history.jsonl",
            "/none",
            "//login/..",
            "/style.css/",
        ):
            assert guarded.get(path).status == 401, path
        assert guarded.get("/", Authorization=f"Bearer {TOKEN}x").status == 401
        assert guarded.get("/", Authorization=f"Basic {TOKEN}").status == 401
        assert guarded.get("/", Cookie=f"staticfire_{guarded.port}={TOKEN}").status == 401
        assert guarded.get("/", Cookie="\xff;=;;a=b; c").status == 401
        assert guarded.get("/", Authorization=f"Bearer {TOKEN}").status == 200
        assert guarded.get("/", Authorization=f"Bearer {TOKEN}", Host="any.example").status == 200
        browser = guarded.get("/run/lost", Accept="text/html,*/*")
        assert (browser.status, browser.headers["location"]) == (303, "/login")
        assert "A token is needed" in guarded.get("/login").text
        wrong = guarded.get("/login", "POST", urlencode({"token": "no"}).encode())
        assert wrong.status == 403
        assert "set-cookie" not in wrong.headers
        right = guarded.get("/login", "POST", urlencode({"token": TOKEN}).encode())
        cookie = right.headers["set-cookie"]
        assert right.status == 303
        assert re.search(r"HttpOnly.*SameSite=strict", cookie)
        assert TOKEN not in cookie
        assert guarded.get("/run/lost", Cookie=cookie.partition(";")[0]).status == 200
        assert guarded.get("/login", "POST", b"token=" + b"a" * 5000).status == 413
        assert guarded.get("/login", "POST", b"\xff\xfe=%%%").status in (400, 403)
        assert guarded.get("/login", "POST", b"&".join([b"a=b"] * 50)).status == 400
        assert guarded.get("/login", "PUT").status == 405
    finally:
        status, errors = stop(guarded)
    assert (status, errors) == (0, "")
