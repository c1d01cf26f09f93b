"""Spark beyond one process: a standalone master with two workers, one killed midway; Spark Connect; spark-submit.

Slow to start, so `make test` leaves it out; `.ci/run` asks for it: `pytest -m spark_cluster`. SPARK_CLUSTER_OPS is the
size of the history, a million by default.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import threading
import venv
from pathlib import Path

import orjson
import pytest

from tests.support.synthetic import disagreements, small, truth_of

pytestmark = [pytest.mark.spark_cluster, pytest.mark.needs_spark, pytest.mark.real]
ROOT = Path(__file__).parents[2]
TIMEOUT_S = 280.0


def analyze(folder: Path, out: Path, *options: str) -> bytes:
    """Run the command in a process of its own, as a session is for the life of a JVM; return verdict.json."""
    done = subprocess.run(
        [sys.executable, "-m", "staticfire", "analyze", str(folder), "--out", str(out), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr  # invalid, as planted
    assert "Traceback" not in done.stderr
    return (out / "verdict.json").read_bytes()


def test_spark_connect(tmp_path: Path) -> None:
    """The server is another process: it gets our code as an artifact."""
    from tests.support.spark_cluster import connect_server

    small(tmp_path / "history")
    here = analyze(tmp_path / "history", tmp_path / "here")
    with connect_server(tmp_path / "server") as address:
        assert analyze(tmp_path / "history", tmp_path / "there", "--master", address) == here


def test_submitted_and_with_a_packed_environment(tmp_path: Path) -> None:
    """spark-submit runs the command; executors have no Python of their own but the one that is sent along."""
    import pyspark

    from tests.support.spark_cluster import environment_of, spark_cluster

    small(tmp_path / "history")
    here = analyze(tmp_path / "history", tmp_path / "here")
    packed = pack(tmp_path)
    with spark_cluster(tmp_path / "cluster") as cluster:
        options = ("--master", cluster.master, "--memory", "512", "--packed", str(packed))
        assert analyze(tmp_path / "history", tmp_path / "packed", *options) == here
        script = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        master = ("--master", cluster.master, "--executor-memory", "512m")
        command = ("analyze", str(tmp_path / "history"), "--engine", "spark")
        done = subprocess.run(
            [
                script,
                *master,
                ROOT / "staticfire" / "__main__.py",
                *command,
                "--out",
                tmp_path / "sent",
            ],
            env={**environment_of(tmp_path), "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 1, done.stdout + done.stderr
        assert (tmp_path / "sent" / "verdict.json").read_bytes() == here


def pack(folder: Path) -> Path:
    """An archive like that of venv-pack: a Python that finds its packages beside itself (here: in this environment)."""
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    [site] = environment.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as target:
        target.add(environment, arcname=".")
    return archive


def test_two_workers_one_executor_killed_midway(tmp_path: Path) -> None:
    from tests.support.spark_cluster import spark_cluster

    ops = int(os.environ.get("SPARK_CLUSTER_OPS", "1000000"))
    history = tmp_path / "history"
    [run] = small(history, ops=ops, queues=24, rows_a_chunk=400_000, plant=2)
    here = analyze(history, tmp_path / "here")
    with spark_cluster(tmp_path / "cluster") as cluster:
        killed: list[int] = []
        killer = threading.Thread(target=lambda: killed.append(cluster.kill_an_executor()))
        killer.start()
        there = analyze(history, tmp_path / "there", "--master", cluster.master, "--memory", "512")
        killer.join()
        assert killed
        assert there == here
        cluster.kill_a_worker()
        assert (
            analyze(history, tmp_path / "one", "--master", cluster.master, "--memory", "512")
            == here
        )
    from staticfire.checkers.verdicts.compose import ALL_CHECKERS, RunVerdict

    planted = {finding["anomaly"] for finding in truth_of(history)["findings"]}
    assert planted == {anomaly for checker in ALL_CHECKERS for anomaly in checker.anomalies}
    verdict = RunVerdict.from_json(orjson.loads(here)["runs"][0]["verdict"])
    assert disagreements(history, verdict) == []
    assert truth_of(history)["counts"]["message_events"] == run.manifest.rows


@pytest.mark.needs_root("unshare", "mount")
@pytest.mark.parametrize("engine", [(), ("--master", "local[2]")], ids=["in process", "spark"])
def test_a_disk_that_is_full_during_the_layout(tmp_path: Path, engine: tuple[str, ...]) -> None:
    """One sentence, and no verdict; what was laid out is no history."""
    small(tmp_path / "history", layout="raw")
    status, said = on_small_disk(tmp_path, "analyze", "DISK/history", "--out", "OUT", *engine)
    assert status == 255, said
    assert "No space left on device" in said
    assert str(tmp_path / "disk") in said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


@pytest.mark.needs_root("unshare", "mount")
def test_a_disk_for_spilled_data_that_is_full(tmp_path: Path) -> None:
    """The right verdict, if nothing had to be spilled, or a sentence."""
    small(tmp_path / "history")
    right = analyze(tmp_path / "history", tmp_path / "here")
    spill = ("--master", "local[2]", "--spill", "DISK/history/spill")
    where = str(tmp_path / "history")
    status, said = on_small_disk(tmp_path, "analyze", where, "--out", "OUT", *spill)
    if status == 1:
        assert (tmp_path / "out" / "verdict.json").read_bytes() == right
    else:
        assert status == 255, said
        assert "is full" in said
    assert "Traceback" not in said


def on_small_disk(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the command where DISK holds a copy of the history and 64 KB more; return status and what it said."""
    size = sum(path.stat().st_size for path in (folder / "history").rglob("*") if path.is_file())
    files = sum(1 for _ in (folder / "history").rglob("*"))
    disk = folder / "disk"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size={size + 4096 * files + 65536} none {disk} && "
        f"cp -r {folder / 'history'} {disk} && "
        f'(head -c 100000000 /dev/zero > {disk}/filled; true) && exec "$@"'
    )
    if "--spill" not in arguments:
        script = script.replace("head -c 100000000", "head -c 1")
    words = [
        word.replace("DISK", str(disk)).replace("OUT", str(folder / "out")) for word in arguments
    ]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-m", "staticfire", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stderr
