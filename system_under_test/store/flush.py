"""Tasks that make writes durable. The store's thread begins and finishes a task; `run` may be called in another.

A task holds the open files and numbers that it needs, so that `run` shares nothing with the store. Its end offset was
read before it ran, so later appends do not count (RocketMQ, GroupCommitService and FlushConsumeQueueService).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from staticfire.system_under_test.runtime.env import File, Storage
from staticfire.system_under_test.store.checkpoint import Checkpoint

Sync = Callable[[Callable[[], None]], None]  # calls its argument, which may raise OSError


def at_once(run: Callable[[], None]) -> None:
    """Call `run`; its errors reach the caller that waits for the flush."""
    run()


class SyncedFile(Protocol):
    """A file of the store, open as `file`. `is_new`: its size or its name may not be durable."""

    is_new: bool

    @property
    def file(self) -> File: ...


class SyncPlan:
    """Files and folders to sync, in that order: a name must not become durable before what it names."""

    __slots__ = ("_files", "_folders", "_new_files", "_storage")

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._files: list[
            File
        ] = []  # open files: run() must not touch objects that the store uses meanwhile
        self._new_files: list[tuple[SyncedFile, File]] = []
        self._folders: dict[str, None] = {}

    def add(self, files: Iterable[SyncedFile], entry_folders: Sequence[str]) -> None:
        """Sync `files`; if one of them is new, sync `entry_folders` (deepest first), too."""
        for mapped_file in files:
            if mapped_file.is_new:
                self._new_files.append((mapped_file, mapped_file.file))
                self._folders.update(dict.fromkeys(entry_folders))
            else:
                self._files.append(mapped_file.file)

    @property
    def only_file(self) -> File | None:
        """The file, if `run` does nothing but call its `fdatasync`."""
        return self._files[0] if len(self._files) == 1 and not self._new_files else None

    def run(self) -> None:
        for file in self._files:
            file.fdatasync()
        for _, file in self._new_files:
            file.fsync()
        for folder in self._folders:
            self._storage.fsync_dir(folder)

    def finish(self) -> None:
        """Mark the synced files as no longer new."""
        for mapped_file, _ in self._new_files:
            mapped_file.is_new = False


class FlushTask:
    """Flushes the commit log up to `end_offset`."""

    __slots__ = ("_failure", "_plan", "_sync", "end_offset", "epoch")

    def __init__(
        self,
        plan: SyncPlan,
        *,
        end_offset: int,
        epoch: int,
        failure: OSError | None = None,
        sync: Sync = at_once,
    ) -> None:
        self._plan = plan
        self._sync = sync
        self._failure = failure
        self.end_offset = end_offset
        self.epoch = epoch  # of the store: after a truncate() in between the result does not count

    @property
    def only_synced(self) -> File | None:
        """The file, if `run` does nothing but call its `fdatasync`."""
        return self._plan.only_file if self._failure is None and self._sync is at_once else None

    def run(self) -> None:
        """Does only file operations. Raises OSError, also for an earlier failed write: its bytes are not durable."""
        if self._failure is not None:
            raise self._failure
        self._sync(self._plan.run)

    def finish(self) -> None:
        self._plan.finish()


class QueueFlushTask:
    """Flushes consume queues and the index.

    It carries the checkpoint times of the moment when it was made; they count once it has run.
    """

    __slots__ = (
        "_checkpoint",
        "_plan",
        "_sync",
        "dispatched_offset",
        "epoch",
        "index_ms",
        "logics_ms",
        "physic_ms",
    )

    def __init__(
        self,
        plan: SyncPlan,
        checkpoint: Checkpoint,
        *,
        physic_ms: int,
        logics_ms: int,
        index_ms: int,
        dispatched_offset: int,
        epoch: int,
        sync: Sync = at_once,
    ) -> None:
        self._plan = plan
        self._sync = sync
        self._checkpoint = checkpoint
        self.physic_ms = physic_ms
        self.logics_ms = logics_ms
        self.index_ms = index_ms
        # the task flushes all entries of records before this offset
        self.dispatched_offset = dispatched_offset
        self.epoch = epoch  # of the store: after a truncate() in between the result does not count

    @property
    def only_synced(self) -> None:
        """`run` writes the checkpoint, too."""

    def run(self) -> None:
        """Does only file operations; also makes the checkpoint of the previous task durable. Raises OSError."""
        self._sync(self._run)

    def _run(self) -> None:
        self._plan.run()
        self._checkpoint.sync()

    def finish(self) -> None:
        """Write the times of this task to the checkpoint: only now are the queues durable up to them."""
        self._plan.finish()
        self._checkpoint.write(
            physic_ms=self.physic_ms, logics_ms=self.logics_ms, index_ms=self.index_ms
        )
