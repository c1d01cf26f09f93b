"""The interface of a node to the world besides asyncio: storage, clocks, randomness and a log.

The real implementation is `real_env`; the simulator has its own. Storage is synchronous and
POSIX-like: code that must not block calls it through `loop.run_in_executor(None, file.fdatasync)`, or often through a
`Worker`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Protocol

from staticfire.system_under_test.runtime.worker import ExecutorWorker


class File(Protocol):
    """One open file. Every method may raise OSError (ENOSPC, EIO, EBADF after close)."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer only at the end of the file."""
        ...

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`. On OSError a prefix may have been written."""
        ...

    def allocate(self, size: int) -> None:
        """Make the file at least `size` bytes long with every block reserved (posix_fallocate)."""
        ...

    def truncate(self, size: int) -> None: ...

    def fsync(self) -> None: ...

    def fdatasync(self) -> None: ...

    def size(self) -> int: ...

    def content_ranges(self, offset: int) -> list[tuple[int, int]]:
        """Where, from `offset` on, bytes other than zero may be: (start, end) in order (SEEK_DATA, SEEK_HOLE)."""
        ...

    def forget_cache(self) -> None:
        """Drop clean pages from the page cache: the next read comes from the disk (POSIX_FADV_DONTNEED).

        After a failed fsync Linux keeps pages that the disk does not have, and serves them to later processes, too.
        """
        ...

    def try_lock(self) -> bool:
        """Take the exclusive lock that ends with close() or with the process; False if held elsewhere."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """Bytes of the file system that holds a path."""

    total_bytes: int
    free_bytes: int  # available to this node
    reserved_bytes: int = 0  # free, but reserved for other users (ext4 keeps 5 % for root)


class Storage(Protocol):
    """The file system of a node. Paths are absolute, with `/`. Errors are OSError with the POSIX errno."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes a missing file (durable only after fsync_dir)."""
        ...

    def exists(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """Names in the folder, in no particular order: sort before use."""
        ...

    def makedirs(self, path: str) -> None:
        """Create the folder and its parents; nothing happens if it exists."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Replace `target` atomically (durable only after fsync_dir of the folder)."""
        ...

    def unlink(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...

    def fsync_dir(self, path: str) -> None:
        """Make the entries of this folder durable."""
        ...

    def take_errors(self, folder: str) -> None:
        """Consume the write-back errors below `folder` that no process has seen yet; raises nothing.

        Linux keeps such an error with the file and reports it to the first fsync, even one of a later process.
        """
        ...

    def disk_usage(self, path: str) -> DiskUsage: ...

    def modified_ms(self, path: str) -> int: ...


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since 1970 by this node's clock, which may be skewed and may step."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since some start; never steps."""
        ...


class Log(Protocol):
    """Structured log: `log.info("broker registered", name_server=address)`. Values are plain data."""

    def debug(self, event: str, /, **fields: object) -> None: ...
    def info(self, event: str, /, **fields: object) -> None: ...
    def warning(self, event: str, /, **fields: object) -> None: ...
    def error(self, event: str, /, **fields: object) -> None: ...


class TlsMode(StrEnum):
    """Whether a server accepts plain connections, TLS connections or both (tls.server.mode)."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class TlsError(Exception):
    """TLS cannot be used; the text is one sentence for the person who configured it."""


class Tls(Protocol):
    """Keys and certificates of a node."""

    @property
    def mode(self) -> TlsMode: ...

    @property
    def is_prepared(self) -> bool:
        """Whether `server_context` returns quickly enough to be called in the event loop."""
        ...

    def prepare(self) -> None:
        """Do the slow part of `server_context` in advance. May run in any thread, and raises nothing."""
        ...

    def server_context(self) -> ssl.SSLContext:
        """The context for the next accepted connection; rereads files that have changed. Raises TlsError."""
        ...

    def client_context(self) -> ssl.SSLContext | None:
        """The context for the next connection to another node; None: use no TLS. Raises TlsError."""
        ...

    def replica_server_context(self) -> ssl.SSLContext | None:
        """The context for the next connection accepted on the replication port; None: use no TLS. Raises TlsError."""
        ...

    def replica_client_context(self) -> ssl.SSLContext | None:
        """The context for the next connection to a master's replication port; None: use no TLS. Raises TlsError."""
        ...


class Worker(Protocol):
    """A thread for one kind of blocking job. A job must not touch objects that the event loop uses meanwhile."""

    def run(
        self,
        job: Callable[[], None],
        done: Callable[[BaseException | None], None],
        *,
        only_synced: File | None = None,
    ) -> None:
        """Call `job` in the thread, then `done` in the event loop with its exception or None.

        The `done` of the job before must have been called.

        Args:
            only_synced: the file, if the job does nothing but call its `fdatasync`. The kernel may do that instead.
        """
        ...

    def close(self) -> None:
        """End the thread once its queued jobs have run. `run` must not be called afterwards."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """A node's only access to the outside world besides asyncio."""

    name: str
    storage: Storage
    clock: Clock
    random: Random
    log: Log
    tls: Tls | None = None  # None: this node speaks no TLS
    make_worker: Callable[[], Worker] = ExecutorWorker
    # Whether all connections of a node share the time of one loop turn. A simulated turn ends with its first blocking
    # call, so there is nothing to share.
    shares_turns: bool = True
    connections_max: int = 1 << 20  # of each port, so that descriptors are left for files
