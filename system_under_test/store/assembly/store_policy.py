"""The decisions in which the hardened store and that of 4.9.8 differ. The values are in `policies`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from staticfire.system_under_test.store.appending.dispatcher import Dispatcher
from staticfire.system_under_test.store.appending.rereading_dispatcher import (
    ReadLog,
    RereadingDispatcher,
)
from staticfire.system_under_test.store.flush import Sync, at_once
from staticfire.system_under_test.store.health import StoreHealth
from staticfire.system_under_test.store.index.index_file import IndexFile
from staticfire.system_under_test.store.index.index_recovery import IndexRecovery
from staticfire.system_under_test.store.index.key_search import EXACT_SEARCH, KeySearchRules
from staticfire.system_under_test.store.index.message_index import MessageIndex
from staticfire.system_under_test.store.mapped_file import MappedFileQueue
from staticfire.system_under_test.store.reading.time_search import TimeSearch, nearest_in_queue


def sync_ignoring_errors(run: Callable[[], None]) -> None:
    """A failed fsync counts as one that worked (RocketMQ #2706, bug R01: MappedFile.flush)."""
    with suppress(OSError):
        run()


def make_dispatcher(index: MessageIndex, _read: ReadLog, _is_slave: bool) -> Dispatcher:
    """What is appended is dispatched from memory: nothing in the log can be misread."""
    return Dispatcher(index)


def make_rereading_dispatcher(index: MessageIndex, read: ReadLog, is_slave: bool) -> Dispatcher:
    """See RereadingDispatcher."""
    return RereadingDispatcher(index, read, is_slave=is_slave)


def whole_index(files: Sequence[IndexFile]) -> Sequence[IndexFile]:
    """Whatever has changed is flushed with the queues, and when the store is closed."""
    return files


def only_full_files(files: Sequence[IndexFile]) -> Sequence[IndexFile]:
    """The operating system may flush the file that grows when it likes (RocketMQ, IndexService; issue 4463)."""
    return [file for file in files if file.is_full]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePolicy:
    """Decisions of a store."""

    sync: Sync  # R01
    health: type[StoreHealth]  # RocketMQ ignores a failed write
    # R04 (RocketMQ #10666): without a wipe, a later recovery runs from the new tail into the old one
    cut_log: Callable[[MappedFileQueue, int], None]
    # A full disk: queue entries have their space before a send is acknowledged, and dispatch waits for space. Without,
    # the broker goes on acknowledging what no consumer will see (RocketMQ: ReputMessageService dies of the error).
    keeps_room_for_entries: bool
    # (index, how to read the log, whether of a slave); R14: a bad record takes what follows it along
    dispatcher: Callable[[MessageIndex, ReadLog, bool], Dispatcher]
    key_search: KeySearchRules  # other keys of one hash, and seconds for milliseconds
    time_search: TimeSearch  # code 29 uses the file system's times of files
    synced_index: Callable[[Sequence[IndexFile]], Sequence[IndexFile]]  # R60
    index_recovery: type[IndexRecovery]  # R60: what the index lacks stays unknown
    # after an unclean end, too, though a failed fsync may be the reason for it
    believes_page_cache: bool
    # A record that was durable and does not add up any more ends the log, with all that follows it, or does not.
    keeps_damaged: bool
    # the other side of R05: a file that a power cut left short ends the start
    wants_whole_files: bool


HARDENED_STORE = StorePolicy(
    sync=at_once,
    health=StoreHealth,
    cut_log=MappedFileQueue.cut,
    keeps_room_for_entries=True,
    dispatcher=make_dispatcher,
    key_search=EXACT_SEARCH,
    time_search=nearest_in_queue,
    synced_index=whole_index,
    index_recovery=IndexRecovery,
    believes_page_cache=False,
    keeps_damaged=True,
    wants_whole_files=False,
)
