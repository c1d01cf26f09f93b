"""`staticfire proxy` in a script and on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from staticfire.harness.local_cluster import LocalCluster
from tests.harness.cli.conftest import Staticfire
from tests.support.sending import send

ROOT = Path(__file__).parents[4]
WAIT_S = 60.0
STYLES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Script:
    """The command with pipes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.started = self.line()

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps(request)}\n")
        self.process.stdin.flush()
        return self.line()


@contextmanager
def script(*arguments: object) -> Iterator[Script]:
    command = [sys.executable, "-m", "staticfire", "proxy", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT
    ) as process:
        try:
            yield Script(process)
        finally:
            process.kill()


@pytest.mark.real
def test_a_script_breaks_links_and_mends_them() -> None:
    with (
        LocalCluster() as cluster,
        script("--name-server", cluster.name_server_address, "--client", "alone") as proxy,
    ):
        assert proxy.started["event"] == "started"
        send([proxy.started["clients"]["alone"]], "Orders", b"x")
        fault = proxy.ask(id=7, f="delay", link="*>broker-a-0", direction="up", delay_ms=5)
        assert (fault["ok"], fault["id"], fault["fault"]["fault"]) == (True, 7, 1)
        send([proxy.started["name_servers"]], "Orders", b"y")
        assert proxy.ask(f="burn")["ok"] is False
        [healed] = proxy.ask(f="heal")["healed"]
        assert healed["bytes"] > 0
        servers = [(one["server"], one["door"]) for one in proxy.ask(f="servers")["servers"]]
        assert ("broker-a-0", "alone") in servers
        links = {one["link"]: one for one in proxy.ask(f="links")["links"]}
        assert links["alone>broker-a-0"]["up"]["delayed"] == 0
        assert links["127.0.0.1@test>broker-a-0"]["up"]["delayed"] == healed["bytes"]
        proxy.process.send_signal(signal.SIGINT)
        stopped = proxy.line()
        assert stopped["event"] == "stopped"
        assert {one["link"] for one in stopped["links"]} == set(links)
        assert proxy.process.wait(WAIT_S) == 0
        assert proxy.process.stderr is not None
        assert proxy.process.stderr.read() == ""


@pytest.mark.real
def test_without_input_it_serves_all_the_same() -> None:
    with script("--name-server", "127.0.0.1:1") as proxy:
        assert proxy.process.stdin is not None
        proxy.process.stdin.close()
        host, _, port = proxy.started["name_servers"].partition(":")
        with socket.create_connection((host, int(port))):
            pass
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.line()["event"] == "stopped"
        assert proxy.process.wait(WAIT_S) == 0


@pytest.mark.real
def test_a_closed_output_ends_it() -> None:
    with script("--name-server", "127.0.0.1:1") as proxy:
        assert proxy.process.stdin is not None
        assert proxy.process.stdout is not None
        assert proxy.process.stderr is not None
        proxy.process.stdout.close()
        proxy.process.stdin.write('{"f": "links"}\n')
        proxy.process.stdin.flush()
        assert proxy.process.wait(WAIT_S) == 255
        assert "the output cannot be written" in proxy.process.stderr.read()


@pytest.mark.real
def test_a_terminal_gets_a_table() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "staticfire", "proxy", "--name-server", "127.0.0.1:1"]
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment
    ) as process:
        os.close(theirs)
        try:
            said = read_until(ours, "no faults")
            assert "setNamesrvAddr(" in said
            assert "client  server" in said
            os.write(ours, b'{"f": "drop", "link": "*>brokers"}\n')
            read_until(ours, "1: drop  *>brokers both")
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()
            os.close(ours)


def read_until(descriptor: int, words: str) -> str:
    """Raises TimeoutError."""
    said, deadline_s = "", time.monotonic() + WAIT_S
    while words not in said:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{words!r} was not said, but {said!r}")
        said += STYLES.sub("", os.read(descriptor, 4096).decode(errors="replace"))
    return said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "Missing option '--name-server'"),
        ("--name-server x", "--name-server: name server address is 'x'; allowed: host:port"),
        ("--name-server ;", "--name-server is ';'; allowed: host:port"),
        ("--name-server h:1 --advertise h:1", "--advertise is 'h:1'; allowed: a host name"),
        ("--name-server h:1 --advertise é", "--advertise is 'é'; allowed: a host name"),
        ("--name-server h:1 --listen 198.51.100.1", "'198.51.100.1' is no address of this machine"),
        ("--name-server h:1 --port 99999", "99999 is not in the range"),
        ("--name-server h:1 surplus", "unexpected extra argument"),
    ],
)
def test_bad_arguments(arguments: str, words: str, staticfire: Staticfire) -> None:
    said = staticfire("proxy", *arguments.split())
    assert (said.status, said.out) == (254, "")
    assert words in said.err
    assert said.err.count("\n") == 1


@pytest.mark.real
def test_a_port_in_use(staticfire: Staticfire) -> None:
    with contextlib.ExitStack() as held:
        port = 60_001
        while port > 60_000:  # the highest that the command takes
            holder = held.enter_context(socket.socket())
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
        said = staticfire("proxy", "--name-server", "h:1", "--port", port)
    assert said.status == 255
    assert said.err == f"staticfire: port {port} on 127.0.0.1 is in use\n"
