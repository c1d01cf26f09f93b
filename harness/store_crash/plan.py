"""The drawn parameters of one cycle of the storage crash test, its counters, clock and log."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum, auto
from random import Random

ROOT = "/data/store"
LOG_FOLDERS = (f"{ROOT}/commitlog", "/data/b/commitlog", "/data/c/commitlog")
QUEUES: tuple[tuple[str, int], ...] = (("TopicA", 0), ("TopicA", 1), ("TopicB", 0))
PUTS_MIN = 20
LOG_FILES_MIN = 2
NAME_CHANGES = 6  # a cut at a change of a name strikes at one of so many
BODY_SIZE_MAX = 1_500
FILLING = bytes(Random("bodies").randrange(256) for _ in range(2 * BODY_SIZE_MAX))


class Death(Enum):
    """The ways in which a life ends."""

    CUT_IN_OPERATION = auto()
    POWER_CUT = auto()  # between two operations
    PROCESS_DEATH = auto()  # the page cache survives
    DEATH_IN_OPERATION = auto()  # process death inside a disk operation
    CLEAN_CLOSE = auto()  # followed by a power cut
    DISK_ERROR = auto()  # a write or sync fails, so the process ends itself


# A cut inside an operation finds most bugs, so 6 of 11 deaths are of that kind.
DEATHS = (*[Death.CUT_IN_OPERATION] * 5, *Death)


@dataclass(slots=True, kw_only=True)
class CycleCounts:
    """Counters of one or more cycles. A test in which no data was ever lost proves nothing."""

    cycles: int = 0
    puts: int = 0
    flushes: int = 0
    commits: int = 0  # of the transient store pool
    truncations: int = 0
    deletions: int = 0  # of old files
    power_cuts: int = 0
    cuts_in_recovery: int = 0
    process_deaths: int = 0
    clean_closes: int = 0
    disk_errors: int = 0
    refused_puts: int = 0
    too_large_puts: int = 0
    failed_starts: int = 0  # starts with a failed write or sync
    files_lost: int = 0  # files of queues, index and checkpoint, removed while the store was closed
    records_damaged: int = 0  # while the store was closed
    recoveries: int = 0
    puts_lost: int = 0  # dropped by a recovery, and never promised
    bytes_lost: int = 0
    sectors_torn: int = 0
    entries_lost: int = 0

    def add(self, other: CycleCounts) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclePlan:
    """The parameters of one cycle, all drawn from its seed."""

    sync_flush: bool
    log_file_size: int
    queue_file_size: int
    index_slots: int
    index_numbers: int
    failed_sync_keeps_cache: bool
    deletes: bool  # files count as old at once
    body_size: int | None  # None: drawn. Equal sizes put new records exactly over stale ones
    lives: int
    pool: bool  # puts stay in the process's memory until a commit
    log_folders: int  # number of folders with files of the log
    rocketmq_reads: bool  # use the dispatch, key search and time search of RocketMQ
    is_slave: bool

    @staticmethod
    def draw(random: Random) -> CyclePlan:
        body_size = random.choice((None, 20, 200, 600, BODY_SIZE_MAX))
        small = body_size is not None and body_size <= 200
        return CyclePlan(
            sync_flush=random.random() < 0.5,
            log_file_size=random.choice((640, 1024, 2048) if small else (4096, 6000, 8192)),
            queue_file_size=20 * random.choice((3, 7, 30, 300)),
            index_slots=random.choice((1, 5, 50)),
            index_numbers=random.choice((4, 12, 40, 1000)),
            failed_sync_keeps_cache=random.random() < 0.5,
            deletes=random.random() < 0.5,
            body_size=body_size,
            lives=random.choice((2, 2, 3)),
            pool=random.random() < 0.3,
            log_folders=random.choice((1, 1, 2, 3)),
            rocketmq_reads=random.random() < 0.2,
            is_slave=random.random() < 0.5,
        )


class CycleClock:
    """A clock that only the cycle advances."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.wall_offset_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self.wall_offset_ms + self.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns


class SilentLog:
    """Keeps the warnings of the store's log, and discards everything else."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def debug(self, event: str, /, **values: object) -> None: ...
    def info(self, event: str, /, **values: object) -> None: ...
    def warning(self, event: str, /, **values: object) -> None:
        self.warnings.append(event)

    def error(self, event: str, /, **values: object) -> None: ...
