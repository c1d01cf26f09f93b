"""A slice of the storage crash test, and proof that it can fail.

The whole of it: `staticfire crash-store --cycles 25000 --jobs 2` (a cycle is four crashes).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from staticfire.harness.cli import status_of
from staticfire.harness.store_crash.cycle import Cycle
from staticfire.harness.store_crash.cycles import (
    CrashSummary,
    CycleFailure,
    run_cycles,
    store_policy,
)
from staticfire.harness.store_crash.plan import CycleCounts
from staticfire.system_under_test.protocol import message
from staticfire.system_under_test.runtime.env import DiskUsage, File, Storage
from staticfire.system_under_test.store import record_scan
from staticfire.system_under_test.store.appending import appending
from staticfire.system_under_test.store.assembly.lock_and_abort_files import LockAndAbortFiles
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.checkpoint import Checkpoint
from staticfire.system_under_test.store.index.index_file import IndexFile
from staticfire.system_under_test.store.index.index_recovery import IndexRecovery
from staticfire.system_under_test.store.index.key_search import KeyFound, KeyQuery
from staticfire.system_under_test.store.index_keys import KeyHasher
from staticfire.system_under_test.store.log.commit_log import CommitLog
from staticfire.system_under_test.store.queues.consume_queue import ConsumeQueue
from staticfire.system_under_test.store.reading import reading
from staticfire.system_under_test.store.reading.queue_view import QueueView
from staticfire.system_under_test.store.record_scan import ScannedRecord
from staticfire.system_under_test.store.recovery.damaged_records import DamagedRecords

CYCLES = 100


def test_every_promise_is_kept() -> None:
    summary = run_cycles(0, 200)
    assert summary.failures == []
    counts = summary.counts
    assert counts.cycles == 200
    # A test in which nothing was ever lost has shown nothing.
    assert counts.puts >= 200 * 20
    assert min(counts.flushes, counts.power_cuts, counts.process_deaths, counts.clean_closes) > 50
    assert (
        min(counts.deletions, counts.cuts_in_recovery, counts.disk_errors, counts.refused_puts) > 10
    )
    assert min(counts.too_large_puts, counts.failed_starts) > 10
    assert min(counts.files_lost, counts.records_damaged) > 10
    assert min(counts.puts_lost, counts.bytes_lost, counts.sectors_torn, counts.entries_lost) > 50


def test_a_seed_repeats() -> None:
    assert run_cycles(3, 5).counts == run_cycles(3, 5).counts


class LazyFile:
    """A file whose syncs do nothing."""

    def __init__(self, file: File) -> None:
        self.pread = file.pread
        self.pwrite = file.pwrite
        self.allocate = file.allocate
        self.truncate = file.truncate
        self.size = file.size
        self.content_ranges = file.content_ranges
        self.forget_cache = file.forget_cache
        self.try_lock = file.try_lock
        self.close = file.close

    def fsync(self) -> None:
        """Forget it."""

    def fdatasync(self) -> None:
        """Forget it."""


class LazyStorage:
    """Passes everything on except the syncs of `forgets`."""

    def __init__(self, storage: Storage, *, forgets: str) -> None:
        self._storage = storage
        self._forgets = forgets
        self.exists = storage.exists
        self.listdir = storage.listdir
        self.makedirs = storage.makedirs
        self.rename = storage.rename
        self.unlink = storage.unlink
        self.rmdir = storage.rmdir
        self.modified_ms = storage.modified_ms
        self.take_errors = storage.take_errors

    def open(self, path: str, *, create: bool = False) -> File:
        file = self._storage.open(path, create=create)
        return LazyFile(file) if self._forgets == "files" else file

    def fsync_dir(self, path: str) -> None:
        if self._forgets != "folders":
            self._storage.fsync_dir(path)

    def disk_usage(self, path: str) -> DiskUsage:
        return self._storage.disk_usage(path)


@pytest.mark.parametrize("forgets", ["files", "folders"])
def test_a_forgotten_sync_is_found(forgets: str) -> None:
    summary = run_cycles(0, 20, wrap=lambda storage: LazyStorage(storage, forgets=forgets))
    assert len(summary.failures) >= 10


def test_index_files_without_times_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """RocketMQ passes over a file whose times are not those that a query asks for."""
    monkeypatch.setattr(IndexFile, "_set_times", lambda *_: None)

    failures = run_cycles(230, 20).failures  # one of 300 cycles makes such a file

    assert any(" to 0; its messages are of " in failure.text for failure in failures), failures


@pytest.mark.parametrize("step_ms", [-1, 1])
def test_an_end_of_the_index_at_another_time_is_found(
    step_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = MessageStore.find_by_key

    def shifted(store: MessageStore, query: KeyQuery) -> KeyFound:
        found = find(store, query)
        return found._replace(last_update_ms=found.last_update_ms + step_ms)

    monkeypatch.setattr(MessageStore, "find_by_key", shifted)

    failures = run_cycles(0, 5).failures

    assert any("the index reaches up to a message of" in failure.text for failure in failures)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["store.cut_log"], "bytes of an older record|is no end of a record|has no message"),
        (["store.health"], "a put was accepted after a failed write|the store goes on"),
        (["store.sync"], "the store goes on after a failed write or sync"),
        (["store.wants_whole_files"], "every file there must have"),
        (["store.synced_index", "store.index_recovery"], "leads to"),
    ],
)
def test_what_rocketmq_gets_wrong_is_found(names: list[str], found: str) -> None:
    failures = run_cycles(0, 60, policy=store_policy(names)).failures
    assert any(re.search(found, failure.text) for failure in failures), failures


def test_the_command_prints_counts_and_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["crash-store", "--cycles", "2", "--seed", "5"]) == 0
    output = capsys.readouterr().out
    assert "cycles=2" in output
    assert "crashes per CPU second" not in output.split("\n")[0]
    assert output.endswith("0 of 2 cycles failed\n")


def test_a_failure_prints_the_command_that_repeats_it() -> None:
    summary = CrashSummary()
    summary.counts.cycles = 1
    summary.failures.append(CycleFailure(seed=77, text="PromiseBroken: lost"))
    text = "\n".join(summary.lines("staticfire crash-store"))
    assert "FAILED seed 77: PromiseBroken: lost" in text
    assert "staticfire crash-store --cycles 1 --seed 77" in text


def test_an_error_of_the_store_is_one_line_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: Cycle) -> CycleCounts:
        raise ValueError("no \x1b[2J\noffset")

    monkeypatch.setattr(Cycle, "run", fail)
    lines = list(run_cycles(7, 1).lines("staticfire crash-store"))
    assert lines[2].startswith(
        "FAILED seed 7: ValueError: no \\x1b[2J offset, at tests/simulation/test_store_crash.py:"
    )
    assert lines[3:] == [
        "  repeat with: staticfire crash-store --cycles 1 --seed 7",
        "1 of 1 cycles failed",
        "shrink it with: staticfire crash-store --cycles 1 --seed 7 --shrink cycle.json",
    ]


@pytest.mark.parametrize(
    "arguments", [["--cycles", "0"], ["--jobs", "x"], ["--speed", "1"], ["--defect", "no"]]
)
def test_bad_arguments_exit_254(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["crash-store", *arguments]) == 254
    assert len(capsys.readouterr().err.splitlines()) == 1


# --- the checks of a recovered store ----------------------------------------------------------------------------------

Wrong = Callable[[pytest.MonkeyPatch], None]


def lost_key(patch: pytest.MonkeyPatch) -> None:
    """The first word of each message has no entry in the index."""
    hashes = KeyHasher.hashes
    patch.setattr(KeyHasher, "hashes", lambda *given: hashes(*given)[:1])


def repeated_keys(patch: pytest.MonkeyPatch) -> None:
    """A start indexes the last message again if the walk begins again."""
    add = IndexRecovery.add

    def add_last_again(recovery: IndexRecovery, record: ScannedRecord) -> None:
        add(recovery, record)
        recovery._next_offset = min(recovery._next_offset, record.physical_offset)

    patch.setattr(IndexRecovery, "add", add_last_again)


def late_checkpoint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Checkpoint, "lower_to", lambda *_: None)


def wide_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(appending, "BLANK_HEADER_SIZE", 0)


def open_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockAndAbortFiles, "unlock", lambda _: None)


def wrong_time(patch: pytest.MonkeyPatch) -> None:
    search = QueueView.search_by_time

    def search_later(view: QueueView, topic: str, queue_id: int, timestamp_ms: int) -> int:
        return search(view, topic, queue_id, timestamp_ms + 60_000)

    patch.setattr(QueueView, "search_by_time", search_later)


def any_look_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitLog, "knows_starts_at", lambda *_: True)


def unchecked_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "is_sound", lambda *_: True)


def blocking_damage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MessageStore, "give_up", lambda *_: None)


def useless_copy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MessageStore, "mend_record", lambda *_: True)


def forgetful_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DamagedRecords, "_with_known_fields", lambda *_: None)


def false_alarm(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IndexRecovery, "_is_of_this_log", lambda _: False)


def lost_image_of_v6(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record_scan, "_body_of", lambda *_: None)


def foreign_host(patch: pytest.MonkeyPatch) -> None:
    front = message._front
    patch.setattr(message, "_front", lambda _born, store: front(("1.2.3.4", 1), store))


def greedy_retention(patch: pytest.MonkeyPatch) -> None:
    """The first file of a queue goes although its last entry is that of the first record that stays."""
    is_below = ConsumeQueue.is_first_file_below
    patch.setattr(
        ConsumeQueue, "is_first_file_below", lambda queue, offset: is_below(queue, offset + 1)
    )


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lost_key, "leads to 0 messages, not the"),
        (repeated_keys, "the index has .* entries, and not the"),
        (late_checkpoint, "the last record that must survive is of"),
        (wide_file, "bytes was accepted; files have"),
        (open_files, "a start that failed keeps .* open"),
        (wrong_time, "ms begins at"),
        (any_look_up, "passes for a record"),
        (unchecked_records, "gives a damaged record"),
        (blocking_damage, "was given up, and"),
        (useless_copy, "answers GetStatus.RECORD_DAMAGED"),
        (forgetful_recovery, "does not agree with the log"),
        (false_alarm, "a start warns"),
        (lost_image_of_v6, "answers GetStatus.RECORD_DAMAGED"),
        (greedy_retention, "was not deleted"),
        (foreign_host, "a record has the hosts"),
    ],
)
def test_a_wrong_store_is_found(wrong: Wrong, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch)
    failures = run_cycles(0, CYCLES).failures
    assert any(re.search(text, failure.text) for failure in failures), failures[:3]
