"""The command line of a node: what it refuses, and one real name server."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from staticfire.system_under_test.__main__ import broker_main, make_parser, run
from staticfire.system_under_test.broker.assembly import broker
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.filters import sql92
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.runtime.real_env import make_env

COMMAND = [sys.executable, "-m", "staticfire.system_under_test"]
ROOT = Path(__file__).parents[2]
INTERRUPTS_AN_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "staticfire.system_under_test.broker":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("arguments", [[], ["broker"], ["name-server"]])
def test_help_has_an_example(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run([*arguments, "--help"])
    assert caught.value.code == 0
    assert (
        "examples:\n  python -m staticfire.system_under_test name-server --listen"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "the following arguments are required: broker|name-server"),
        (["proxy"], "invalid choice: 'proxy'"),
        (["name-server", "--port", "70000"], "'70000' cannot be used: a number from 0 to 65535"),
        (["name-server", "--role", "slave"], "unrecognized arguments: --role slave"),
        (["name-server", "-c", "/no/such/file"], "cannot read /no/such/file: "),
        (["broker", "--port", "0"], "'0' cannot be used: a number from 1 to 65534 is allowed"),
        (["broker", "--broker-name", "a", "--store", ""], "it must not be empty"),
        (["broker", "--broker-name", ""], "it must not be empty"),
        (["name-server", "--store", ""], "it must not be empty"),
        (["name-server", "--store", "/a\0b"], "text without control characters"),
        (["broker", "--broker-name", "a\nb"], "text without control characters"),
        (["broker", "--broker-name", "\udcff"], "text without control characters"),
        (["broker", "--broker-name", "x" * 300], "up to 255 characters"),
        (["broker", "--cluster", "x" * 40_000], "up to 255 characters"),
        (["broker", "--listen", "0.0.0.0"], "an address that clients can connect to is needed"),
        (["broker"], "a broker needs a name: --broker-name, or brokerName in the file"),
        (["broker", "--broker-name", "a", "--flush", "never"], "invalid choice: 'never'"),
        (["broker", "--broker-name", "a", "--name-server", "ns"], "address 'ns' is not host:port"),
        (["broker", "--broker-name", "a", "--role", "slave"], "a slave needs an id above 0"),
        (["broker", "--broker-name", "a", "--broker-id", "1"], "a slave needs an id above 0"),
    ],
)
def test_bad_arguments_are_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(arguments)
    assert caught.value.code == 254
    [line] = capsys.readouterr().err.splitlines()
    assert sentence in line


def test_options_that_are_not_given_leave_the_file_alone() -> None:
    options = vars(make_parser().parse_args(["broker", "-c", "file", "--flush", "sync"]))
    assert options == {"node": "broker", "file": "file", "flush": "sync"}


def start_name_server(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "name-server", "--store", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.real
def test_a_name_server_says_when_it_is_ready_and_stops_on_sigterm(tmp_path: Path) -> None:
    with start_name_server(tmp_path, "--port", "0") as process:
        assert process.stdout is not None
        ready, address = process.stdout.readline().split()
        host, port = address.split(":")
        socket.create_connection((host, int(port)), timeout=60).close()
        process.send_signal(signal.SIGTERM)
        assert (ready, host, process.wait(timeout=60)) == ("ready", "127.0.0.1", 0)


@pytest.mark.real
def test_interrupted_while_it_imports(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS_AN_IMPORT)
    done = subprocess.run(
        [*COMMAND, "name-server", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.real
def test_a_taken_port_is_one_line_of_the_log(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        taken_at = taken.getsockname()
        with start_name_server(tmp_path, "--port", str(taken_at[1])) as process:
            _, errors = process.communicate(timeout=60)
    assert process.returncode == 254
    [line] = errors.splitlines()
    host, port = taken_at
    assert (
        json.loads(line)["error"] == f"{host}:{port} cannot be listened on: address already in use"
    )


@pytest.mark.real
def test_a_broker_whose_port_is_taken_leaves_its_store_as_it_was(tmp_path: Path) -> None:
    """A store that looks unclean would make the next start ask the slaves before it takes sends."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_broker(write_options(tmp_path, f"listenPort={port}"))
    assert (done.returncode, done.stdout) == (254, "")
    assert f"127.0.0.1:{port} cannot be listened on" in done.stderr.splitlines()[-1]
    assert sorted(path.name for path in (tmp_path / "store").glob("[al]*")) == ["lock"]


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("name", ["commitlog", "consumequeue", "index", "config"])
def test_a_file_where_a_folder_is_needed_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / name).touch()
    done = run_broker(write_options(tmp_path, ""))
    assert (done.returncode, done.stdout) == (254, "")
    assert f"{tmp_path}/store/{name}" in done.stderr.splitlines()[-1]


def write_options(folder: Path, text: str) -> str:
    path = folder / "broker.properties"
    path.write_text(f"brokerName=a\nstorePathRootDir={folder / 'store'}\n{text}\n")
    return str(path)


def run_broker(file: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "broker", "-c", file], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("configured", [8192, 1 << 20])
def test_a_store_with_files_of_another_size_is_refused(tmp_path: Path, configured: int) -> None:
    log_file = tmp_path / "store" / "commitlog" / f"{0:020d}"
    log_file.parent.mkdir(parents=True)
    log_file.write_bytes(bytes(65_536))
    done = run_broker(write_options(tmp_path, f"mappedFileSizeCommitLog={configured}"))
    assert done.returncode == 254
    assert f"{log_file} has 65536 bytes; every file there must have {configured}" in done.stderr
    assert (log_file.stat().st_size, len(done.stderr.splitlines())) == (65_536, 1)


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("configured", [200, 60_000])
def test_queues_with_files_of_another_size_are_refused(tmp_path: Path, configured: int) -> None:
    queue_file = tmp_path / "store" / "consumequeue" / "Topic" / "0" / f"{0:020d}"
    queue_file.parent.mkdir(parents=True)
    queue_file.write_bytes(bytes(4_000))
    done = run_broker(write_options(tmp_path, f"mappedFileSizeConsumeQueue={configured}"))
    assert done.returncode == 254
    assert f"{queue_file} has 4000 bytes; every file there must have {configured}" in done.stderr


