"""The real world behind `Env`: files of this machine, its clocks, and a log of JSON lines on stderr."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import resource
import sys
import time
from pathlib import Path
from typing import TextIO

from staticfire.system_under_test.runtime.env import DiskUsage, Env, Tls
from staticfire.system_under_test.runtime.real_file import RealFile
from staticfire.system_under_test.runtime.real_worker import RealWorker

_FILE_MODE = 0o644
_SPARE_DESCRIPTORS = 16


class _Descriptors:
    """Opens files even when accepted connections have taken every other descriptor.

    It reserves some descriptors when it opens its first file, so that a client without files reserves none.
    """

    def __init__(self) -> None:
        self._spare: list[int] = []

    def open(self, path: str, flags: int) -> int:
        while True:
            try:
                descriptor = os.open(path, flags | os.O_CLOEXEC, _FILE_MODE)
            except OSError as error:
                if error.errno != errno.EMFILE or not self._spare:
                    raise
                os.close(self._spare.pop())
            else:
                if len(self._spare) < _SPARE_DESCRIPTORS:
                    self._keep()
                return descriptor

    def _keep(self) -> None:
        with contextlib.suppress(OSError):
            while len(self._spare) < _SPARE_DESCRIPTORS:
                self._spare.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))

    def __del__(self) -> None:
        for descriptor in self._spare:
            os.close(descriptor)


class RealStorage:
    """The file system of this machine."""

    def __init__(self) -> None:
        self._descriptors = _Descriptors()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        return RealFile(self._descriptors.open(path, os.O_RDWR | (os.O_CREAT if create else 0)))

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def makedirs(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        Path(source).replace(target)

    def unlink(self, path: str) -> None:
        Path(path).unlink()

    def rmdir(self, path: str) -> None:
        Path(path).rmdir()

    def fsync_dir(self, path: str) -> None:
        descriptor = self._descriptors.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def take_errors(self, folder: str) -> None:
        # Errors of the walk are left out: a folder that cannot be read fails when it is used.
        for parent, _, names in os.walk(folder):
            for path in (parent, *(f"{parent}/{name}" for name in names)):
                with contextlib.suppress(OSError):
                    self._take_error(path)

    def _take_error(self, path: str) -> None:
        # A name may be a pipe, whose opening waits, or a link to a file that is not ours.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = self._descriptors.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def disk_usage(self, path: str) -> DiskUsage:
        usage = os.statvfs(path)
        return DiskUsage(
            total_bytes=usage.f_blocks * usage.f_frsize,
            free_bytes=usage.f_bavail * usage.f_frsize,
            reserved_bytes=(usage.f_bfree - usage.f_bavail) * usage.f_frsize,
        )

    def modified_ms(self, path: str) -> int:
        return Path(path).stat().st_mtime_ns // 1_000_000


class RealClock:
    """The clocks of this machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class JsonLinesLog:
    """One JSON object a line: `time_ms`, `level`, `node`, `event`, then the fields of the call."""

    def __init__(self, node: str, clock: RealClock, output: TextIO) -> None:
        self._node = node
        self._clock = clock
        self._output = output

    def debug(self, event: str, /, **fields: object) -> None:
        self._write("debug", event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        line = {
            "time_ms": self._clock.wall_ms(),
            "level": level,
            "node": self._node,
            "event": event,
            **fields,
        }
        # A full disk below the log, or a pipe that has no reader, must not stop the node that logs.
        with contextlib.suppress(OSError):
            # One write a line: lines of several processes on one pipe must not mix.
            self._output.write(json.dumps(line, default=str) + "\n")
            self._output.flush()


def use_all_descriptors() -> None:
    """Raise this process's soft limit of open files to its hard limit: a store keeps many files open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _connections_max() -> int:
    """The limit of each of a broker's three ports, so that a quarter of the descriptors is left for its files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(1, soft // 4)


def make_env(name: str, tls: Tls | None = None) -> Env:
    """The Env of a real node: `name` is the node's name in its log."""
    clock = RealClock()
    log = JsonLinesLog(name, clock, sys.stderr)
    return Env(
        name=name,
        storage=RealStorage(),
        clock=clock,
        random=random.Random(),
        log=log,
        tls=tls,
        make_worker=lambda: RealWorker(f"{name} flush", log),
        connections_max=_connections_max(),
    )
