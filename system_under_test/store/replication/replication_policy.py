"""Decisions in which replication of the hardened system and of 4.9.8 differ. The values are in `policies`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from staticfire.system_under_test.store.replication.replication import ReplicatedLog


class FollowingReceiver(Protocol):
    """The slave's side of the HA protocol; one object serves all connections, one after the other."""

    def connected(self) -> bytes: ...
    def receive(self, data: bytes) -> None: ...
    def report(self) -> bytes: ...
    def repeat_report(self) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """Decisions of replication, on both sides."""

    # (log, size of its files in bytes) -> where an empty replica starts (RocketMQ #3661, bug R12)
    start_of_new_replica: Callable[[ReplicatedLog, int], int]
    # (log, sync_flush) -> the slave's side (RocketMQ #3388, bug R37)
    make_receiver: Callable[[ReplicatedLog, bool], FollowingReceiver]
    # the first report acknowledges, even beyond our end (RocketMQ #1155, bug R02)
    believes_requests: bool
    # with sync flush: a slave may get bytes that its master loses in a power cut
    sends_unflushed: bool
    counts_from_accept: bool  # sends wait even for a slave that has reported nothing yet
    # a slave reports its position at once, not after one heartbeat interval of 5 s
    reports_at_once: bool
    waits_for_lost_slaves: bool  # sends wait for the time-out although the last slave is gone
    # a master fetches back what only slaves have; slaves without a master fetch from each other
    fetches_missing: bool


def from_first_file(log: ReplicatedLog, _file_size: int) -> int:
    """A new replica gets the whole log."""
    return log.min_offset


def from_last_file(log: ReplicatedLog, file_size: int) -> int:
    """A new replica gets the last file only (RocketMQ, HAConnection.WriteSocketService)."""
    return max(log.min_offset, log.end_offset - log.end_offset % file_size)
