"""Records that stay in the memory of the process for a while (RocketMQ, TransientStorePool).

What is not committed can be neither read nor replicated nor consumed, and dies with the process. A buffer holds one
file of the log, from when the file is made until it is full and committed.
"""

from __future__ import annotations

from dataclasses import dataclass

PAGE_SIZE = 4096
NO_POOL_BUFFERS = (1 << 31) - 1  # what RocketMQ says is left when there is no pool


@dataclass(slots=True, kw_only=True)
class PoolConfig:
    """How much may stay in memory. Names in comments are RocketMQ's (MessageStoreConfig)."""

    buffers: int = 5  # transientStorePoolSize
    commit_pages: int = 4  # commitCommitLogLeastPages: with fewer, only a thorough commit writes
    # fastFailIfNoBufferInStorePool: else what has no buffer is committed at once
    fails_fast: bool = False
