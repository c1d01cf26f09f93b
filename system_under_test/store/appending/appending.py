"""Appends messages as records to the log (RocketMQ, CommitLog.asyncPutMessage), or refuses them with a reason."""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.system_under_test.protocol.message import (
    Message,
    RecordError,
    encode_record,
    offset_message_id,
    patch_record,
    tags_code,
)
from staticfire.system_under_test.runtime.env import Clock
from staticfire.system_under_test.store.appending.config import RECORD_OVERHEAD_MAX, StoreConfig
from staticfire.system_under_test.store.appending.dispatcher import Dispatcher
from staticfire.system_under_test.store.delay_levels import SCHEDULE_TOPIC, due_time_ms
from staticfire.system_under_test.store.index.message_index import MessageIndex
from staticfire.system_under_test.store.index_keys import UNIQUE_KEY, USER_KEYS, KeyHasher
from staticfire.system_under_test.store.log.commit_log import CommitLog
from staticfire.system_under_test.store.queues.consume_queue import ConsumeQueue
from staticfire.system_under_test.store.queues.queue_table import QueueTable, is_topic_name
from staticfire.system_under_test.store.record_scan import (
    BLANK_HEADER_SIZE,
    has_queue_entry,
    is_rolled_back,
)
from staticfire.system_under_test.store.results import Dispatched, PutResult, PutStatus

PUT_OK = PutStatus.PUT_OK
_HEX_OFFSET_DIGITS = 16


class MessageIllegal(ValueError):
    """The message breaks a limit or a rule of the record format; nothing was stored."""


