"""The real Env; what it shares with the simulated disk is in tests/harness/simulation/test_disk_contract.py."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from staticfire.system_under_test.runtime.real_env import (
    JsonLinesLog,
    RealClock,
    RealStorage,
    make_env,
)


def test_log_writes_one_json_object_a_line() -> None:
    output = io.StringIO()
    log = JsonLinesLog("broker-a", RealClock(), output)
    log.debug("first", path="/store")
    log.info("second", sizes=[1, 2], body=b"raw")
    log.warning("third")
    log.error("fourth", text="two\nlines")
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [
        ("debug", "first"),
        ("info", "second"),
        ("warning", "third"),
        ("error", "fourth"),
    ]
    assert all(line["node"] == "broker-a" and line["time_ms"] > 0 for line in lines)
    assert lines[0]["path"] == "/store"
    assert lines[1]["body"] == "b'raw'"
    assert lines[3]["text"] == "two\nlines"


def test_a_log_that_cannot_be_written_is_given_up_not_its_node() -> None:
    with Path("/dev/full").open("w") as full:
        JsonLinesLog("broker-a", RealClock(), full).error("disk full")
        with suppress(OSError):
            full.close()


def test_make_env_logs_to_stderr_under_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    env = make_env("broker-b")
    env.log.info("started")
    assert json.loads(capsys.readouterr().err)["node"] == "broker-b"
    assert env.clock.wall_ms() > 1_600_000_000_000
    assert env.clock.monotonic_ns() <= env.clock.monotonic_ns()


def test_allocate_reserves_real_blocks(tmp_path: Path) -> None:
    path = tmp_path / "file"
    RealStorage().open(str(path), create=True).allocate(1 << 20)
    assert path.stat().st_blocks * 512 >= 1 << 20


def test_two_storages_share_one_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first = RealStorage().open(path, create=True)
    second = RealStorage().open(path)
    assert first.try_lock()
    assert not second.try_lock()
    first.close()
    assert second.try_lock()


def test_files_are_opened_although_connections_have_taken_every_descriptor(tmp_path: Path) -> None:
    storage = RealStorage()
    storage.open(str(tmp_path / "first"), create=True).close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    # Other tests may have left high numbers, and a number at or above the limit could not be opened again.
    limit = max(map(int, os.listdir("/dev/fd"))) + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.dup(0))
        files = [storage.open(str(tmp_path / str(number)), create=True) for number in range(5)]
        storage.fsync_dir(str(tmp_path))
        with pytest.raises(OSError, match="Too many open files"):
            files += [storage.open(str(tmp_path / "more"), create=True) for _ in range(100)]
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for file in files:
        file.close()


@pytest.mark.real
def test_a_lock_is_the_one_that_java_takes(tmp_path: Path) -> None:
    """Java's FileChannel.tryLock(0, 1, false) is a POSIX record lock on the first byte."""
    path = tmp_path / "lock"
    script = f"import fcntl; file = open({str(path)!r}, 'r+'); fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)"
    ours = RealStorage().open(str(path), create=True)
    assert ours.try_lock()
    assert subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False
    ).returncode
    ours.close()
    theirs = subprocess.Popen(
        [sys.executable, "-c", f"{script}; print('locked', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert theirs.stdout is not None
    assert theirs.stdout.readline() == b"locked\n"
    assert not RealStorage().open(str(path)).try_lock()
    theirs.communicate(b"\n")


def test_disk_usage_adds_up(tmp_path: Path) -> None:
    usage = RealStorage().disk_usage(str(tmp_path))
    stat = os.statvfs(tmp_path)
    assert usage.total_bytes == stat.f_blocks * stat.f_frsize
    assert usage.reserved_bytes == (stat.f_bfree - stat.f_bavail) * stat.f_frsize
    assert usage.free_bytes + usage.reserved_bytes <= usage.total_bytes


def test_an_error_that_the_kernel_kept_is_taken_from_each_file_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"
    (folder / "commitlog").mkdir(parents=True)
    outside = tmp_path / "outside"
    for path in (outside, folder / "checkpoint", folder / "commitlog" / "0"):
        path.touch()
    (folder / "link").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    waiting = {path.lstat().st_ino: path for path in (tmp_path, *tmp_path.rglob("*"))}

    def fsync(descriptor: int) -> None:
        if waiting.pop(os.fstat(descriptor).st_ino, None) is not None:
            raise OSError(errno.EIO, "of an earlier process")

    monkeypatch.setattr(os, "fsync", fsync)
    storage = RealStorage()
    storage.take_errors(str(folder))
    storage.take_errors(str(tmp_path / "missing"))
    file = storage.open(str(folder / "checkpoint"))
    file.fsync()
    file.close()
    assert {path.name for path in waiting.values()} == {tmp_path.name, "outside", "link"}
