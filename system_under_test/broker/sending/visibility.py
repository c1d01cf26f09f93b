"""Computes the log offset up to which consumers may read."""

from __future__ import annotations

from typing import Protocol

from staticfire.system_under_test.broker.config import BrokerRole


class Log(Protocol):
    """The interface of the store that visibility needs. Offsets are physical."""

    @property
    def readable_end(self) -> int: ...

    @property
    def flushed_offset(self) -> int: ...


class Replicas(Protocol):
    """The interface of the replication service that visibility needs."""

    @property
    def replicated_offset(self) -> int: ...

    def slave_available(self, end_offset: int) -> bool: ...


def safe_end(log: Log, replicas: Replicas, role: BrokerRole) -> int:
    """The end of what cannot be lost by one power cut or one lost disk.

    A consumer whose offset has passed a message that is then lost would skip the message that gets its queue offset.
    """
    flushed = log.flushed_offset
    if role is BrokerRole.SYNC_MASTER and replicas.slave_available(flushed):
        return min(flushed, replicas.replicated_offset)
    return flushed


def written_end(log: Log, _replicas: Replicas, _role: BrokerRole) -> int:
    """The end of what can be read (RocketMQ, ReputMessageService: up to CommitLog.getMaxOffset; issue 8239)."""
    return log.readable_end
