"""Size and speed of a simulated disk, and the counters that show which faults bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskOptions:
    """Capacity and cost model. The defaults are those of a modest NVMe drive."""

    total_bytes: int = 64 << 30
    call_ns: int = 1_500  # a system call that only touches the page cache
    cached_byte_ns: float = 0.1  # copy to or from the page cache: 10 GB/s
    fsync_ns: int = 150_000  # flush of the drive's own cache
    entry_sync_ns: int = 200_000  # commit of the file system's journal
    durable_byte_ns: float = 0.7  # 1.4 GB/s
    write_back_every_ns: int = 5_000_000_000  # Linux: vm.dirty_writeback_centisecs
    write_back_after_ns: int = 30_000_000_000  # Linux: vm.dirty_expire_centisecs
    failed_sync_keeps_cache: bool = (
        False  # as ext4 does: reads return the new content until the power fails
    )


@dataclass(slots=True, kw_only=True)
class DiskCounters:
    """Counts of events on the disk so far. A fault whose counter did not move did not bite."""

    operations: int = 0  # calls that change something; cut_at counts in these
    bytes_written: int = 0
    syncs: int = 0
    power_cuts: int = 0
    bytes_lost: int = 0  # unsynced bytes that power cuts and failed fsyncs took
    sectors_torn: int = 0
    entries_lost: int = 0
    write_errors: int = 0  # EIO
    sync_errors: int = 0  # EIO of fsync and fdatasync
    no_space_errors: int = 0  # ENOSPC
    full_looks: int = 0  # queries of the free space while fill() left less than a tenth
    dead_disk_errors: int = 0  # EIO after destroy()
    bits_flipped: int = 0
    slow_ns: int = 0  # time that slow() added


class Dropped(NamedTuple):
    """Bytes of a file that a process had written and a power cut took: from `start` to the one before `end`."""

    path: str
    start: int
    end: int


class Incident(NamedTuple):
    """An effect of a fault on a disk, with its time: "power cut", "write error", "sync error" or "no space"."""

    at_ns: int
    what: str
    dropped: tuple[Dropped, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCutReport:
    """The losses of one power cut."""

    bytes_lost: int  # of unsynced writes
    sectors_torn: int  # that hold an older version than the last
    entries_lost: int  # of directories
    dropped: tuple[Dropped, ...] = ()