class Appender:
    """Appends one message after the other; store times never decrease, even if the clock steps back."""

    __slots__ = (
        "_clock",
        "_commit_log",
        "_config",
        "_dispatcher",
        "_file_room",
        "_hasher",
        "_id_prefixes",
        "_index",
        "_keeps_room_for_entries",
        "_queues",
        "_tags_codes",
        "last_timestamp_ms",
    )

    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        commit_log: CommitLog,
        queues: QueueTable,
        dispatcher: Dispatcher,
        index: MessageIndex,
        hasher: KeyHasher,
        *,
        keeps_room_for_entries: bool = True,
    ) -> None:
        self._keeps_room_for_entries = keeps_room_for_entries
        self._config = config
        self._clock = clock
        self._commit_log = commit_log
        self._queues = queues
        self._dispatcher = dispatcher
        self._index = index
        self._hasher = hasher
        self._file_room = config.commit_log_file_size - BLANK_HEADER_SIZE
        self._tags_codes: dict[str | None, int] = {}
        self._id_prefixes: dict[tuple[str, int], str] = {}
        self.last_timestamp_ms = 0

    def append(self, message: Message) -> PutResult:
        """Append one message.

        Raises:
            MessageIllegal: nothing was stored, and never will be.
            NoSpace: nothing was stored; it may work later.
            OSError: a file operation failed; what was stored is unknown.
        """
        queue = self._known_queue(message)
        record = self._encode(message)
        hashes = self._hashes(message)
        entries = self._entries_of(message, queue)
        offset = self._reserve(entries, len(record), 1, len(hashes))
        result = self._append(message, record, entries, offset, hashes)
        if not self._config.buffered:
            self._commit_log.write_out()
        return result

    def append_batch(self, messages: Sequence[Message]) -> list[PutResult]:
        """Append messages of one queue next to each other in one file, with one store time: all of them or none.

        Raises as `append` does.
        """
        first = messages[0]
        queue = self._known_queue(first)
        records = [self._encode(message) for message in messages]
        size = self._size_together(records)
        hashes = [self._hashes(message) for message in messages]
        entries = self._entries_of(first, queue)
        offset = self._reserve(entries, size, len(records), sum(map(len, hashes)))
        results = []
        for message, record, keys in zip(messages, records, hashes, strict=True):
            results.append(self._append(message, record, entries, offset, keys))
            offset += len(record)
        if not self._config.buffered:
            self._commit_log.write_out()
        return results

    def _known_queue(self, message: Message) -> ConsumeQueue | None:
        """The queue of the message; None if it is its first. Raises MessageIllegal if there can be no such queue."""
        queue = self._queues.get(message.topic, message.queue_id)
        if queue is None:
            check_queue(message.topic, message.queue_id)
        return queue

    def _entries_of(self, message: Message, queue: ConsumeQueue | None) -> ConsumeQueue | None:
        """The queue that gets an entry, made if it is missing; None if the message has no entry."""
        if queue is None:
            queue = self._queues.get_or_create(message.topic, message.queue_id)
        return queue if not message.sys_flag or has_queue_entry(message.sys_flag) else None

    def _reserve(self, queue: ConsumeQueue | None, size: int, entries: int, hashes: int) -> int:
        """Reserve space for records, queue entries and index entries; return where the records will begin.

        It reserves all space before the first byte is written, so that a full disk makes it refuse a message instead of
        writing part of one. Raises NoSpace, OSError.
        """
        offset = self._commit_log.reserve(size)
        if queue is not None and self._keeps_room_for_entries:
            queue.reserve_up_to(queue.next_offset + entries)
        self._index.reserve(hashes)
        now_ms = self._clock.wall_ms()
        if now_ms > self.last_timestamp_ms:
            self.last_timestamp_ms = now_ms
        return offset

    def _append(
        self,
        message: Message,
        record: bytearray,
        queue: ConsumeQueue | None,
        offset: int,
        hashes: tuple[int, ...],
    ) -> PutResult:
        now_ms = self.last_timestamp_ms
        queue_offset = 0 if queue is None else queue.next_offset
        patch_record(
            record, queue_offset=queue_offset, physical_offset=offset, store_timestamp_ms=now_ms
        )
        self._commit_log.append(record, offset)
        topic, queue_id = message.topic, message.queue_id
        code = self._entry_code(message, now_ms)
        size = len(record)
        end = offset + size
        self._dispatcher.add(
            queue, Dispatched(topic, queue_id, queue_offset, code, now_ms, offset, end, hashes)
        )
        message_id = self._message_id(message.store_host, offset)
        return PutResult(PUT_OK, offset, size, end, queue_offset, now_ms, message_id)

    def _encode(self, message: Message) -> bytearray:
        if len(message.body) > self._config.message_size_max:
            raise MessageIllegal(
                f"body has {len(message.body)} bytes; message_size_max is {self._config.message_size_max}"
            )
        try:
            record = encode_record(message)
        except (RecordError, UnicodeError) as error:
            raise MessageIllegal(str(error)) from error
        size_max = min(self._config.message_size_max + RECORD_OVERHEAD_MAX, self._file_room)
        if len(record) > size_max:
            raise MessageIllegal(f"record has {len(record)} bytes; {size_max} is the most")
        return record

    def _size_together(self, records: list[bytearray]) -> int:
        size = sum(map(len, records))
        if size > self._file_room:
            raise MessageIllegal(
                f"the records of a batch have {size} bytes; {self._file_room} fit into a file"
            )
        return size

    def _entry_code(self, message: Message, store_timestamp_ms: int) -> int:
        """The last field of the queue entry: the due time of a delayed message, else the hash of its tag."""
        properties = message.properties
        if message.topic == SCHEDULE_TOPIC:
            levels_ms = self._config.delay_levels_ms
            due_ms = due_time_ms(properties.get("DELAY", ""), store_timestamp_ms, levels_ms)
            if due_ms is not None:
                return due_ms
        return self._tags_code(properties.get("TAGS"))

    def _hashes(self, message: Message) -> tuple[int, ...]:
        """The hashes of the keys under which the index will have the message."""
        if message.sys_flag and is_rolled_back(message.sys_flag):
            return ()
        properties = message.properties
        return self._hasher.hashes(
            message.topic, properties.get(UNIQUE_KEY), properties.get(USER_KEYS)
        )

    def _tags_code(self, tags: str | None) -> int:
        code = self._tags_codes.get(tags)
        if code is None:
            code = tags_code(tags)
            if (
                len(self._tags_codes) < 10_000
            ):  # tags repeat, so they are cached; unique ones must not fill the memory
                self._tags_codes[tags] = code
        return code

    def _message_id(self, store_host: tuple[str, int], offset: int) -> str:
        prefix = self._id_prefixes.get(store_host)
        if prefix is None:
            prefix = offset_message_id(*store_host, 0)[:-_HEX_OFFSET_DIGITS]
            self._id_prefixes[store_host] = prefix
        return f"{prefix}{offset:016X}"


def check_queue(topic: str, queue_id: int) -> None:
    """Raises MessageIllegal if there can be no such queue."""
    if not is_topic_name(topic):
        raise MessageIllegal(
            f"topic is {topic[:140]!r}; 1 to 127 characters of letters, digits and %|_- are allowed"
        )
    if not 0 <= queue_id < 1 << 31:
        raise MessageIllegal(f"queue id is {queue_id}; it must be 0 or more")
