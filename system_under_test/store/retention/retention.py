"""Deletes old files, and further ones when the disk fills up (RocketMQ, CleanCommitLogService).

It removes files oldest first, and makes each removal durable before the next one begins: after a power cut the log and
every queue have no gap. At worst the last file removed is there again, and is removed again. It deletes log files only
once the queue entries of their records are durable: otherwise the end of a queue could be forgotten with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from staticfire.system_under_test.runtime.env import Clock, Log, Storage
from staticfire.system_under_test.store.delay_levels import SCHEDULE_TOPIC
from staticfire.system_under_test.store.disk_watch import DiskWatch
from staticfire.system_under_test.store.folders import parent_folder
from staticfire.system_under_test.store.log.commit_log import CommitLog
from staticfire.system_under_test.store.mapped_file import MappedFile
from staticfire.system_under_test.store.queues.consume_queue import ConsumeQueue
from staticfire.system_under_test.store.queues.queue_table import QueueTable
from staticfire.system_under_test.store.retention_config import MS_PER_HOUR, RetentionConfig

FILES_PER_CYCLE_MAX = 10  # RocketMQ, MappedFileQueue: DELETE_FILES_BATCH_MAX
MANUAL_ROUNDS = 20  # RocketMQ, CleanCommitLogService: MAX_MANUAL_DELETE_FILE_TIMES

# (topic, queue id) -> the lowest offset that any group has committed there, None if no group has one.
LeastCommitted = Callable[[str, int], int | None]


ForceRule = Callable[[Sequence[ConsumeQueue], int, int, LeastCommitted], bool]


def only_consumed(
    queues: Sequence[ConsumeQueue], start: int, end: int, least_committed: LeastCommitted
) -> bool:
    """Whether every group has consumed the log in [start, end); queues that no group reads count as unconsumed."""
    for queue in queues:
        first, behind = queue.first_at_or_beyond(start), queue.first_at_or_beyond(end)
        if first < behind and (least_committed(queue.topic, queue.queue_id) or 0) < behind:
            return False
    return True


def force_regardless_of_consumption(
    _queues: Sequence[ConsumeQueue], _start: int, _end: int, _least: LeastCommitted
) -> bool:
    """Always True: RocketMQ deletes fresh, unconsumed messages when a disk is 85 % full."""
    return True


class Removal:
    """Removes one file durably; `run` does only file operations and may run in any thread."""

    __slots__ = ("_folder", "_storage", "error", "path")

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._folder = parent_folder(path)
        self.path = path
        self.error: OSError | None = None

    def run(self) -> None:
        """If the file cannot be removed, `error` says why; it can be tried again. Raises OSError if the sync fails."""
        self.error = None
        try:
            if self._storage.exists(self.path):
                self._storage.unlink(self.path)
        except OSError as error:
            self.error = error
        else:
            self._storage.fsync_dir(self._folder)


class Retention:
    """Decides which files to remove. The caller runs each removal that `clean` yields before it takes the next one."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        log: Log,
        config: RetentionConfig,
        *,
        commit_log: CommitLog,
        queues: QueueTable,
        disks: DiskWatch,
        durable_offset: Callable[[], int],
    ) -> None:
        """`durable_offset`: the offset below which records and their queue entries are durable."""
        self._storage = storage
        self._clock = clock
        self._log = log
        self._config = config
        self._commit_log = commit_log
        self.queues = queues
        self._disks = disks
        self._durable_offset = durable_offset
        self._is_immediate = False
        self._hanging: Removal | None = None
        self._hanging_since_ms = 0
        self.may_force: ForceRule = only_consumed
        self.least_committed: LeastCommitted = lambda _topic, _queue_id: None
        # called when the log's first offset moves
        self.on_min_offset: list[Callable[[int], object]] = []
        self.manual_rounds = 0

    def clean(self) -> Iterator[Removal]:
        """One cycle: removes log files, then queue files whose entries only point to deleted records."""
        if not self._is_retried():
            return
        if self._hanging is not None:
            yield from self._remove(self._hanging)
        # A list evaluates all conditions: `_is_space_short` must set or clear the flag of the full disk each time.
        is_due = [self._is_hour(), self._is_space_short(), self.manual_rounds > 0]
        if is_due[2]:
            self.manual_rounds -= 1
        if any(is_due):
            for _ in range(FILES_PER_CYCLE_MAX):
                if self._hanging is not None or not self._may_delete_first():
                    break
                dropped = self._commit_log.drop_first_file()
                yield from self._remove(Removal(self._storage, dropped.path))
        yield from self.clean_queues()

    def delete_manually(self) -> None:
        """Let the next MANUAL_ROUNDS cycles delete expired files at any hour (code 329)."""
        self.manual_rounds = MANUAL_ROUNDS

    def clean_queues(self) -> Iterator[Removal]:
        """Drop queue files without a readable entry that leads to a record (RocketMQ, CleanConsumeQueueService).

        The last file of a queue stays, unlike in RocketMQ with code 306: a queue that began again at 0 would use its
        offsets twice.
        """
        if self._hanging is not None:
            return
        min_offset = self._commit_log.min_offset
        for queue in list(self.queues):
            while self._hanging is None and queue.is_first_file_below(min_offset):
                dropped = queue.drop_first_file()
                yield from self._remove(Removal(self._storage, dropped.path))
            queue.correct_min(min_offset)
            while self._hanging is None and (unused := queue.drop_extension_file()) is not None:
                yield from self._remove(Removal(self._storage, unused.path))
        try:
            for report in self.on_min_offset:
                report(min_offset)
        except OSError as error:  # harmless: the next cycle tries again
            self._log.warning("index file cannot be deleted", error=str(error))

    def clean_unused(self, is_topic: Callable[[str], bool]) -> Iterator[Removal]:
        """Hide the messages of topics that are not configured, at once; yield removals of obsolete queue files.

        If such a topic is created again, messages put later are not hidden. The last file of a queue stays (see
        `clean_queues`). A later cycle removes the files that this one does not.
        """
        for queue in self.queues:
            if not is_topic(queue.topic) and queue.topic != SCHEDULE_TOPIC:
                queue.hide()
        return self.clean_queues()

    def _remove(self, removal: Removal) -> Iterator[Removal]:
        yield removal
        if removal.error is None:
            self._hanging = None
            self._log.info("store file deleted", path=removal.path)
            for queue in self.queues:
                queue.correct_min(self._commit_log.min_offset)
            return
        self._hanging = removal
        self._hanging_since_ms = self._now_ms()
        self._log.warning(
            "store file cannot be deleted", path=removal.path, error=str(removal.error)
        )

    def _is_retried(self) -> bool:
        elapsed_ms = self._now_ms() - self._hanging_since_ms
        return self._hanging is None or elapsed_ms >= self._config.retry_hanging_ms

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000

    def _is_hour(self) -> bool:
        local_ms = self._clock.wall_ms() + self._config.utc_offset_ms
        return local_ms // MS_PER_HOUR % 24 in self._config.delete_hours

    def _is_space_short(self) -> bool:
        """Set or clear the flag of the full disk; return whether a disk is fuller than it should be."""
        self._is_immediate = False
        return self._is_above(self._disks.log_ratio) or self._is_above(self._disks.queue_ratio)

    def _is_above(self, ratio: float) -> bool:
        config = self._config
        if ratio > config.warning_ratio:
            self._disks.mark_full(True)
            self._is_immediate = True
        elif ratio > config.force_ratio:
            self._is_immediate = True
        else:
            self._disks.mark_full(False)
        return ratio < 0 or ratio > config.max_used_ratio

    def _may_delete_first(self) -> bool:
        files = self._commit_log.files.files
        if len(files) < 2 or files[1].base >= self._durable_offset():
            return False
        return self._is_expired(files[0]) or (
            self._is_immediate
            and self._config.is_forcible
            and self.may_force(
                list(self.queues), files[0].base, files[1].base, self.least_committed
            )
        )

    def _is_expired(self, mapped_file: MappedFile) -> bool:
        try:
            modified_ms = self._storage.modified_ms(mapped_file.path)
        except FileNotFoundError:  # another program has removed it
            return True
        return self._clock.wall_ms() >= modified_ms + self._config.reserved_ms
