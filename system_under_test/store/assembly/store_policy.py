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
    """Treat a failed fsync as successful (RocketMQ #2706, bug R01: MappedFile.flush)."""
    with suppress(OSError):
        run()


def make_dispatcher(index: MessageIndex, _read: ReadLog, _is_slave: bool) -> Dispatcher:
    """A dispatcher that keeps appended records in memory, so that it cannot misread the log."""
    return Dispatcher(index)


def make_rereading_dispatcher(index: MessageIndex, read: ReadLog, is_slave: bool) -> Dispatcher:
    """See RereadingDispatcher."""
    return RereadingDispatcher(index, read, is_slave=is_slave)


def whole_index(files: Sequence[IndexFile]) -> Sequence[IndexFile]:
    """Sync every changed index file when the queues are flushed and when the store is closed."""
    return files


def only_full_files(files: Sequence[IndexFile]) -> Sequence[IndexFile]:
    """Leave the growing index file to the kernel's write-back (RocketMQ, IndexService; issue 4463)."""
    return [file for file in files if file.is_full]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePolicy:
    """Decisions of a store."""

    sync: Sync  # R01
    health: type[StoreHealth]  # RocketMQ ignores a failed write
    # R04 (RocketMQ #10666): without a wipe, a later recovery runs from the new tail into the old one
    cut_log: Callable[[MappedFileQueue, int], None]
    # Reserves space for queue entries before a send is acknowledged; on a full disk dispatch waits for space. If False,
    # the broker goes on acknowledging what no consumer will see (RocketMQ: the error ends ReputMessageService).
    keeps_room_for_entries: bool
    # (index, read_log, is_slave) -> dispatcher; R14: it skips a bad record and what follows it
    dispatcher: Callable[[MessageIndex, ReadLog, bool], Dispatcher]
    # RocketMQ's finds other keys with the same hash, and compares whole seconds
    key_search: KeySearchRules
    time_search: TimeSearch  # RocketMQ's search for code 29 trusts modification times of files
    synced_index: Callable[[Sequence[IndexFile]], Sequence[IndexFile]]  # R60
    index_recovery: type[IndexRecovery]  # R60: recovery does not rebuild what the index lacks
    # recovery trusts the page cache even after an unclean end, which a failed fsync may have caused
    believes_page_cache: bool
    # Recovery keeps a damaged record that was durable once. If False, it ends the log there, with all that follows.
    keeps_damaged: bool
    # the reverse of R05: a file that a power cut left short makes the start fail
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
