"""A standalone Spark master and workers on loopback, each a JVM of its own; ended by their process groups."""

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
from dataclasses import dataclass
from pathlib import Path

import pyspark

from staticfire.spark_analysis.engine.java import java_home

CLASS = "org.apache.spark.deploy"
UP_WITHIN_S = 90.0
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """Its master, and its workers, which may be killed."""

    master: str
    workers: list[subprocess.Popen[bytes]]

    def kill_an_executor(self) -> int:
        """Kill -9 one executor while its Python workers are at work, with them; return its process id."""
        deadline = time.monotonic() + UP_WITHIN_S
        while time.monotonic() < deadline:
            for worker in self.workers:
                for child in children_of(worker.pid):
                    below = descendants_of(child)
                    at_work = any("pyspark.daemon" in command_of(process) for process in below)
                    if at_work and "CoarseGrainedExecutorBackend" in command_of(child):
                        for process in (child, *below):
                            with_suppressed_kill(process)
                        return child
            time.sleep(0.05)
        raise TimeoutError("no executor came up and went to work")

    def kill_a_worker(self) -> None:
        """Kill -9 a worker, its executors and their Python workers."""
        worker = self.workers.pop()
        for process in (*descendants_of(worker.pid), worker.pid):
            os.kill(process, signal.SIGKILL)
        worker.wait()


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server with two cores; yields its address."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    script = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer")
    options = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
    }
    reported = [word for name, value in options.items() for word in ("--conf", f"{name}={value}")]
    log = folder / "connect.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [
                str(script),
                *server,
                "--master",
                "local[2]",
                *reported,
                "spark-internal",
            ],
            stdout=file,
            stderr=file,
            env={**environment_of(folder), "SPARK_DAEMON_MEMORY": "768m"},
            cwd=folder,
        )
    try:
        _wait_for(log, r"Spark Connect server started")
        yield f"sc://127.0.0.1:{port}"
    finally:
        for child in descendants_of(process.pid):
            with_suppressed_kill(child)
        process.kill()
        process.wait()


def environment_of(folder: Path) -> dict[str, str]:
    """For a JVM of Spark; a wrapper for Java may be made in `folder`."""
    return {
        **os.environ,
        "JAVA_HOME": str(java_home(folder)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JVM_OPTIONS,
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def spark_cluster(
    folder: Path, *, workers: int = 2, memory_mb: int = 1024
) -> Iterator[SparkCluster]:
    """Start a master and workers with one core each; everything is ended at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = environment_of(folder)
    port = free_port()
    started = []
    try:
        where = ("--host", "127.0.0.1", "--webui-port", "0")
        started.append(_start(folder, environment, "master.Master", *where, "--port", str(port)))
        master = f"spark://127.0.0.1:{port}"
        _wait_for(folder / "master.Master-0.log", r"I have been elected leader")
        for number in range(workers):
            limits = ("--cores", "1", "--memory", f"{memory_mb}M")
            work = ("--work-dir", str(folder / f"work-{number}"))
            started.append(
                _start(
                    folder,
                    environment,
                    "worker.Worker",
                    *where,
                    *limits,
                    *work,
                    master,
                    number=number,
                )
            )
        for number in range(workers):
            _wait_for(
                folder / f"worker.Worker-{number}.log", r"Successfully registered with master"
            )
        yield SparkCluster(master, started[1:])
    finally:
        for process in reversed(started):
            for child in descendants_of(process.pid):
                with_suppressed_kill(child)
            process.kill()
            process.wait()


def _start(
    folder: Path, environment: dict[str, str], name: str, *arguments: str, number: int = 0
) -> subprocess.Popen[bytes]:
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with (folder / f"{name}-{number}.log").open("wb") as log:
        return subprocess.Popen(
            [str(script), f"{CLASS}.{name}", *arguments],
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
        )


def _wait_for(log: Path, sign: str) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < deadline:
        if re.search(sign, log.read_text(encoding="utf-8", errors="replace")):
            return
        time.sleep(0.1)
    raise TimeoutError(f"{log.name} never said {sign!r}: {log.read_text(errors='replace')[-2000:]}")


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port


def children_of(pid: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        texts = [(thread / "children").read_text() for thread in threads]
    except OSError:
        return []
    return [int(child) for text in texts for child in text.split()]


def descendants_of(pid: int) -> list[int]:
    children = children_of(pid)
    return [*children, *(below for child in children for below in descendants_of(child))]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def with_suppressed_kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
