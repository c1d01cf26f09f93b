"""A broker's store: one commit log, many consume queues, a checkpoint (RocketMQ, DefaultMessageStore).

Synchronous and without an event loop. The broker decides when to append, flush and dispatch:

    put() -> begin_flush() -> task.run(), in any thread -> finish_flush() -> dispatch() -> get()

At most one flush of the log and one of the queues may be in flight. Queue entries are built only up to
`flushed_offset`: a consumer must not see, and move its offset past, a message that a power cut may still take.
After a failed write or fsync the content of the disk is unknown. The store then refuses everything for good; the broker
must exit, and recovery finds out at the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.env import Clock, Log, Storage
from staticfire.system_under_test.store.appending.appending import MessageIllegal
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.assembly.flush_planner import Flushing
from staticfire.system_under_test.store.assembly.open_close import close_store, open_store
from staticfire.system_under_test.store.assembly.store_parts import make_parts
from staticfire.system_under_test.store.assembly.store_policy import HARDENED_STORE, StorePolicy
from staticfire.system_under_test.store.assembly.truncation import LogCutter
from staticfire.system_under_test.store.config_changes import take_over
from staticfire.system_under_test.store.errors import (
    NoBuffer,
    NoSpace,
)
from staticfire.system_under_test.store.flush import FlushTask, QueueFlushTask
from staticfire.system_under_test.store.index.key_search import KeyFound, KeyQuery, KeySearch
from staticfire.system_under_test.store.index_keys import record_hashes
from staticfire.system_under_test.store.queues.consume_queue import Entry
from staticfire.system_under_test.store.reading.queue_view import QueueView
from staticfire.system_under_test.store.reading.reading import NO_QUEUE, GetResult
from staticfire.system_under_test.store.record_filter import RecordFilter
from staticfire.system_under_test.store.record_scan import (
    KEPT_SIZE,
    ScannedRecord,
    is_sound,
    with_body_of,
)
from staticfire.system_under_test.store.recovery.recovery import RecoveryReport
from staticfire.system_under_test.store.results import Dispatched, PutResult, PutStatus
from staticfire.system_under_test.store.retention.retention import Removal


class MessageStore:
    """One store folder, opened by one process at a time. Not thread safe; only tasks may run in other threads."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        log: Log,
        config: StoreConfig,
        *,
        policy: StorePolicy = HARDENED_STORE,
    ) -> None:
        parts = make_parts(storage, clock, log, config, policy)
        self._parts = parts
        self._health = parts.health
        self._commit_log = parts.commit_log
        self._queues = parts.queues
        self._index = parts.index
        self._records = parts.records
        self._reader = parts.reader
        self._appender = parts.appender
        self._dispatcher = parts.dispatcher
        self._flushing = Flushing(parts)
        self._cutter = LogCutter(parts, self._flushing)
        self._has_pool = config.pool is not None
        self.queue_view = QueueView(parts.queues, parts.reader, policy.time_search)
        self.held_queue: tuple[str, int] | None = None  # (topic, queue id) that `put` refuses
        self.disks = parts.disks
        self.retention = parts.retention

    # --- open and close --------------------------------------------------------------------------------------------

    def open(self) -> RecoveryReport:
        """Lock the folder, load and recover; see `open_store`."""
        return open_store(self._parts, self._flushing)

    def close(self) -> None:
        """Make everything durable and visible, unlock and close; see `close_store`."""
        close_store(self._parts, self._flushing, self.dispatch)

    def options_changed(self, config: StoreConfig) -> None:
        """Apply the options that may change while the store is open; all others must be unchanged."""
        take_over(self._parts.config, config)

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        return self._commit_log.min_offset

    @property
    def end_offset(self) -> int:
        """Physical offset of the end of what is appended."""
        return self._commit_log.end_offset

    @property
    def readable_end(self) -> int:
        """Physical offset of the end of what can be read: with a transient store pool, of what is committed."""
        log = self._commit_log
        return log.written_offset if self._has_pool else log.end_offset

    @property
    def buffers_left(self) -> int:
        """Buffers that the transient store pool has left."""
        return self._commit_log.buffers_left

    def when_pool_is_empty(self, call: Callable[[], None]) -> None:
        """Register `call`, to be called whenever the last buffer of the pool is taken."""
        self._commit_log.on_pool_empty = call

    @property
    def flushed_offset(self) -> int:
        """Physical offset of the end of what survives a power cut."""
        return self._commit_log.flushed_offset

    @property
    def dispatched_offset(self) -> int:
        """Physical offset of the end of what is visible in the queues."""
        return self._dispatcher.dispatched_offset

    @property
    def failure(self) -> OSError | None:
        """The failed write or fsync that stopped the store for good."""
        return self._health.failure

    # --- append ----------------------------------------------------------------------------------------------------

    def put(self, message: Message) -> PutResult:
        """Append one message. It is durable once `flushed_offset` has reached the result's `end_offset`."""
        refusal = self._refused_now()
        if refusal is not None:
            return refusal
        if self.held_queue is not None and self.held_queue == (message.topic, message.queue_id):
            reason = "a batch is being stored in its queue"
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=reason)
        try:
            return self._appender.append(message)
        except (MessageIllegal, NoSpace, NoBuffer, OSError) as error:
            return self._refusal(error)

    def put_batch(self, messages: Sequence[Message]) -> Sequence[PutResult]:
        """Append messages of one queue, all of them or none. If none, the only result is the refusal."""
        refusal = self._refused_now()
        if refusal is not None:
            return (refusal,)
        try:
            return self._appender.append_batch(messages)
        except (MessageIllegal, NoSpace, NoBuffer, OSError) as error:
            return (self._refusal(error),)

    def _refused_now(self) -> PutResult | None:
        """The refusal that every put gets now; None if puts may be tried."""
        health = self._health
        if health.failure is not None:
            return health.refusal(health.failure)
        if self.disks.is_full and self.disks.still_full():
            return health.refusal(None)
        return None

    def _refusal(self, error: MessageIllegal | NoSpace | NoBuffer | OSError) -> PutResult:
        """The result of a put that raised `error`."""
        if isinstance(error, MessageIllegal):
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=str(error))
        if isinstance(error, NoBuffer):
            return PutResult(PutStatus.CREATE_MAPPED_FILE_FAILED, reason=str(error))
        if isinstance(error, OSError):
            self._health.failed(error)
        return self._health.refusal(error)

    def write_out(self) -> None:
        """Write buffered puts to the page cache: then they survive the process, and `read_raw` sees them.

        With a transient store pool, only if enough of them wait.
        """
        self._health.attempt(self._commit_log.write_out)

    def commit(self) -> None:
        """Write all puts to the page cache."""
        self._health.attempt(self._commit_log.commit)

    def extend_with(self, bit_map_of: Callable[[Dispatched], bytes]) -> None:
        """Use `bit_map_of` for the queue extensions, if they are on: it gives the bits of messages dispatched later."""
        self._parts.extensions.bit_map_of = bit_map_of

    def _make_readable(self) -> None:
        """Commit everything for readers, unless a pool decides what can be read."""
        if not self._has_pool:
            self.write_out()

    # --- flush -----------------------------------------------------------------------------------------------------

    def begin_flush(self) -> FlushTask | None:
        """A task that makes everything durable that is readable so far; see `Flushing.begin`."""
        return self._flushing.begin()

    def finish_flush(self, task: FlushTask) -> int:
        """Count what `task` has made durable; return `flushed_offset`. Call after `run` has returned."""
        return self._flushing.finish(task)

    def fail_flush(self, task: FlushTask | QueueFlushTask | Removal | None, error: OSError) -> None:
        """`task.run` raised `error`: its result does not count, and a second fsync would prove nothing either."""
        del task
        self._health.failed(error)

    def begin_queue_flush(self) -> QueueFlushTask | None:
        """A task for the queue and index entries that `dispatch` has made; see `Flushing.begin_queues`."""
        return self._flushing.begin_queues()

    def finish_queue_flush(self, task: QueueFlushTask) -> None:
        """Let the checkpoint record what `task` has made durable. Call after `run` has returned."""
        self._flushing.finish_queues(task)

    # --- dispatch --------------------------------------------------------------------------------------------------

    def end_of_next(self, count: int) -> int | None:
        """The end of the next `count` records to become visible; None if at most `count` are waiting."""
        return self._dispatcher.end_of_next(count)

    def dispatch(self, up_to: int | None = None) -> list[Dispatched]:
        """Make messages that end at or before `up_to` visible in their queues; return them in log order.

        Without `up_to`: those that are durable. On a full disk it returns [] and can be tried again. Raises StoreError
        rather than leave a hole in a queue.
        """
        health = self._health
        if health.failure is not None or health.dispatch_is_dead:
            return []
        try:
            return self._dispatcher.dispatch(self.flushed_offset if up_to is None else up_to)
        except NoSpace:
            health.dispatch_is_dead = not self._parts.policy.keeps_room_for_entries
        except OSError as error:
            health.failed(error)
        return []

    # --- read ------------------------------------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int,
        tags: frozenset[int] | None = None,
        wanted: RecordFilter | None = None,
    ) -> GetResult:
        """Records from queue offset `offset`; with `tags` only those whose tag has one of these hash codes."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return NO_QUEUE
        return self._reader.get(queue, offset, max_messages, tags, wanted)

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the next one to become visible; (0, 0) for a queue that does not exist."""
        queue = self._queues.get(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset of the next message, beyond those that are not visible yet; 0 without a queue."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.next_offset

    def look_up(self, physical_offset: int) -> bytes | None:
        """The record that starts at `physical_offset`, an offset named by a client; None if none starts there.

        For an old record its queue entry must confirm the offset: a body may hold bytes that look like a record, but no
        queue entry points to them.
        """
        self._make_readable()
        record = self._records.find(physical_offset)
        if record is None or self._commit_log.knows_starts_at(physical_offset):
            return record
        parsed = self._records.parse(record, physical_offset)
        return record if parsed is not None and self._has_entry(parsed) else None

    def record_of_entry(self, physical_offset: int) -> bytes | None:
        """The record at an offset from an entry of this store; None if it is damaged or gone."""
        self._make_readable()
        return self._records.read(physical_offset)

    def record_of(self, entry: Entry) -> bytes | None:
        """The record of a queue entry; None if it is damaged or gone, or if the entry has lost a part of its bytes."""
        record = self.record_of_entry(entry.physical_offset)
        return record if record is not None and len(record) == entry.size else None

    def key_search(self, query: KeyQuery) -> KeySearch:
        """A search in steps for the visible messages that have a key; the store must stay open until it is over."""
        return KeySearch(self._index, query, self._parts.policy.key_search, self._records.read)

    def find_by_key(self, query: KeyQuery) -> KeyFound:
        """The visible messages that have a key."""
        search = self.key_search(query)
        search.step()
        return search.found

    def earliest_message_time_ms(self) -> int:
        """Store time of the oldest record of the log, in ms since 1970; -1 if there is none."""
        return self._records.stored_ms(self.min_offset)

    def when_damaged(self, call: Callable[[int], None]) -> None:
        """Register `call`, which gets the physical offset of each record that a reader or replication finds damaged."""
        self._reader.on_damage = self._records.on_damage = call
        self._parts.raw_appender.on_damage = call

    def mend_record(self, physical_offset: int, record: bytes) -> bool:
        """Overwrite a damaged record with a replica's copy, durably; False if the copy is another record.

        Keeps its own header if that is sound: a proxy between the replicas may have changed the store host of the copy.
        Raises OSError: the write failed, and the store has stopped.
        """
        log = self._commit_log
        own = log.read(physical_offset, len(record))
        found = self._records.parse(record, physical_offset)
        if found is None or not (own[:KEPT_SIZE] == record[:KEPT_SIZE] or self._has_entry(found)):
            return False
        repaired = with_body_of(own, record)
        if self._records.parse(repaired, physical_offset) != found:
            repaired = record
        try:
            log.files.write(physical_offset, repaired)
            for file in log.files.touched(physical_offset, physical_offset + len(record)):
                file.file.fdatasync()
        except OSError as error:
            self._health.failed(error)
            raise
        self._parts.lost.discard(physical_offset)
        self._index.repaired[physical_offset] = record_hashes(self._parts.hasher, found)
        return True

    def _has_entry(self, record: ScannedRecord) -> bool:
        """Whether a queue entry confirms that this record belongs here, even if its header is damaged."""
        queue = self._queues.get(record.topic.decode("utf-8", "replace"), record.queue_id)
        entry = None if queue is None else queue.probe(record.queue_offset)
        return entry is not None and entry[:2] == (record.physical_offset, record.size)

    def waits_for_repair(self, physical_offset: int, size: int) -> bool:
        """Whether the record of a queue entry is damaged and a replica may have a sound copy; if so, asks for it."""
        record = self._commit_log.read(physical_offset, size)
        damaged = len(record) == size and not is_sound(record, physical_offset)
        if not damaged or physical_offset in self._parts.lost:
            return False
        self._records.on_damage(physical_offset)
        return True

    def give_up(self, physical_offset: int) -> None:
        """Let consumers skip a damaged record: no replica has a sound copy of it."""
        self._parts.lost.add(physical_offset)

    # --- replication -----------------------------------------------------------------------------------------------

    def read_raw(self, offset: int, size_max: int) -> bytes:
        """Log bytes from `offset`, appended but not necessarily flushed; never across a file end; b"" at the end."""
        self._make_readable()
        return self._commit_log.read(offset, size_max)

    def append_raw(self, offset: int, data: bytes) -> None:
        """Append bytes of another replica's log. An empty store begins at `offset`, if that is the start of a file.

        It holds back the bytes of an incomplete record: `end_offset` is always the end of a record. The next call
        either continues behind the bytes held back, or begins again at `end_offset` and drops them.

        Raises:
            RecordInvalid: `offset` does not follow, or the bytes are not sound records; nothing was appended.
            NoSpace: nothing was appended; it may work later.
            OSError: the write failed, and the store has stopped.
            StoreError: the store has stopped.
        """
        self._health.check()
        try:
            self._parts.raw_appender.append(offset, data)
        except OSError as error:
            self._health.failed(error)
            raise

    def record_start_before(self, offset: int) -> int:
        """The last record boundary at or before `offset`; the end of the log counts as one."""
        self._make_readable()
        return self._commit_log.record_start_before(offset)

    def truncate(self, offset: int) -> None:
        """End the log and the queues at `offset`, durably; see `LogCutter.truncate`."""
        self._cutter.truncate(offset)

    def begin_again(self, offset: int) -> None:
        """Forget the whole log: an empty one begins at `offset`; see `LogCutter.begin_again`."""
        self._cutter.begin_again(offset)
