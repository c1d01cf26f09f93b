"""Options of one store. Names in comments are RocketMQ's (MessageStoreConfig)."""

from __future__ import annotations

from dataclasses import dataclass, field

from staticfire.system_under_test.store.delay_levels import DELAY_LEVELS_MS
from staticfire.system_under_test.store.pull_limits import FixedPullLimits, PullLimits
from staticfire.system_under_test.store.queues.consume_queue import ENTRY_SIZE
from staticfire.system_under_test.store.queues.queue_extension import EXTENSION_FILE_SIZE
from staticfire.system_under_test.store.retention_config import RetentionConfig
from staticfire.system_under_test.store.transient_pool import PoolConfig

# A whole record may have message_size_max bytes and these (RocketMQ, CommitLog.MessageExtEncoder).
RECORD_OVERHEAD_MAX = 64 << 10


@dataclass(slots=True, kw_only=True)
class StoreConfig:
    """Where a store lives, how large its files are and when its writes become durable.

    With `buffered`, puts wait in a buffer until `write_out` or `begin_flush`, and the broker must not acknowledge a put
    before that. Without it, each put reaches the page cache, and so survives the process, before it returns.

    `message_size_max` and the options of `pull_limits`, `retention` and `pool` may change while the store is open.
    """

    root: str  # storePathRootDir
    log_folders: tuple[str, ...] = ()  # storePathCommitLog; (): `commitlog` below the root
    read_only_log_folders: tuple[str, ...] = ()  # readOnlyCommitLogStorePaths
    commit_log_file_size: int = 1 << 30  # mappedFileSizeCommitLog
    consume_queue_file_size: int = 6_000_000  # mappedFileSizeConsumeQueue, a multiple of 20
    extends_queues: bool = False  # enableConsumeQueueExt
    extension_file_size: int = EXTENSION_FILE_SIZE  # mappedFileSizeConsumeQueueExt
    buffered: bool = False
    pool: PoolConfig | None = None  # transientStorePoolEnable
    message_size_max: int = 4 << 20  # maxMessageSize: bytes of a body
    pull_limits: PullLimits = field(default_factory=FixedPullLimits)
    index_enabled: bool = True  # messageIndexEnable
    index_slots: int = 5_000_000  # maxHashSlotNum
    index_numbers: int = 20_000_000  # maxIndexNum: one more than the entries of a file
    is_slave: bool = False  # brokerRole
    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS  # messageDelayLevel
    retention: RetentionConfig = field(default_factory=RetentionConfig)

    def __post_init__(self) -> None:
        if self.consume_queue_file_size <= 0 or self.consume_queue_file_size % ENTRY_SIZE:
            raise ValueError(
                f"consume queue file size is {self.consume_queue_file_size}; a multiple of {ENTRY_SIZE} is needed"
            )
        if self.log_folders and {*self.log_folders} <= {*self.read_only_log_folders}:
            raise ValueError(
                f"every folder of the commit log is read-only ({', '.join(self.log_folders)});"
                " one that is not is needed"
            )
        if self.index_slots < 1 or self.index_numbers < 2:
            raise ValueError(
                f"index files have {self.index_slots} slots and {self.index_numbers} entries; 1 and 2 are the least"
            )
        if self.commit_log_file_size < 512:
            raise ValueError(
                f"commit log file size is {self.commit_log_file_size}; 512 is the least"
            )
