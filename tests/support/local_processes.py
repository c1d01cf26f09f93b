"""Real nodes for end-to-end tests: `python -m staticfire.system_under_test` on loopback, with real files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

from staticfire.harness.local_cluster.ports import free_ports
from tests.support.node_gauges import NodeGauges

ROOT = Path(__file__).parent.parent.parent
MEASURED_NODE = Path(__file__).parent / "measured_node.py"
MODULE = "staticfire.system_under_test"
STOP_TIMEOUT_S = 60.0


class LocalNode:
    """One node as a process. Its log is in `<folder>/<name>.log`.

    `measured`: it answers on a Unix socket, for `gauges`. `source`: a checkout whose nodes run, in place of this one.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        arguments: list[str],
        *,
        measured: bool = False,
        source: Path = ROOT,
    ) -> None:
        self.name = name
        self._log_path = folder / f"{name}.log"
        self._socket_path = folder / f"{name}.socket"
        self._source = source
        # Before there was a package of that name, the folder was one.
        module = MODULE if (source / "staticfire").exists() else "system_under_test"
        measuring = ["-P", str(MEASURED_NODE), str(self._socket_path), module]
        self._program = measuring if measured else ["-m", module]
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process and wait until it says that it is ready. Raises RuntimeError if it ends instead."""
        command = [sys.executable, *self._program, *self._arguments]
        environment = {**os.environ, "PYTHONPATH": str(self._source)}
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            raise RuntimeError(f"{self.name} did not start: {self.log_tail()}")

    def log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-2000:]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def gauges(self) -> NodeGauges:
        return NodeGauges(self.pid, self._socket_path)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        status = process.wait(STOP_TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()
        return status


class LocalPair:
    """A name server and a master with sync flush, and if asked its slave."""

    def __init__(
        self,
        folder: Path,
        *,
        with_slave: bool = False,
        flush: str = "sync",
        broker_file: Path | None = None,
        name_server_port: int | None = None,
        seen_as: Callable[[str], str] | None = None,
        measured: bool = False,
        source: Path = ROOT,
    ) -> None:
        """`broker_file`: properties of the brokers. `seen_as`: the address of the name server, by node.

        `measured`, `source`: as of LocalNode.
        """
        self._node = partial(LocalNode, measured=measured, source=source)
        self._file = [] if broker_file is None else ["-c", str(broker_file)]
        free_port, master_port, slave_port = free_ports(3)
        name_server_port = name_server_port or free_port
        self.name_server_address = f"127.0.0.1:{name_server_port}"
        self._seen_as = seen_as or (lambda _: self.name_server_address)
        self.name_server = self._node(
            "name-server",
            folder,
            ["name-server", "--port", str(name_server_port), "--store", str(folder / "namesrv")],
        )
        self.master_address = f"127.0.0.1:{master_port}"
        role = "sync-master" if with_slave else "async-master"
        peers = ["--ha-peers", f"127.0.0.1:{slave_port + 1}"] if with_slave else []
        self.master = self._broker(folder, "master", master_port, flush, ["--role", role, *peers])
        slave = ["--role", "slave", "--broker-id", "1"]
        slave += ["--ha-peers", f"127.0.0.1:{master_port + 1}"]
        self.slave = self._broker(folder, "slave", slave_port, flush, slave) if with_slave else None

    def _broker(
        self, folder: Path, name: str, port: int, flush: str, arguments: list[str]
    ) -> LocalNode:
        common = ["broker", "--broker-name", "broker-a", "--port", str(port), "--flush", flush]
        common += ["--name-server", self._seen_as(name), "--store", str(folder / name)]
        return self._node(name, folder, [*common, *arguments, *self._file])

    @property
    def nodes(self) -> list[LocalNode]:
        return [node for node in (self.name_server, self.slave, self.master) if node is not None]

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                node.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
