"""Makes and connects the parts of one store; `message_store` describes how they work together."""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.system_under_test.runtime.env import Clock, Log, Storage
from staticfire.system_under_test.store.appending.appending import Appender
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.appending.dispatcher import Dispatcher
from staticfire.system_under_test.store.appending.raw_append import RawAppender
from staticfire.system_under_test.store.assembly.lock_and_abort_files import LockAndAbortFiles
from staticfire.system_under_test.store.assembly.store_policy import StorePolicy
from staticfire.system_under_test.store.checkpoint import Checkpoint
from staticfire.system_under_test.store.disk_watch import DiskWatch
from staticfire.system_under_test.store.health import StoreHealth
from staticfire.system_under_test.store.index.index_layout import IndexLayout
from staticfire.system_under_test.store.index.message_index import MessageIndex
from staticfire.system_under_test.store.index_keys import KeyHasher
from staticfire.system_under_test.store.log.commit_log import CommitLog
from staticfire.system_under_test.store.log.record_reader import RecordReader
from staticfire.system_under_test.store.log_folders import LogFolders, default_log_folder
from staticfire.system_under_test.store.queues.queue_table import Extensions, QueueTable
from staticfire.system_under_test.store.reading.reading import QueueReader
from staticfire.system_under_test.store.record_scan import RecordScanner
from staticfire.system_under_test.store.retention.retention import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParts:
    """The parts of one store."""

    storage: Storage
    log: Log
    config: StoreConfig
    policy: StorePolicy
    running: LockAndAbortFiles
    log_folders: LogFolders
    commit_log: CommitLog
    queues: QueueTable
    extensions: Extensions
    checkpoint: Checkpoint
    index: MessageIndex
    hasher: KeyHasher
    scanner: RecordScanner
    records: RecordReader
    lost: set[int]  # offsets of damaged records of which no replica has a sound copy
    dispatcher: Dispatcher
    appender: Appender
    raw_appender: RawAppender
    reader: QueueReader
    disks: DiskWatch
    health: StoreHealth
    retention: Retention


def make_parts(
    storage: Storage, clock: Clock, log: Log, config: StoreConfig, policy: StorePolicy
) -> StoreParts:
    """Make the parts of a store without opening it; touches no file."""
    root = config.root
    log_folders = LogFolders(
        config.log_folders or (default_log_folder(root),),
        read_only=config.read_only_log_folders,
        is_full=lambda folder: disks.used_ratio(folder) > config.retention.force_ratio,
    )
    extensions = Extensions(
        storage,
        f"{root}/consumequeue_ext",
        config.extension_file_size,
        is_written=config.extends_queues,
    )
    queues = QueueTable(
        storage,
        f"{root}/consumequeue",
        config.consume_queue_file_size,
        extensions=extensions,
        tags_code_at=lambda offset: records.tags_code(offset),
    )
    disks = DiskWatch(
        storage,
        clock,
        log,
        log_folders=log_folders.writable,
        queue_folder=queues.folder,
        warning_ratio=config.retention.warning_ratio,
    )
    commit_log = CommitLog(
        storage,
        log_folders,
        config.commit_log_file_size,
        cut_files=policy.cut_log,
        pool=config.pool,
    )
    layout = IndexLayout(slots=config.index_slots, numbers=config.index_numbers)
    index = MessageIndex(storage, clock, f"{root}/index", layout)
    hasher = KeyHasher(is_on=config.index_enabled)
    scanner = RecordScanner(config.commit_log_file_size, config.delay_levels_ms)
    lost: set[int] = set()
    records = RecordReader(commit_log, scanner, lost)
    dispatcher = policy.dispatcher(index, commit_log.read, config.is_slave)
    appender = Appender(
        config,
        clock,
        commit_log,
        queues,
        dispatcher,
        index,
        hasher,
        keeps_room_for_entries=policy.keeps_room_for_entries,
    )
    retention = Retention(
        storage,
        clock,
        log,
        config.retention,
        commit_log=commit_log,
        queues=queues,
        disks=disks,
        durable_offset=lambda: min(commit_log.flushed_offset, dispatcher.durable_offset),
    )
    retention.on_min_offset.append(index.delete_before)
    return StoreParts(
        storage=storage,
        log=log,
        config=config,
        policy=policy,
        running=LockAndAbortFiles(storage, root),
        log_folders=log_folders,
        commit_log=commit_log,
        queues=queues,
        extensions=extensions,
        checkpoint=Checkpoint(storage, f"{root}/checkpoint"),
        index=index,
        hasher=hasher,
        scanner=scanner,
        records=records,
        lost=lost,
        dispatcher=dispatcher,
        appender=appender,
        raw_appender=RawAppender(
            commit_log=commit_log,
            queues=queues,
            dispatcher=dispatcher,
            appender=appender,
            scanner=scanner,
            hasher=hasher,
        ),
        reader=QueueReader(commit_log, config.pull_limits, lost),
        disks=disks,
        health=policy.health(disks, log),
        retention=retention,
    )
