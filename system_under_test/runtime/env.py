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
        """Let what is not waiting to be written be read from the disk again (POSIX_FADV_DONTNEED).

        After a failed fsync Linux shows pages that the disk does not have, also to the next process.
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
    free_bytes: int  # that this node may use
    reserved_bytes: int = 0  # free as well, but for others (of ext4 5 % for root)


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
        """Hear of each write-back below `folder` that has failed and of which no process has heard; raises nothing.

        Linux keeps such an error with the file, and the first fsync of a later process reports it.
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
    """What a server does with peers that begin a TLS handshake, and with those that do not (tls.server.mode)."""

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
        """Whether `server_context` takes no time that peers would notice."""
        ...

    def prepare(self) -> None:
        """See to it that it takes none from now on. May run in any thread, and raises nothing."""
        ...

    def server_context(self) -> ssl.SSLContext:
        """For one more connection that was accepted: files that changed meanwhile are read again. Raises TlsError."""
        ...

    def client_context(self) -> ssl.SSLContext | None:
        """For one more connection to another node; None: it is plain. Raises TlsError."""
        ...

    def replica_server_context(self) -> ssl.SSLContext | None:
        """For one more connection to the replication port; None: it is plain. Raises TlsError."""
        ...

    def replica_client_context(self) -> ssl.SSLContext | None:
        """For one more connection to the replication port of another broker; None: it is plain. Raises TlsError."""
        ...


class Worker(Protocol):
    """A thread for one kind of job that blocks. Jobs touch nothing that the event loop goes on using."""

    def run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Call `job` in the thread, after those before it, then `done` in the event loop with what it raised."""
        ...

    def close(self) -> None:
        """End the thread after the jobs it has. There is no other job after this."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """Everything a node may touch of the world, besides asyncio."""

    name: str
    storage: Storage
    clock: Clock
    random: Random
    log: Log
    tls: Tls | None = None  # None: this node speaks no TLS
    make_worker: Callable[[], Worker] = ExecutorWorker
    # All connections share a turn of the loop. A simulated turn ends with its first blocking call: nothing is to share.
    shares_turns: bool = True
    connections_max: int = 1 << 20  # that a port may accept, so that descriptors are left for files
