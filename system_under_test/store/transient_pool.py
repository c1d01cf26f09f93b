"""Options of the transient store pool: records stay in process memory until committed (RocketMQ, TransientStorePool).

Uncommitted records can be neither read nor replicated nor consumed, and are lost with the process. A buffer holds one
file of the log from its creation until it is full and committed.
"""

from __future__ import annotations

from dataclasses import dataclass

PAGE_SIZE = 4096
NO_POOL_BUFFERS = (1 << 31) - 1  # number of buffers left that RocketMQ reports without a pool


@dataclass(slots=True, kw_only=True)
class PoolConfig:
    """How much may stay in memory. Names in comments are RocketMQ's (MessageStoreConfig)."""

    buffers: int = 5  # transientStorePoolSize
    commit_pages: int = 4  # commitCommitLogLeastPages: fewer pages wait for a thorough commit
    # fastFailIfNoBufferInStorePool; if False, a file without a buffer is committed at once
    fails_fast: bool = False
