"""A broker's store: one commit log, many consume queues, a checkpoint (RocketMQ, DefaultMessageStore).

Synchronous and without an event loop. Who appends, flushes and dispatches when is decided by the broker:

    put() -> begin_flush() -> task.run(), in any thread -> finish_flush() -> dispatch() -> get()

At most one flush of the log and one of the queues may be in flight. Queue entries are built only up to
`flushed_offset`: a consumer must not see, and move its offset past, a message that a power cut may still take.
After a failed write or fsync nobody knows what is on the platter. The store then refuses everything for good; the
broker must exit, and the next start finds out by recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from system_under_test.env import Clock, Log, Storage
from system_under_test.protocol.message import Message
from system_under_test.store.appending import Appender, MessageIllegal
from system_under_test.store.checkpoint import Checkpoint
from system_under_test.store.commit_log import CommitLog
from system_under_test.store.config import StoreConfig
from system_under_test.store.consume_queue import Entry
from system_under_test.store.disk_watch import DiskWatch
from system_under_test.store.dispatcher import Dispatcher
from system_under_test.store.errors import NoBuffer, NoSpace, RecordInvalid, StoreError, StoreLocked
from system_under_test.store.flush import FlushTask, QueueFlushTask, SyncPlan
from system_under_test.store.folders import make_durable_folder
from system_under_test.store.index_keys import KeyHasher
from system_under_test.store.index_layout import IndexLayout
from system_under_test.store.key_search import (
    KeyFound,
    KeyQuery,
    search,
)
from system_under_test.store.log_folders import LogFolders
from system_under_test.store.message_index import MessageIndex
from system_under_test.store.metadata_file import MetadataFile
from system_under_test.store.queue_table import QueueTable
from system_under_test.store.queue_view import QueueView
from system_under_test.store.raw_append import RawAppender
from system_under_test.store.reading import NO_QUEUE, GetResult, GetStatus, QueueReader
from system_under_test.store.record_reader import RecordReader
from system_under_test.store.record_scan import RecordScanner
from system_under_test.store.recovery import Recovery, RecoveryReport
from system_under_test.store.results import Dispatched, PutResult, PutStatus
from system_under_test.store.retention import Removal, Retention
from system_under_test.store.running_mark import RunningMark
from system_under_test.store.store_policy import CAREFUL_STORE, StorePolicy

__all__ = [
    "Dispatched",
    "FlushTask",
    "GetResult",
    "GetStatus",
    "MessageStore",
    "MetadataFile",
    "NoSpace",
    "PutResult",
    "PutStatus",
    "QueueFlushTask",
    "RecordInvalid",
    "RecoveryReport",
    "StoreConfig",
    "StoreError",
    "StoreLocked",
]


class MessageStore:
    """One store folder, opened by one process at a time. Not thread safe; only tasks may run elsewhere."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        log: Log,
        config: StoreConfig,
        *,
        policy: StorePolicy = CAREFUL_STORE,
    ) -> None:
        self._storage = storage
        self._log = log
        self._config = config
        root = config.root
        self._running = RunningMark(storage, root)
        self._queues_folder = f"{root}/consumequeue"
        self._log_folders = LogFolders(
            config.log_folders or (f"{root}/commitlog",),
            read_only=config.read_only_log_folders,
            is_full=lambda folder: self.disks.used_ratio(folder) > config.retention.force_ratio,
        )
        self._commit_log = CommitLog(
            storage,
            self._log_folders,
            config.commit_log_file_size,
            cut_files=policy.cut_log,
            pool=config.pool,
        )
        self._queues = QueueTable(storage, self._queues_folder, config.consume_queue_file_size)
        self._checkpoint = Checkpoint(storage, f"{root}/checkpoint")
        self._scanner = RecordScanner(config.commit_log_file_size, config.delay_levels_ms)
        self._records = RecordReader(self._commit_log, self._scanner)
        layout = IndexLayout(slots=config.index_slots, numbers=config.index_numbers)
        self._index = MessageIndex(storage, clock, f"{root}/index", layout)
        self._hasher = KeyHasher(is_on=config.index_enabled)
        self._policy = policy
        self._dispatcher = Dispatcher(self._index)
        self._appender = Appender(
            config,
            clock,
            self._commit_log,
            self._queues,
            self._dispatcher,
            self._index,
            self._hasher,
            keeps_room_for_entries=policy.keeps_room_for_entries,
        )
        self._reader = QueueReader(self._commit_log, config.memory_bytes)
        self.queue_view = QueueView(self._queues, self._reader)
        self._raw_appender = RawAppender(
            commit_log=self._commit_log,
            queues=self._queues,
            dispatcher=self._dispatcher,
            appender=self._appender,
            scanner=self._scanner,
            hasher=self._hasher,
        )
        self.disks = DiskWatch(
            storage,
            clock,
            log,
            log_folders=self._log_folders.writable,
            queue_folder=self._queues_folder,
            warning_ratio=config.retention.warning_ratio,
        )
        self.retention = Retention(
            storage,
            clock,
            log,
            config.retention,
            commit_log=self._commit_log,
            queues=self._queues,
            disks=self.disks,
            durable_offset=lambda: min(self.flushed_offset, self._dispatcher.durable_offset),
        )
        self.retention.on_min_offset.append(self._index.delete_before)
        self._epoch = 0  # counts truncations: a flush begun before one proves nothing after it
        self._failure: OSError | None = None
        self._no_space: NoSpace | None = None
        self._dispatch_is_dead = False

    # --- open and close --------------------------------------------------------------------------------------------

    def open(self) -> RecoveryReport:
        """Lock the folder, load and recover.

        Raises:
            StoreLocked: another process has the store open.
            StoreError: the files cannot be what this store has written, or a file operation failed.
        """
        try:
            report = self._open()
        except OSError as error:
            self._close_files()
            raise StoreError(f"store {self._config.root} cannot be opened: {error}") from error
        except StoreError:
            self._close_files()
            raise
        return report

    def _open(self) -> RecoveryReport:
        storage, root = self._storage, self._config.root
        make_durable_folder(storage, root)
        self._running.lock()
        clean = not self._running.is_set
        for folder in self._log_folders.writable:
            make_durable_folder(storage, folder)
        for folder in (self._queues_folder, self._index.folder):
            storage.makedirs(folder)
        self._commit_log.files.load(clean=clean)
        self._commit_log.files.sync_names()
        self._queues.load(clean=clean)
        if self._config.index_enabled:
            self._index.load()
        self._checkpoint.open()
        self._running.set()  # before anything changes: the next start must look closely
        recovery = Recovery(
            storage=storage,
            commit_log=self._commit_log,
            queues=self._queues,
            checkpoint=self._checkpoint,
            scanner=self._scanner,
            log=self._log,
            index=self._index,
            hasher=self._hasher,
        )
        report = recovery.run(clean=clean)
        self._appender.last_timestamp_ms = recovery.last_timestamp_ms
        self._dispatcher.begin_at(report.end_offset, recovery.last_timestamp_ms, self._queues)
        return report

    def close(self) -> None:
        """Make everything durable and visible, then remove `abort` and unlock. After a failure `abort` stays.

        Raises OSError if that fails; the files are closed nevertheless.
        """
        try:
            if self._failure is None:
                self._flush_everything()
                # A record without its queue entry would be out of reach after a normal start.
                if self._dispatcher.dispatched_offset == self.end_offset:
                    self._running.remove()
        finally:
            self._close_files()

    def _flush_everything(self) -> None:
        self.commit()
        self._flush_log()
        self._commit_log.files.sync_new_files()  # also of what was made for a message that was refused
        self.dispatch()
        self._index.drop_spares()
        queue_task = self._plan_queue_flush(closing=True)
        if queue_task is not None:
            queue_task.run()
            self.finish_queue_flush(queue_task)
        for queue in self._queues:
            queue.files.sync_new_files()
        self._checkpoint.sync()

    def _flush_log(self) -> None:
        task = self._plan_flush()
        if task is not None:
            task.run()
            self.finish_flush(task)

    def _close_files(self) -> None:
        self._commit_log.files.close()
        self._queues.close()
        self._index.close()
        self._checkpoint.close()
        self._running.unlock()

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        return self._commit_log.min_offset

    @property
    def end_offset(self) -> int:
        """End of what is appended."""
        return self._commit_log.end_offset

    @property
    def readable_end(self) -> int:
        """End of what can be read: with a transient store pool, of what is committed."""
        log = self._commit_log
        return log.end_offset if self._config.pool is None else log.written_offset

    @property
    def buffers_left(self) -> int:
        """Buffers that the transient store pool has left."""
        return self._commit_log.buffers_left

    def when_pool_is_empty(self, call: Callable[[], None]) -> None:
        """Let `call` be called whenever the last buffer of the pool is taken."""
        self._commit_log.on_pool_empty = call

    @property
    def flushed_offset(self) -> int:
        """End of what survives a power cut."""
        return self._commit_log.flushed_offset

    @property
    def dispatched_offset(self) -> int:
        """End of what is visible in the queues."""
        return self._dispatcher.dispatched_offset

    @property
    def failure(self) -> OSError | None:
        """The failed write or fsync that stopped the store for good."""
        return self._failure

    @property
    def writable(self) -> bool:
        """Whether a put has a chance: False after a failure, and while the disk is full."""
        if self._failure is None and self._no_space is not None and self._has_space():
            self._no_space = None
        return self._failure is None and self._no_space is None and not self.disks.is_full

    def _has_space(self) -> bool:
        """For one more file of the log and of a queue."""

        def free_bytes(folder: str) -> int:
            return self._storage.disk_usage(folder).free_bytes

        config = self._config
        return free_bytes(config.root) >= config.consume_queue_file_size and max(
            map(free_bytes, self._log_folders.writable)
        ) >= (config.commit_log_file_size + config.consume_queue_file_size)

    def _failed(self, error: OSError) -> None:
        if self._failure is None:
            self._failure = error
            self._log.error("store stopped", reason=str(error))

    # --- append ----------------------------------------------------------------------------------------------------

    def put(self, message: Message) -> PutResult:
        """Append one message. It is durable once `flushed_offset` has reached the result's `end_offset`."""
        return self.put_batch((message,))[0]

    def put_batch(self, messages: Sequence[Message]) -> Sequence[PutResult]:
        """Append messages of one queue, all of them or none: then the only result is the refusal."""
        if self._failure is not None:
            return (self._refusal(self._failure),)
        if self.disks.is_full and self.disks.still_full():
            return (self._refusal(None),)
        try:
            results: Sequence[PutResult] = (
                (self._appender.append(messages[0]),)
                if len(messages) == 1
                else self._appender.append_batch(messages)
            )
        except MessageIllegal as error:
            return (PutResult(PutStatus.MESSAGE_ILLEGAL, reason=str(error)),)
        except NoSpace as error:
            self._no_space = error
            return (self._refusal(error),)
        except NoBuffer as error:
            return (PutResult(PutStatus.CREATE_MAPPED_FILE_FAILED, reason=str(error)),)
        except OSError as error:
            self._failed(error)
            return (self._refusal(error),)
        self._no_space = None
        return results

    def _refusal(self, error: OSError | NoSpace | None) -> PutResult:
        if error is None or isinstance(error, NoSpace):
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self.disks.refusal())
        return PutResult(
            PutStatus.SERVICE_NOT_AVAILABLE, reason=f"the store is not writable: {error}"
        )

    def write_out(self) -> None:
        """Bring buffered puts to the page cache: then they survive the process, and `read_raw` sees them.

        With a transient store pool only if enough of them wait.
        """
        self._write(self._commit_log.write_out)

    def commit(self) -> None:
        """Bring all puts to the page cache."""
        self._write(self._commit_log.commit)

    def _write(self, write: Callable[[], None]) -> None:
        if self._failure is not None:
            return
        try:
            write()
        except OSError as error:
            self._failed(error)

    def _make_readable(self) -> None:
        """Readers need not wait, unless a pool decides what can be read."""
        if self._config.pool is None:
            self.write_out()

    # --- flush -----------------------------------------------------------------------------------------------------

    def begin_flush(self) -> FlushTask | None:
        """A task that makes everything durable that is readable so far; None if there is nothing to do.

        After a failure the task raises it when run: the caller learns of it on the path it has for that.
        """
        self._commit_log.files.close_retired()
        return self._plan_flush()

    def _plan_flush(self) -> FlushTask | None:
        """Like `begin_flush`, but a task of it may be in flight: files that were cut away stay open for that."""
        log = self._commit_log
        self.write_out()
        if self._failure is None and log.flushed_offset == log.written_offset:
            return None
        plan = SyncPlan(self._storage) if self._failure else self._log_sync_plan()
        return FlushTask(
            plan,
            end_offset=log.written_offset,
            epoch=self._epoch,
            failure=self._failure,
            sync=self._policy.sync_log,
        )

    def _log_sync_plan(self) -> SyncPlan:
        log = self._commit_log
        plan = SyncPlan(self._storage)
        plan.add(log.files.touched(log.flushed_offset, log.written_offset), log.files.entry_folders)
        return plan

    def finish_flush(self, task: FlushTask) -> int:
        """Count what `task` has made durable; return `flushed_offset`. Call after `run` has returned."""
        log = self._commit_log
        if task.epoch == self._epoch and self._failure is None:
            task.finish()
            log.flushed_offset = max(log.flushed_offset, task.end_offset)
        return log.flushed_offset

    def fail_flush(self, task: FlushTask | QueueFlushTask | Removal | None, error: OSError) -> None:
        """`task.run` raised `error`: nothing of it counts, and a second fsync would prove nothing either."""
        del task
        self._failed(error)

    def begin_queue_flush(self) -> QueueFlushTask | None:
        """A task that makes the queue and index entries durable that `dispatch` has made; None if there are none.

        After a failed write, and while the disk is full, there is none either: `failure` and `writable` tell.
        """
        try:
            return self._plan_queue_flush()
        except NoSpace as error:
            self._no_space = error
        except OSError as error:
            self._failed(error)
        return None

    def _plan_queue_flush(self, *, closing: bool = False) -> QueueFlushTask | None:
        if self._failure is not None:
            return None
        index_files = self._index.write_out(closing=closing)
        queues = self._dispatcher.begin_flush()
        if not queues and not index_files:
            return None
        plan = SyncPlan(self._storage)
        plan.add(index_files, (self._index.folder,))
        for queue in queues:
            plan.add(queue.take_dirty_files(), queue.files.entry_folders)
        # Taken before the fsync begins. The log is durable at least as far as its records are dispatched.
        dispatched_ms = self._dispatcher.last_timestamp_ms
        return QueueFlushTask(
            plan,
            self._checkpoint,
            physic_ms=dispatched_ms,
            logics_ms=dispatched_ms,
            index_ms=max(self._checkpoint.index_ms, self._index.full_until_ms),
            dispatched_offset=self._dispatcher.dispatched_offset,
            epoch=self._epoch,
        )

    def finish_queue_flush(self, task: QueueFlushTask) -> None:
        """Let the checkpoint tell what `task` has made durable. Call after `run` has returned."""
        if task.epoch != self._epoch or self._failure is not None:
            return
        try:
            task.finish()
        except OSError as error:
            self._failed(error)
            return
        self._dispatcher.durable_offset = task.dispatched_offset

    # --- dispatch --------------------------------------------------------------------------------------------------

    def dispatch(self, up_to: int | None = None) -> list[Dispatched]:
        """Make messages that end at or before `up_to` visible in their queues; return them in log order.

        Without `up_to`: those that are durable. A full disk postpones it (`writable` turns False). Raises StoreError if
        a queue would get a hole.
        """
        if self._failure is not None or self._dispatch_is_dead:
            return []
        try:
            return self._dispatcher.dispatch(self.flushed_offset if up_to is None else up_to)
        except NoSpace as error:
            if self._policy.keeps_room_for_entries:
                self._no_space = error
            else:
                self._dispatch_is_dead = True
        except OSError as error:
            self._failed(error)
        return []

    # --- read ------------------------------------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int,
        tags: frozenset[int] | None = None,
    ) -> GetResult:
        """Records from queue offset `offset`; with `tags` only those whose tag has one of these hash codes."""
        queue = self._queues.get(topic, queue_id)
        return NO_QUEUE if queue is None else self._reader.get(queue, offset, max_messages, tags)

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the next one to become visible; (0, 0) for a queue that does not exist."""
        queue = self._queues.get(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """Which queue offset the next put gets; what lies below may still wait to become visible."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.next_offset

    def queue_entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[Entry]:
        """Up to `count` visible entries of a queue from `offset`; [] where there are none."""
        queue = self._queues.get(topic, queue_id)
        return [] if queue is None else queue.read(offset, count)

    def queue_keys(self) -> list[tuple[str, int]]:
        """(topic, queue id) of every queue, sorted."""
        return sorted((queue.topic, queue.queue_id) for queue in self._queues)

    def look_up(self, physical_offset: int) -> bytes | None:
        """The record that starts at `physical_offset`; None if none does."""
        self._make_readable()
        return self._records.read(physical_offset)

    def find_by_key(self, query: KeyQuery) -> KeyFound:
        """The visible messages that have a key."""
        return search(self._index, query, self._policy.key_search, self._records.read)

    def search_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The queue offset of the message stored closest to `timestamp_ms`; 0 if there is none."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else self._reader.search_by_time(queue, timestamp_ms)

    def earliest_store_time_ms(self, topic: str, queue_id: int) -> int:
        """When the first message of the queue was stored, in milliseconds; -1 if there is none."""
        queue = self._queues.get(topic, queue_id)
        return -1 if queue is None else self._reader.store_time_ms(queue, queue.min_offset)

    def earliest_message_time_ms(self) -> int:
        """When the oldest record of the log was stored, in milliseconds; -1 if there is none."""
        return self._records.stored_ms(self.min_offset)

    # --- replication -----------------------------------------------------------------------------------------------

    def read_raw(self, offset: int, size_max: int) -> bytes:
        """Log bytes from `offset`, appended but not necessarily flushed; never across a file end; b"" at the end."""
        self._make_readable()
        return self._commit_log.read(offset, size_max)

    def append_raw(self, offset: int, data: bytes) -> None:
        """Append bytes of another replica's log. An empty store begins at `offset`, if that is the start of a file.

        What is not a whole record yet is held back: `end_offset` is always the end of one. The next call either
        continues behind the bytes held back, or begins again at `end_offset`, and they are dropped.

        Raises:
            RecordInvalid: `offset` does not follow, or the bytes are not sound records; nothing was appended.
            NoSpace: nothing was appended; it may work later.
            OSError: the write failed, and the store has stopped.
            StoreError: the store has stopped.
        """
        if self._failure is not None:
            raise StoreError(f"the store is not writable: {self._failure}")
        try:
            self._raw_appender.append(offset, data)
        except NoSpace as error:
            self._no_space = error
            raise
        except OSError as error:
            self._failed(error)
            raise

    def record_start_before(self, offset: int) -> int:
        """The last record boundary at or before `offset`; the end of the log counts as one."""
        self._make_readable()
        return self._commit_log.record_start_before(offset)

    def truncate(self, offset: int) -> None:
        """End the log and the queues at `offset`, durably: nothing beyond it can ever be read again.

        Raises:
            StoreError: `offset` is no record boundary, or the store has stopped.
            OSError: a file operation failed, and the store has stopped.
        """
        self.commit()
        if self._failure is not None:
            raise StoreError(f"the store is not writable: {self._failure}")
        if self.record_start_before(offset) != offset:
            raise StoreError(
                f"{offset} is no record boundary of a log that ends at {self.end_offset}"
            )
        if offset == self.end_offset:
            return
        try:
            self._truncate(offset)
        except OSError as error:
            self._failed(error)
            raise

    def begin_again(self, offset: int) -> None:
        """Forget the whole log, durably: an empty one begins at `offset`, where a file starts.

        For a slave that was away so long that its master has deleted all that it has.

        Raises:
            RecordInvalid: no file can start at `offset`; nothing has changed.
            StoreError: the store has stopped.
            OSError: a file operation failed, and the store has stopped.
        """
        if offset % self._commit_log.file_size:
            raise RecordInvalid(f"no log file starts at {offset}")
        self.truncate(self.min_offset)
        try:
            for queue in self._queues:
                queue.begin_at(0)
                queue.files.cut(0)
            self._commit_log.files.cut(0)
        except OSError as error:
            self._failed(error)
            raise
        self._commit_log.begin_at(offset)
        self._dispatcher.begin_at(offset, 0, self._queues)

    def _truncate(self, offset: int) -> None:
        self._epoch += 1
        # First, as what is appended next may be older than what is cut: the checkpoint must not vouch for it.
        time_ms = self._records.time_not_after(offset)
        self._checkpoint.lower_to(time_ms)
        self._raw_appender.drop_partial()
        self._dispatcher.drop_from(offset, time_ms)
        for queue in self._queues:
            if queue.cut_beyond(offset):
                self._dispatcher.touch(queue)
        self._dispatcher.restore_next_offsets()
        self._index.cut(offset, self._records.stored_ms)
        self._commit_log.cut(offset)
        self._sync_log()

    def _sync_log(self) -> None:
        """Flush at once. A flush in flight goes on beside it; its files stay open, its result does not count."""
        plan = self._log_sync_plan()
        plan.run()
        plan.finish()
        self._commit_log.flushed_offset = self._commit_log.end_offset
