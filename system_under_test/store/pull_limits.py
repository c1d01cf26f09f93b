"""Limits the size of one pull, from memory and from disk (RocketMQ, DefaultMessageStore.isTheBatchFull)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class PullLimits(Protocol):
    """Limits of one pull; they may change while the store is open. The first message of a pull always fits."""

    @property
    def memory_bytes(self) -> int:
        """How many bytes at the end of the log count as in memory; older bytes count as on the disk."""

    @property
    def transfer_memory_bytes(self) -> int:
        """Most bytes for a pull whose next message is in memory."""

    @property
    def transfer_memory_count(self) -> int:
        """Most messages for a pull whose next message is in memory."""

    @property
    def transfer_disk_bytes(self) -> int:
        """Most bytes for a pull whose next message is on the disk."""

    @property
    def transfer_disk_count(self) -> int:
        """Most messages for a pull whose next message is on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPullLimits:
    """RocketMQ's defaults (MessageStoreConfig)."""

    memory_bytes: int = 3 << 30  # accessMessageInMemoryMaxRatio of the RAM
    transfer_memory_bytes: int = 256 << 10  # maxTransferBytesOnMessageInMemory
    transfer_memory_count: int = 32  # maxTransferCountOnMessageInMemory
    transfer_disk_bytes: int = 64 << 10  # maxTransferBytesOnMessageInDisk
    transfer_disk_count: int = 8  # maxTransferCountOnMessageInDisk