def test_a_log_without_a_writable_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_options(
        tmp_path,
        "storePathCommitLog=/a:/b\nreadOnlyCommitLogStorePaths=/b:/a\n"
        "rocketmq.broker.multiPathSplitter=:",
    )
    with pytest.raises(SystemExit) as caught:
        run(["broker", "-c", file])
    assert caught.value.code == 254
    assert "every folder of the commit log is read-only (/a, /b)" in capsys.readouterr().err


@pytest.mark.parametrize(("node", "known"), [("broker", "visible_end"), ("name-server", "leaves")])
def test_a_faithful_policy_that_there_is_not_is_refused(
    node: str, known: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_options(tmp_path, f"mode=faithful\nfaithfulPolicies={known};nope")
    with pytest.raises(SystemExit) as caught:
        run([node, "-c", file])
    assert caught.value.code == 254
    error = capsys.readouterr().err
    assert "there is no policy 'nope'" in error
    assert f" {known}, " in error


@pytest.mark.parametrize(
    ("node", "option", "value", "reason"),
    [
        ("broker", "haAllowedAddresses", "here", "neither an address nor a block such as"),
        ("broker", "aclFullSignature", "yes", "OPTIONAL and REQUIRED are allowed"),
        ("broker", "aclFullSignature", "REQUIRED", "aclEnable is false; it needs true"),
        ("name-server", "registerAllowedAddresses", "10.0.0.1:9876", "neither an address nor"),
        ("name-server", "registerAllowedBrokers", ";", "names with semicolons between them"),
        ("name-server", "registerAllowedClusters", " ; ", "names with semicolons between them"),
    ],
)
def test_an_option_of_security_with_a_bad_value_ends_the_start(
    node: str,
    option: str,
    value: str,
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        run([node, "-c", write_options(tmp_path, f"{option}={value}")])
    assert caught.value.code == 254
    [line] = capsys.readouterr().err.splitlines()
    assert f"{option} is " in line
    assert reason in line


@pytest.mark.parametrize("node", ["broker", "name-server"])
def test_tls_for_replication_with_one_file_is_refused(
    node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tls.properties").write_text("tls.ha.certPath=/a.pem\n")
    with pytest.raises(SystemExit) as caught:
        run([node, "--tls-config", str(tmp_path / "tls.properties")])
    assert caught.value.code == 254
    error = capsys.readouterr().err
    assert "TLS for replication lacks tls.ha.keyPath and tls.ha.trustCertPath; it needs" in error


def test_hours_of_retention_are_local_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[BrokerConfig] = []
    monkeypatch.setattr(
        "staticfire.system_under_test.broker.append_pipeline.store_config.make_store_config",
        found.append,
    )
    monkeypatch.setenv("TZ", "XYZ-05:30")
    time.tzset()
    try:
        broker_main({"file": write_options(tmp_path, "")})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found[0].utc_offset_s == 5 * 3600 + 1800


@pytest.mark.parametrize("node", ["name-server", "broker"])
def test_faithful_is_short_for_the_mode(node: str) -> None:
    short = make_parser().parse_args([node, "--faithful"])
    assert short == make_parser().parse_args([node, "--mode", "faithful"])
    assert short != make_parser().parse_args([node])


def test_a_broker_loads_what_sql92_needs_once_it_is_ready(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first expression of a client held up all others for 60 ms."""
    threads: list[int] = []

    async def ready_at_once(_env: Env, _config: BrokerConfig, *, on_ready: Any) -> None:
        on_ready("127.0.0.1:1")

    monkeypatch.setattr(broker, "main", ready_at_once)
    monkeypatch.setattr(sql92, "load_parser", lambda: threads.append(threading.get_ident()))
    frozen: list[bool] = []  # each time, whether the parser was there
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(bool(threads)))
    main = broker_main({"broker_name": "b", "store_path": str(tmp_path)})
    asyncio.run(main(make_env("b")))
    assert capsys.readouterr().out == "ready 127.0.0.1:1\n"
    assert len(threads) == 1
    assert threads != [threading.get_ident()]
    assert frozen == [True]


@pytest.mark.parametrize("node", ["broker", "name-server"])
def test_collections_leave_out_what_a_node_has_loaded_by_its_start(
    node: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A scan of the modules kept the loop for 20 ms."""
    order: list[str] = []

    async def until_signalled(_env: Env, main: Coroutine[Any, Any, None]) -> None:
        main.close()
        order.append("started")

    monkeypatch.setattr(gc, "freeze", lambda: order.append("frozen"))
    monkeypatch.setattr(
        "staticfire.system_under_test.__main__.run_until_signalled", until_signalled
    )
    assert run([node, "-c", write_options(tmp_path, "")]) == 0
    assert order == ["frozen", "started"]


def test_the_parser_is_there_once_it_is_loaded() -> None:
    sql92.load_parser()
    found = sql92._parser.cache_info().misses
    sql92.compile_filter("a = 1")
    assert sql92._parser.cache_info().misses == found
