"""Options of one broker. Comments name the Java properties (RocketMQ, BrokerConfig and MessageStoreConfig)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.store.delay_levels import DELAY_LEVELS_MS, DelayLevels

MASTER_ID = 0  # RocketMQ, MixAll.MASTER_ID


class BrokerRole(StrEnum):
    """A broker's role among the brokers of the same name (RocketMQ, BrokerRole)."""

    SYNC_MASTER = "sync-master"  # a send waits until one slave has it
    ASYNC_MASTER = "async-master"
    SLAVE = "slave"


@dataclass(slots=True, kw_only=True)
class BrokerConfig:
    """Every option of a broker. Times end in their unit; sizes are bytes.

    All components of a broker share one object; only `LiveConfig` changes it while they run.
    """

    broker_name: str  # brokerName
    listen_host: str  # brokerIP1: registered, stored as the store host of every message
    listen_port: int = 10911  # listenPort
    fast_port: bool = True  # not in RocketMQ: listen on the port minus 2, too
    name_servers: tuple[str, ...] = ()  # namesrvAddr
    cluster_name: str = "DefaultCluster"  # brokerClusterName
    broker_id: int = MASTER_ID  # brokerId
    role: BrokerRole = BrokerRole.ASYNC_MASTER  # brokerRole
    # not in RocketMQ; for the differences see system_under_test/broker/policies/policies.py
    mode: Mode = Mode.HARDENED
    # not in RocketMQ: faithful mode for these only; (): all
    faithful_policies: tuple[str, ...] = ()
    store_path: str = "/store"  # storePathRootDir
    # storePathCommitLog: one folder, or several with the splitter between; None: `commitlog` below store_path
    commit_log_path: str | None = None
    read_only_log_paths: str | None = None  # readOnlyCommitLogStorePaths: no new files there
    path_splitter: str = ","  # rocketmq.broker.multiPathSplitter
    sync_flush: bool = False  # flushDiskType=SYNC_FLUSH
    # transientStorePoolEnable: a killed process loses uncommitted messages
    transient_pool: bool = False
    transient_pool_size: int = 5  # transientStorePoolSize
    commit_interval_s: float = 0.2  # commitIntervalCommitLog
    commit_pages: int = 4  # commitCommitLogLeastPages
    commit_thorough_interval_s: float = 0.2  # commitCommitLogThoroughInterval
    fail_fast_without_buffer: bool = False  # fastFailIfNoBufferInStorePool
    commit_log_file_size: int = 1 << 30  # mappedFileSizeCommitLog
    consume_queue_file_size: int = 6_000_000  # mappedFileSizeConsumeQueue
    extends_queues: bool = False  # enableConsumeQueueExt
    extension_file_size: int = 48 << 20  # mappedFileSizeConsumeQueueExt
    index_enabled: bool = True  # messageIndexEnable
    index_slots: int = 5_000_000  # maxHashSlotNum
    index_numbers: int = 20_000_000  # maxIndexNum
    message_size_max: int = 4 << 20  # maxMessageSize

    ha_master_address: str | None = None  # haMasterAddress; None: learned when registering
    ha_peers: tuple[str, ...] = ()  # HA addresses of the other replicas, to fetch records from
    # haAllowedAddresses, not in RocketMQ; (): every host may replicate
    ha_hosts: tuple[str, ...] = ()
    ha_fall_behind_max: int = 256 << 20  # haSlaveFallbehindMax
    ha_heartbeat_interval_s: float = 5.0  # haSendHeartbeatInterval
    ha_silence_max_s: float = 20.0  # haHousekeepingInterval
    ha_reconnect_delay_s: float = 1.0
    offset_check_in_slave: bool = False  # offsetCheckInSlave: a slave corrects offsets, too
    slave_read: bool = False  # slaveReadEnable: a group far behind is sent to a slave

    sync_flush_timeout_s: float = 5.0  # syncFlushTimeout
    slave_timeout_s: float = 3.0  # slaveTimeout
    queue_flush_interval_s: float = 10.0
    offset_flush_interval_s: float = 5.0  # flushConsumerOffsetInterval
    register_period_s: float = 30.0  # registerNameServerPeriod
    register_timeout_s: float = 6.0  # registerBrokerTimeoutMills
    # forceRegister; False: only if code 322 says that something changed
    force_register: bool = True
    compressed_register: bool = False  # compressedRegister
    slave_sync_interval_s: float = 10.0
    slave_sync_first_s: float = 3.0

    delay_levels_ms: DelayLevels = DELAY_LEVELS_MS  # messageDelayLevel
    delay_offset_flush_interval_s: float = 10.0  # flushDelayOffsetInterval
    reject_transactions: bool = False  # rejectTransactionMessage
    transaction_timeout_s: float = 6.0  # transactionTimeOut
    transaction_check_interval_s: float = 60.0  # transactionCheckInterval
    transaction_check_max: int = 15  # transactionCheckMax
    store_replies: bool = True  # storeReplyMessageEnable

    send_queue_capacity: int = 10_000  # sendThreadPoolQueueCapacity
    pull_queue_capacity: int = 100_000  # pullThreadPoolQueueCapacity
    reply_queue_capacity: int = 10_000  # replyThreadPoolQueueCapacity
    query_queue_capacity: int = 20_000  # queryThreadPoolQueueCapacity
    client_manage_queue_capacity: int = 1_000_000  # clientManagerThreadPoolQueueCapacity
    consumer_manage_queue_capacity: int = 1_000_000  # consumerManagerThreadPoolQueueCapacity
    heartbeat_queue_capacity: int = 50_000  # heartbeatThreadPoolQueueCapacity
    transaction_queue_capacity: int = 100_000  # endTransactionPoolQueueCapacity
    fast_failure: bool = True  # brokerFastFailureEnable
    send_queue_wait_s: float = 0.2  # waitTimeMillsInSendQueue
    pull_queue_wait_s: float = 5.0  # waitTimeMillsInPullQueue
    heartbeat_queue_wait_s: float = 31.0  # waitTimeMillsInHeartbeatQueue
    transaction_queue_wait_s: float = 3.0  # waitTimeMillsInTransactionQueue
    page_cache_busy_s: float = 1.0  # osPageCacheBusyTimeOutMills

    accept_sends_from_ms: int = 0  # startAcceptSendRequestTimeStamp

    query_max: int = 64  # maxMsgsNumBatch: messages in the answer to a query by key
    unique_query_max: int = 32  # defaultQueryMaxNum: if the key is a unique one
    clean_interval_s: float = 10.0  # cleanResourceInterval
    reserved_hours: int = 72  # fileReservedTime
    delete_hours: tuple[int, ...] = (4,)  # deleteWhen
    utc_offset_s: int = 0  # not in RocketMQ: time zone of delete_hours and of printed times
    disk_used_max: int = 75  # diskMaxUsedSpaceRatio, percent
    disk_clean_ratio: float = 0.85  # rocketmq.broker.diskSpaceCleanForciblyRatio
    disk_warning_ratio: float = 0.90  # rocketmq.broker.diskSpaceWarningLevelRatio
    clean_forcibly: bool = True  # cleanFileForciblyEnable
    hanging_retry_s: float = 120.0  # redeleteHangedFileInterval
    delete_pause_s: float = 0.1  # deleteCommitLogFilesInterval

    acl_enable: bool = False  # aclEnable
    # rocketmq.acl.plain.file; None: plain_acl.yml in the config folder of the store
    acl_path: str | None = None
    # Not in RocketMQ: a file like its conf/tools.yml, with which this broker signs requests to other brokers.
    acl_credentials_path: str | None = None
    # aclFullSignature, not in RocketMQ: REQUIRED; None: optional
    acl_full_signature: str | None = None
    broker_permission: int = 6  # brokerPermission: 4 read, 2 write
    auto_create_topics: bool = True  # autoCreateTopicEnable
    auto_create_groups: bool = True  # autoCreateSubscriptionGroup
    default_topic_queues: int = 8  # defaultTopicQueueNums
    # clusterTopicEnable: the topic with the cluster's name may be read and written
    cluster_topic: bool = True
    broker_topic: bool = True  # brokerTopicEnable: the same for the broker's name
    makes_trace_topic: bool = False  # traceTopicEnable
    trace_topic: str = "RMQ_SYS_TRACE_TOPIC"  # msgTraceTopicName
    region_id: str = "DefaultRegion"  # regionId
    trace_on: bool = True  # traceOn
    long_polling: bool = True  # longPollingEnable
    short_polling_s: float = 1.0  # shortPollingTimeMills
    # accessMessageInMemoryMaxRatio of the RAM; older bytes are "on disk"
    memory_bytes: int = 3 << 30
    transfer_memory_bytes: int = 256 << 10  # maxTransferBytesOnMessageInMemory, for one pull
    transfer_memory_count: int = 32  # maxTransferCountOnMessageInMemory
    transfer_disk_bytes: int = 64 << 10  # maxTransferBytesOnMessageInDisk
    transfer_disk_count: int = 8  # maxTransferCountOnMessageInDisk

    property_filter: bool = False  # enablePropertyFilter: SQL92 expressions
    # filterSupportRetry: the expression also applies to retried messages
    filters_retries: bool = False
    calculates_bits: bool = False  # enableCalcFilterBitMap
    bloom_error_percent: int = 20  # maxErrorRateOfBloomFilter
    bloom_groups: int = 32  # expectConsumerNumUseFilter
    dead_filter_kept_s: float = 86_400.0  # filterDataCleanTimeSpan

    notify_consumer_ids_changed: bool = True  # notifyConsumerIdsChangedEnable: code 40
    disable_slow_consumers: bool = False  # disableConsumeIfConsumerReadSlowly
    consumer_fall_behind_max: int = 16 << 30  # consumerFallbehindThreshold
    # configBlackList: options that code 25 may not change; these two and rocketmqHome always count
    black_list: tuple[str, ...] = ("configBlackList", "brokerConfigPath")
    # the file that the broker was started with; it writes changed options there
    config_file: str | None = None
    # Not in RocketMQ: where a broker started without a file writes the changed options, and only those.
    changes_file: str | None = None

    def __post_init__(self) -> None:
        if (self.role is BrokerRole.SLAVE) != (self.broker_id > MASTER_ID):
            raise ValueError(
                f"broker id is {self.broker_id} in role {self.role}; a slave needs an id above 0,"
                " a master has 0"
            )
        if self.acl_full_signature is not None and not self.acl_enable:
            raise ValueError(
                f"aclFullSignature is {self.acl_full_signature}, but aclEnable is false; it needs true"
            )
        if self.transient_pool and (self.sync_flush or self.is_slave):
            flush = "synchronous" if self.sync_flush else "asynchronous"
            raise ValueError(
                f"the transient store pool is on in role {self.role} with {flush} flush;"
                " a master with asynchronous flush is needed"
            )

    def split_paths(self, paths: str | None) -> tuple[str, ...]:
        """The folders in the text of an option."""
        parts = (paths or "").split(self.path_splitter)
        return tuple(part.strip().rstrip("/") for part in parts if part.strip())

    @property
    def is_slave(self) -> bool:
        return self.role is BrokerRole.SLAVE

    @property
    def corrects_offsets(self) -> bool:
        """Whether to answer a pull at a wrong offset with the right one. A slave may only lack what its master has."""
        return self.role is not BrokerRole.SLAVE or self.offset_check_in_slave

    @property
    def address(self) -> str:
        """The address clients use, `ip:port`."""
        return f"{self.listen_host}:{self.listen_port}"

    @property
    def ha_port(self) -> int:
        """RocketMQ's BrokerStartup ignores haListenPort and takes the port after the main one."""
        return self.listen_port + 1

    @property
    def ha_address(self) -> str:
        return f"{self.listen_host}:{self.ha_port}"
