"""Searches messages by key and store time (RocketMQ, IndexService.queryOffset and DefaultMessageStore.queryMessage).

The index holds hashes of keys and seconds, not keys and milliseconds. RocketMQ trusts them and leaves the check to the
caller: other keys of the same hash count against the limit, the search skips a message stored in the second in which
the time range begins, and a clock that was set back ends the search early. Ours reads each candidate record, so that
it returns only matching messages, and skips none before the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from staticfire.system_under_test.protocol.message import Message, RecordError, decode_record
from staticfire.system_under_test.store.index.index_file import IndexFile
from staticfire.system_under_test.store.index.index_layout import SECONDS_MAX
from staticfire.system_under_test.store.index.message_index import MessageIndex
from staticfire.system_under_test.store.index_keys import UNIQUE_KEY, USER_KEYS, index_hash

BYTES_A_UNIT = 1024  # record bytes that take about as long to read and decode as one index entry

ReadRecord = Callable[[int], bytes | None]


class KeyQuery(NamedTuple):
    """Messages of `topic` with `key`, stored from `begin_ms` to `end_ms`, `max_messages` at most, newest preferred."""

    topic: str
    key: str
    max_messages: int
    begin_ms: int
    end_ms: int


class KeyFound(NamedTuple):
    """Records in log order, and store time and physical offset of the newest index entry; 0 and 0 if there is none."""

    records: list[bytes]
    last_update_ms: int
    last_update_offset: int


@dataclass(frozen=True, slots=True)
class KeySearchRules:
    """`candidates`: physical offsets of records that may match, newest first, and None for each entry that does not.

    `is_exact`: read the record of each candidate, and return it only if it matches.
    """

    candidates: Callable[[MessageIndex, KeyQuery], Iterator[int | None]]
    is_exact: bool


class KeySearch:
    """A search for the messages that `query` asks for, in steps: a chain of the index may have millions of entries.

    It ignores entries beyond the end of the log or before its start. If entries were removed between two steps, the
    search begins anew.
    """

    def __init__(
        self, index: MessageIndex, query: KeyQuery, rules: KeySearchRules, read: ReadRecord
    ) -> None:
        self._index = index
        self._query = query
        self._rules = rules
        self._read = read
        self._begin()

    def _begin(self) -> None:
        self._found: dict[int, bytes] = {}
        self._taken = 0
        self._removals = self._index.removals
        self._candidates = self._rules.candidates(self._index, self._query)

    def step(self, work_max: int | None = None) -> bool:
        """Go on for about `work_max` units of work; return whether the search is over.

        Args:
            work_max: one unit is an entry of the index, or BYTES_A_UNIT of a record that was read; None: to the end.
        """
        if self._index.removals != self._removals:
            self._begin()
        work = 0
        while self._taken < self._query.max_messages:
            if work_max is not None and work >= work_max:
                return False
            try:
                offset = next(self._candidates)
            except StopIteration:
                return True
            work += 1
            if offset is not None:
                work += self._take(offset) // BYTES_A_UNIT
        return True

    def _take(self, offset: int) -> int:
        """Examine one candidate; return how many bytes were read."""
        record = self._read(offset)
        size = 0 if record is None else len(record)
        if self._rules.is_exact and (
            record is None or offset in self._found or not _matches(record, self._query)
        ):
            return size
        self._taken += 1
        if record is not None:
            self._found[offset] = record
        return size

    @property
    def found(self) -> KeyFound:
        """The result, once the search is over."""
        newest = self._index.newest
        times = (0, 0) if newest is None else (newest.header.end_ms, newest.header.end_offset)
        return KeyFound([self._found[offset] for offset in sorted(self._found)], *times)


def has_key(message: Message, key: str) -> bool:
    """Whether `key` is the unique key of the message or one of its keys: equal hashes prove nothing."""
    properties = message.properties
    return key == properties.get(UNIQUE_KEY) or key in properties.get(USER_KEYS, "").split(" ")


def _matches(record: bytes, query: KeyQuery) -> bool:
    try:
        message = decode_record(record)
    except RecordError:
        return False
    is_in_time = query.begin_ms <= message.store_timestamp_ms <= query.end_ms
    return is_in_time and message.topic == query.topic and has_key(message, query.key)


def _every_candidate(index: MessageIndex, query: KeyQuery) -> Iterator[int | None]:
    key_hash = index_hash(query.topic, query.key)
    repaired = sorted(offset for offset, hashes in index.repaired.items() if key_hash in hashes)
    for offset in _indexed_candidates(index, query, key_hash):
        while offset is not None and repaired and repaired[-1] > offset:
            yield repaired.pop()
        yield offset
    yield from reversed(repaired)


def _indexed_candidates(
    index: MessageIndex, query: KeyQuery, key_hash: int
) -> Iterator[int | None]:
    for file in index.newest_first():
        for entry in file.chain(key_hash):
            is_candidate = entry.key_hash == key_hash and _may_be_in_time(
                file, entry.seconds, query
            )
            yield entry.physical_offset if is_candidate else None


def _may_be_in_time(file: IndexFile, seconds: int, query: KeyQuery) -> bool:
    """False if the entry proves that its message is too old or too new: saves reading the records of a hot key.

    An entry also has 0 seconds if its message was stored before the file began, and SECONDS_MAX if it was stored later
    than the file can express.
    """
    stored_ms = file.header.begin_ms + seconds * 1000
    return not (
        (seconds > 0 and stored_ms > query.end_ms)
        or (seconds < SECONDS_MAX and stored_ms + 999 < query.begin_ms)
    )


def _java_candidates(index: MessageIndex, query: KeyQuery) -> Iterator[int | None]:
    key_hash = index_hash(query.topic, query.key)
    for file in index.newest_first():
        if _overlaps(file, query):
            yield from _java_chain(file, key_hash, query)
        if file.header.next_number > 1 and file.header.begin_ms < query.begin_ms:
            return


def _overlaps(file: IndexFile, query: KeyQuery) -> bool:
    """RocketMQ, IndexFile.isTimeMatched."""
    return query.begin_ms <= file.header.end_ms and file.header.begin_ms <= query.end_ms


def _java_chain(file: IndexFile, key_hash: int, query: KeyQuery) -> Iterator[int | None]:
    """RocketMQ, IndexFile.selectPhyOffset."""
    for entry in file.chain(key_hash):
        stored_ms = file.header.begin_ms + entry.seconds * 1000
        is_candidate = entry.key_hash == key_hash and query.begin_ms <= stored_ms <= query.end_ms
        yield entry.physical_offset if is_candidate else None
        if stored_ms < query.begin_ms:
            return


EXACT_SEARCH = KeySearchRules(_every_candidate, is_exact=True)
JAVA_SEARCH = KeySearchRules(_java_candidates, is_exact=False)
