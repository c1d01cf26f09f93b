"""Watches how full the disks of a store are, and stops writes to a full one (RocketMQ, CleanCommitLogService).

The levels are RocketMQ's. The flag is set above the warning level and cleared at or below it by `check`, which runs
every 10 s; the cleaner, which also runs every 10 s, clears it only at or below the level of forced cleaning.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.system_under_test.runtime.env import Clock, Log, Storage

UNREADABLE = -1.0


class DiskWatch:
    """Watches the folders of the commit log and of the consume queues."""

    __slots__ = (
        "_clock",
        "_log",
        "_log_folders",
        "_next_look_ns",
        "_queue_folder",
        "_storage",
        "_warning_ratio",
        "check_interval_s",
        "is_full",
    )

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        log: Log,
        *,
        log_folders: Sequence[str],
        queue_folder: str,
        warning_ratio: float,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._log_folders = log_folders
        self._queue_folder = queue_folder
        self._warning_ratio = warning_ratio
        self.is_full = False  # writes are refused
        # least time between two checks by writers that meet a full disk
        self.check_interval_s = 1.0
        self._next_look_ns = 0

    def used_ratio(self, folder: str) -> float:
        """The used share of the file system of `folder`, rounded up to a percent (0.01); -1 if it cannot be read.

        Like `df`, it leaves out reserved blocks (RocketMQ, UtilAll.getDiskPartitionSpaceUsedPercent).
        """
        try:
            usage = self._storage.disk_usage(folder)
        except OSError:
            return UNREADABLE
        usable = usage.total_bytes - usage.reserved_bytes
        if usable <= 0:
            return UNREADABLE
        used = usable - usage.free_bytes
        return -(-used * 100 // usable) / 100

    @property
    def log_ratios(self) -> dict[str, float]:
        """The used share of the file system of each folder of the log."""
        return {folder: self.used_ratio(folder) for folder in self._log_folders}

    @property
    def log_ratio(self) -> float:
        """The lowest of `log_ratios`: new files can go to that folder."""
        return min(self.log_ratios.values())

    @property
    def queue_ratio(self) -> float:
        return self.used_ratio(self._queue_folder)

    def check(self) -> None:
        """Set or clear the flag by the log's disk (RocketMQ, DefaultMessageStore.diskCheckScheduledExecutorService)."""
        self.mark_full(self.log_ratio > self._warning_ratio)

    def still_full(self) -> bool:
        """Whether the disk is still full, for a writer that met the flag; checks again after `check_interval_s`."""
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._next_look_ns:
            self._next_look_ns = now_ns + int(self.check_interval_s * 1e9)
            self.check()
        return self.is_full

    def mark_full(self, is_full: bool) -> None:
        if is_full != self.is_full:
            self._next_look_ns = self._clock.monotonic_ns() + int(self.check_interval_s * 1e9)
            self.is_full = is_full
            report = self._log.warning if is_full else self._log.info
            report("disk full" if is_full else "disk has space again", usage=self.text())

    def text(self) -> str:
        """The used shares as RocketMQ prints them (SendMessageProcessor.diskUtil); index and queues share a disk."""
        queue = self.queue_ratio
        return f"CL: {self.log_ratio:5.2f} CQ: {queue:5.2f} INDEX: {queue:5.2f}"

    def refusal(self) -> str:
        """The remark of code 14 (RocketMQ, SendMessageProcessor.handlePutMessageResult)."""
        return (
            "service not available now. It may be caused by one of the following reasons: the broker's disk is full"
            f" [{self.text()}], messages are put to the slave, message store has been shut down, etc."
        )
