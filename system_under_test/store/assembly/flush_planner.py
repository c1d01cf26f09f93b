"""Plans flushes and records their results (RocketMQ, FlushRealTimeService, FlushConsumeQueueService).

At most one flush of the log and one of the queues may be in flight. A flush proves nothing if the log is cut meanwhile:
each cut begins a new epoch, and results of tasks of an older epoch do not count.
"""

from __future__ import annotations

from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.appending.dispatcher import Dispatcher
from staticfire.system_under_test.store.assembly.store_parts import StoreParts
from staticfire.system_under_test.store.checkpoint import Checkpoint
from staticfire.system_under_test.store.errors import NoSpace
from staticfire.system_under_test.store.flush import FlushTask, QueueFlushTask, SyncPlan
from staticfire.system_under_test.store.health import StoreHealth
from staticfire.system_under_test.store.index.message_index import MessageIndex
from staticfire.system_under_test.store.log.commit_log import CommitLog
from staticfire.system_under_test.store.queues.queue_table import QueueTable


class Flushing:
    """Flushes one store's log, queues and index."""

    __slots__ = (
        "_checkpoint",
        "_commit_log",
        "_dispatcher",
        "_epoch",
        "_health",
        "_index",
        "_queues",
        "_storage",
        "_sync",
        "_synced_index",
    )

    def __init__(self, parts: StoreParts) -> None:
        self._storage: Storage = parts.storage
        self._health: StoreHealth = parts.health
        self._commit_log: CommitLog = parts.commit_log
        self._index: MessageIndex = parts.index
        self._dispatcher: Dispatcher = parts.dispatcher
        self._checkpoint: Checkpoint = parts.checkpoint
        self._queues: QueueTable = parts.queues
        self._sync = parts.policy.sync
        self._synced_index = parts.policy.synced_index
        self._epoch = 0

    def begin_epoch(self) -> None:
        """The log is about to be cut: results of flushes in flight will not count."""
        self._epoch += 1

    # --- the log ---------------------------------------------------------------------------------------------------

    def begin(self) -> FlushTask | None:
        """A task that makes everything durable that is readable so far; None if there is nothing to do.

        After a failure the task raises that failure when run, so that the caller handles it like that of a flush.
        """
        self._commit_log.files.close_retired()
        return self._plan()

    def _plan(self) -> FlushTask | None:
        """Like `begin`, but a task may be in flight: does not close the removed files that it may hold."""
        log, health = self._commit_log, self._health
        health.attempt(log.write_out)
        if health.failure is None and log.flushed_offset == log.written_offset:
            return None
        plan = self._log_plan() if health.failure is None else SyncPlan(self._storage)
        return FlushTask(
            plan,
            end_offset=log.written_offset,
            epoch=self._epoch,
            failure=health.failure,
            sync=self._sync,
        )

    def _log_plan(self) -> SyncPlan:
        log = self._commit_log
        plan = SyncPlan(self._storage)
        plan.add(log.files.touched(log.flushed_offset, log.written_offset), log.files.entry_folders)
        return plan

    def finish(self, task: FlushTask) -> int:
        """Count what `task` has made durable; return `flushed_offset`. Call after `run` has returned."""
        log = self._commit_log
        if task.epoch == self._epoch and self._health.failure is None:
            task.finish()
            log.flushed_offset = max(log.flushed_offset, task.end_offset)
        return log.flushed_offset

    def flush(self) -> None:
        """Flush the log in this thread, for a store that is being closed. Raises OSError."""
        task = self._plan()
        if task is not None:
            task.run()
            self.finish(task)

    def sync_after_cut(self) -> None:
        """Flush in this thread. A flush in flight goes on beside it; its files stay open, its result does not count.

        Raises OSError.
        """
        plan = self._log_plan()
        plan.run()
        plan.finish()
        self._commit_log.flushed_offset = self._commit_log.end_offset

    # --- queues and index ------------------------------------------------------------------------------------------

    def begin_queues(self) -> QueueFlushTask | None:
        """A task that makes the queue and index entries durable that `dispatch` has made; None if there are none.

        After a failed write, and while the disk is full, there is none either.
        """
        try:
            return self._plan_queues()
        except NoSpace:
            pass
        except OSError as error:
            self._health.failed(error)
        return None

    def _plan_queues(self, *, closing: bool = False) -> QueueFlushTask | None:
        if self._health.failure is not None:
            return None
        self._queues.close_retired()
        index_files = self._index.write_out(closing=closing)
        queues = self._dispatcher.begin_flush()
        if not queues and not index_files:
            return None
        plan = SyncPlan(self._storage)
        plan.add(self._synced_index(index_files), (self._index.folder,))
        for queue in queues:
            extension = queue.extension
            if extension is not None:
                plan.add(extension.take_dirty_files(), extension.files.entry_folders)
            plan.add(queue.take_dirty_files(), queue.files.entry_folders)
        # Read before the fsync begins. The log is durable at least as far as its records are dispatched.
        dispatched_ms = self._dispatcher.last_timestamp_ms
        return QueueFlushTask(
            plan,
            self._checkpoint,
            physic_ms=dispatched_ms,
            logics_ms=dispatched_ms,
            index_ms=max(self._checkpoint.index_ms, self._index.full_until_ms),
            dispatched_offset=self._dispatcher.dispatched_offset,
            epoch=self._epoch,
            sync=self._sync,
        )

    def finish_queues(self, task: QueueFlushTask) -> None:
        """Let the checkpoint record what `task` has made durable. Call after `run` has returned."""
        if task.epoch != self._epoch or self._health.failure is not None:
            return
        try:
            task.finish()
        except OSError as error:
            self._health.failed(error)
            return
        self._dispatcher.durable_offset = task.dispatched_offset

    def flush_queues(self, *, closing: bool) -> None:
        """Flush queues and index in this thread, for a store that opens or is being closed. Raises NoSpace, OSError."""
        task = self._plan_queues(closing=closing)
        if task is not None:
            task.run()
            self.finish_queues(task)
