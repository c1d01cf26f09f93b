"""Opens a store, with recovery, and closes it, so that the next start needs none."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.store.assembly.flush_planner import Flushing
from staticfire.system_under_test.store.assembly.store_parts import StoreParts
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.folders import make_durable_folder, sync_parents
from staticfire.system_under_test.store.recovery.recovery import Recovery, RecoveryReport


def open_store(parts: StoreParts, flushing: Flushing) -> RecoveryReport:
    """Lock the folder, load and recover; after an unclean end, flush what recovery has found.

    Raises:
        StoreLocked: another process has the store open.
        StoreError: the files are not those of such a store, or a file operation failed.
    """
    try:
        report = _open(parts)
        if parts.policy.keeps_damaged and not report.clean:
            # Queue entries and checkpoint prove what was durable. The next recovery needs that if a record is damaged.
            flushing.flush_queues(closing=False)
            parts.checkpoint.sync()
    except OSError as error:
        _close_files(parts)
        raise StoreError(f"store {parts.config.root} cannot be opened: {error}") from error
    except StoreError:
        _close_files(parts)
        raise
    return report


def _open(parts: StoreParts) -> RecoveryReport:
    storage, running = parts.storage, parts.running
    make_durable_folder(storage, parts.config.root)
    running.lock()
    clean = not running.is_set
    for folder in parts.log_folders.writable:
        make_durable_folder(storage, folder)
    if parts.config.log_folders:
        running.lock_log_folders(parts.log_folders.writable)
    # Write-back errors that the dead process never saw: what failed is only in the page cache, which is dropped below.
    for folder in (parts.config.root, *parts.config.log_folders):
        storage.take_errors(folder)
    for folder in (parts.queues.folder, parts.index.folder):
        storage.makedirs(folder)
    whole = parts.policy.wants_whole_files
    parts.commit_log.files.load(clean=clean, whole=whole)
    parts.commit_log.files.sync_names()
    if not parts.commit_log.files.files:
        sync_parents(storage, (parts.config.root, *parts.log_folders.writable))
    parts.queues.load(clean=clean, whole=whole)
    if parts.config.index_enabled:
        parts.index.load()
    forgets = not (clean or parts.policy.believes_page_cache)
    if forgets:
        _forget_cache(parts)
    parts.checkpoint.open(forgets=forgets)
    running.set()  # before anything changes: the next start must do a full recovery
    recovery = Recovery(
        storage=storage,
        commit_log=parts.commit_log,
        queues=parts.queues,
        checkpoint=parts.checkpoint,
        scanner=parts.scanner,
        log=parts.log,
        index=parts.index,
        hasher=parts.hasher,
        index_recovery=parts.policy.index_recovery,
        keeps_damaged=parts.policy.keeps_damaged,
    )
    report = recovery.run(clean=clean)
    parts.queues.load_extensions()
    parts.appender.last_timestamp_ms = recovery.last_timestamp_ms
    parts.dispatcher.begin_at(report.end_offset, recovery.last_timestamp_ms, parts.queues)
    return report


def _forget_cache(parts: StoreParts) -> None:
    """Make recovery read from the disk: the dead process may have seen an fsync fail.

    What it wrote is then in the page cache but not on the disk, and ext4 may not write such a page even when it is
    written again.
    """
    parts.commit_log.files.forget_cache()
    parts.queues.forget_cache()
    parts.index.forget_cache()


def close_store(parts: StoreParts, flushing: Flushing, dispatch: Callable[[], object]) -> None:
    """Make everything durable and, by `dispatch`, visible; then remove `abort` and unlock.

    After a failure `abort` stays. Raises OSError, but still closes the files.
    """
    try:
        if parts.health.failure is None:
            _flush_everything(parts, flushing, dispatch)
            # A normal start would not find a record without its queue entry.
            if parts.dispatcher.dispatched_offset == parts.commit_log.end_offset:
                parts.running.remove()
    finally:
        _close_files(parts)


def _flush_everything(
    parts: StoreParts, flushing: Flushing, dispatch: Callable[[], object]
) -> None:
    log_files = parts.commit_log.files
    parts.health.attempt(parts.commit_log.commit)
    flushing.flush()
    log_files.sync_new_files()  # includes files made for a message that was then refused
    dispatch()
    parts.index.drop_spares()
    flushing.flush_queues(closing=True)
    for queue in parts.queues:
        for files in (queue.files, *([] if queue.extension is None else [queue.extension.files])):
            files.sync_new_files()
            files.sync_refused()
    log_files.sync_refused()
    parts.checkpoint.sync()


def _close_files(parts: StoreParts) -> None:
    parts.commit_log.files.close()
    parts.queues.close()
    parts.index.close()
    parts.checkpoint.close()
    parts.running.unlock()
