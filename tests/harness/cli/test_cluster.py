"""`staticfire cluster up` as a command."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from staticfire.harness.local_cluster.ports import first_busy, free_ports
from staticfire.harness.local_cluster.running import STOP_TIMEOUT_S
from staticfire.harness.state import VARIABLE
from tests.harness.cli.conftest import Staticfire
from tests.support.sending import send

ROOT = Path(__file__).parents[3]
WAIT_S = 60.0

# What the command is about to do (an event of sys.audit) and a word of it, and which time.
MOMENTS = [
    "os.mkdir rocketmq- 1",
    "os.mkdir rocketmq- 2",
    "socket.bind 127.0.0.1 1",
    "open name-server-1.jsonl 1",
    "subprocess.Popen node_process 1",
    "subprocess.Popen node_process 2",
    "socket.connect 127.0.0.1 1",
    "open cluster.json 1",
]
INTERRUPTS = """
import os, signal, sys, time

moment = os.environ.pop("MOMENT", None)  # not for the nodes
left = 0

def interrupt(event, arguments):
    global left
    if left and event == wanted and word in str(arguments):
        left -= 1
        if left == 0:
            os.write(2, f"{time.monotonic()}\\n".encode())
            os.kill(os.getpid(), signal.SIGINT)

if moment is not None:
    wanted, word, number = moment.split()
    left = int(number)
    sys.addaudithook(interrupt)
"""


@contextmanager
def cluster_up(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command and what it printed until it was ready; killed at the end if it still runs."""
    command = [sys.executable, "-m", "staticfire", "cluster", "up", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        said = ""
        try:
            while not said.endswith("Ctrl-C\n"):
                line = process.stdout.readline()
                assert line, f"it ended before it was ready: {process.communicate()[1]}"
                said += line
            yield process, said
        finally:
            process.kill()


def free_first_port() -> int:
    """For one name server, a master and a slave at their fixed distances from it."""
    while True:
        [port] = free_ports(1)
        brokers = [port + place + apart for place in (1035, 1045) for apart in (-2, 0, 1)]
        if first_busy(brokers) is None:
            return port


def name_server_of(said: str) -> str:
    found = re.search(r'setNamesrvAddr\("(.*)"\)', said)
    assert found is not None
    return found[1]


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("processes", [[], ["--processes"]])
def test_serves_until_a_signal_stops_it(
    number: signal.Signals, processes: list[str], tmp_path: Path
) -> None:
    with cluster_up("--port", "0", "--store", tmp_path, *processes) as (process, said):
        assert send([name_server_of(said)], "Orders", b"x")
        process.send_signal(number)
        assert process.wait(WAIT_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert not (tmp_path / "broker-a-0" / "abort").exists(), "it was not stopped gracefully"


@pytest.mark.slow
@pytest.mark.real
def test_says_how_to_connect_and_where_each_node_is() -> None:
    port = free_first_port()
    with cluster_up("--port", port, "--slaves", "1", "--name-servers", "1") as (process, said):
        lines = said.splitlines()
        assert lines[0].split() == ["name-server-1", f"127.0.0.1:{port}", "name", "server"]
        assert lines[1].split() == ["broker-a-0", f"127.0.0.1:{port + 1035}", "master"]
        assert lines[2].split() == ["broker-a-1", f"127.0.0.1:{port + 1045}", "slave", "1"]
        assert re.match(r"ready in \d+\.\d\d s; data in .* \(removed at the end\)", lines[3])
        folder = Path(lines[3].partition("data in ")[2].rpartition(" (")[0])
        assert folder.is_dir()
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.real
def test_a_killed_node_is_reported_and_the_last_one_ends_the_command() -> None:
    with cluster_up("--port", "0", "--processes") as (process, said):
        assert process.stderr is not None
        for pid in map(int, re.findall(r"process (\d+)", said)):
            os.kill(pid, signal.SIGKILL)
            assert "was killed by SIGKILL" in process.stderr.readline()
        assert process.wait(WAIT_S) == 255
        assert process.stderr.read() == "staticfire: every node has ended\n"


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("moment", MOMENTS)
def test_interrupted_while_it_starts(moment: str, tmp_path: Path) -> None:
    """Whatever it is about to do, Ctrl-C leaves no data, no process and no traceback behind."""
    folder, data = tmp_path / "python", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    (folder / "sitecustomize.py").write_text(INTERRUPTS)
    command = [sys.executable, "-m", "staticfire", "cluster", "up", "--port", "0", "--processes"]
    state = tmp_path / "state"
    environment = {**os.environ, "TMPDIR": str(data), "PYTHONPATH": str(folder), "MOMENT": moment}
    environment[VARIABLE] = str(state)
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=WAIT_S
    )
    assert "stop      Ctrl-C" not in ended.stdout, "it was never interrupted"
    began, _, said = ended.stderr.partition("\n")
    assert said.strip() in ("", "staticfire: interrupted")
    assert time.monotonic() - float(began) < STOP_TIMEOUT_S, "a node did not hear that it shall end"
    assert [*data.iterdir(), *state.iterdir()] == []


@pytest.mark.slow
@pytest.mark.real
def test_nodes_do_not_outlive_a_killed_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what is killed removes nothing
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    with cluster_up("--port", "0", "--processes") as (process, said):
        address = name_server_of(said)
        process.kill()
        process.wait()
    host, _, port = address.partition(":")
    deadline = time.monotonic() + WAIT_S
    while is_listening(host, int(port)):
        assert time.monotonic() < deadline, "the name server still listens"
        time.sleep(0.01)


def is_listening(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--slaves x", "'x'; allowed: whole numbers with commas"),
        ("--masters 0", "masters is 0; allowed: 1 to 9"),
        ("--masters x", "'x' is not a valid integer"),
        ("--broker-property x", "--broker-property is 'x'; allowed: NAME=VALUE"),
        ("--broker-property traceOn=5", "true and false are allowed"),
        ("--port 1", "port is 1; allowed"),
        ("--replication sync", "no slave to wait for"),
        ("--flush no", "flush is 'no'"),
        ("--store /dev/null/x", "store /dev/null/x cannot be used: Not a directory"),
        ("--speed", "No such option"),
        ("surplus", "unexpected extra argument"),
    ],
)
def test_bad_arguments(arguments: str, words: str, staticfire: Staticfire) -> None:
    said = staticfire("cluster", "up", *arguments.split())
    assert (said.status, said.out) == (254, "")
    assert words in said.err
    assert said.err.count("\n") == 1


@pytest.mark.real
def test_a_port_in_use(staticfire: Staticfire) -> None:
    [port] = free_ports(1)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port + 1036))  # where the broker would replicate
        holder.listen()
        said = staticfire("cluster", "up", "--port", port)
    assert (said.status, said.out) == (254, "")
    assert said.err == (
        f"staticfire: port {port + 1036} on 127.0.0.1 is in use;"
        " choose another first port, or 0 for free ports\n"
    )
