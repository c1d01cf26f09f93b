"""Hunts on a standalone cluster: an executor and a worker killed midway, executors without packages, a silent master.

`make test` leaves it out, as test_spark_cluster.py; CI asks for both.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tarfile
import threading
import time
import venv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.harness.cli.hunt.row_files import read_rows
from staticfire.harness.cli.hunt.seeds import SeedResult

pytestmark = [pytest.mark.spark_cluster, pytest.mark.needs_spark, pytest.mark.real]
ROOT = Path(__file__).parents[2]
TIMEOUT_S = 280.0
HUNT = ("--seeds", "0-11", "--time", "10")


def hunt(*options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "staticfire", "hunt", *HUNT, *map(str, options)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def known(path: Path) -> list[SeedResult]:
    """The rows without the times that a run took."""
    return [replace(row, cpu_s=0.0, wall_s=0.0, summary=()) for row in read_rows(path)]


def test_nothing_is_missing_when_an_executor_and_a_worker_are_killed(tmp_path: Path) -> None:
    from tests.support.spark_cluster import spark_cluster

    here, there = tmp_path / "here.jsonl", tmp_path / "there.parquet"
    part = there.with_name("there.parquet.part")
    local = hunt("--jobs", 2, "--out", here)
    with spark_cluster(tmp_path / "cluster") as cluster:
        killed: list[int] = []

        def kill() -> None:
            _wait_for_rows(part, 2)
            killed.append(cluster.kill_an_executor())
            _wait_for_rows(part, 5)
            cluster.kill_a_worker()

        killer = threading.Thread(target=kill)
        killer.start()
        spark = hunt("--master", cluster.master, "--memory", 512, "--out", there)
        killer.join()
    assert spark.returncode == local.returncode, spark.stdout + spark.stderr
    assert killed
    assert "planned   12: 12 done, 0 failed, 0 not run" in spark.stdout
    assert known(there) == known(here)


def _wait_for_rows(part: Path, count: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if part.exists() and part.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.1)
    raise TimeoutError(f"{part} never had {count} rows")


def test_executors_without_our_packages_are_one_sentence(tmp_path: Path) -> None:
    from tests.support.spark_cluster import spark_cluster

    bare, packed = tmp_path / "bare", tmp_path / "bare.tar.gz"
    venv.create(bare, symlinks=True)
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(bare, arcname=".")
    with spark_cluster(tmp_path / "cluster", workers=1) as cluster:
        options = ("--master", cluster.master, "--memory", 512, "--packed", packed)
        said = hunt(*options, "--out", tmp_path / "rows.jsonl")
    assert said.returncode == 255, said.stdout
    assert (
        "no executor can do this work: the executors do not have the Python package" in said.stderr
    )
    assert said.stderr.count("\n") == 1


@pytest.fixture
def silent_master() -> Iterator[str]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"spark://127.0.0.1:{server.getsockname()[1]}"


def test_a_master_that_never_answers_is_given_up(silent_master: str) -> None:
    said = hunt("--master", silent_master)
    assert said.returncode == 255
    assert said.stderr.count("\n") == 1, said.stderr
    assert (
        "Spark does not start: it was stopped, as happens when the master does not answer"
        in said.stderr
    )
