"""Options of a node from a Java `.properties` file (`-c FILE`), under the names that RocketMQ gives them.

RocketMQ keeps the default when a value makes no sense. Here a node refuses to start: that is better than a broker that
runs with another flush mode than its file says. Unknown names are ignored, as in RocketMQ, but reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from staticfire.system_under_test.configuration.java_properties import parse_properties
from staticfire.system_under_test.configuration.option_values import (
    addresses,
    allowed_names,
    broker_port,
    disk_used_max,
    hosts,
    hours,
    integer,
    milliseconds,
    mode,
    name,
    names,
    one_address,
    one_of,
    port,
    queue_capacity,
    queue_file_size,
    ratio,
    reachable_host,
    required,
    share_of_memory,
    text,
    yes_or_no,
)
from staticfire.system_under_test.store.delay_levels import parse_delay_levels


class ConfigError(ValueError):
    """An option that cannot be used; the text is one sentence for the person who set it."""


@dataclass(frozen=True, slots=True)
class Property:
    """How one Java property becomes one field. `parse` raises ValueError with what is allowed as its text."""

    field: str
    parse: Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Fields that a file sets, and the names in it that this node does not know."""

    fields: dict[str, object]
    unknown: tuple[str, ...]


def read_settings(text: str, known: Mapping[str, Property]) -> Settings:
    """Fields from the text of a `.properties` file. Raises ConfigError: a known property has a bad value."""
    fields: dict[str, object] = {}
    unknown = []
    for key, value in parse_properties(text).items():
        wanted = known.get(key)
        if wanted is None:
            unknown.append(key)
            continue
        try:
            fields[wanted.field] = wanted.parse(value)
        except ValueError as error:
            raise ConfigError(f"{key} is {value!r}, but {error}") from None
    return Settings(fields=fields, unknown=tuple(unknown))


NAME_SERVER_PROPERTIES: dict[str, Property] = {
    "listenPort": Property("listen_port", port),
    "bindAddress": Property("listen_host", text),
    "kvConfigPath": Property("kv_config_path", text),
    "configStorePath": Property("config_path", text),
    "configBlackList": Property("black_list", names),
    "orderMessageEnable": Property("order_message_enable", yes_or_no),
    "registerAllowedAddresses": Property("register_hosts", hosts),
    "registerAllowedClusters": Property("register_clusters", allowed_names),
    "registerAllowedBrokers": Property("register_brokers", allowed_names),
    "mode": Property("mode", mode),
    "faithfulPolicies": Property("faithful_policies", names),
}

BROKER_PROPERTIES: dict[str, Property] = {
    "namesrvAddr": Property("name_servers", addresses),
    "brokerClusterName": Property("cluster_name", name),
    "brokerName": Property("broker_name", name),
    "brokerId": Property("broker_id", integer(0, (1 << 63) - 1)),
    "brokerRole": Property(
        "role",
        one_of({"SYNC_MASTER": "sync-master", "ASYNC_MASTER": "async-master", "SLAVE": "slave"}),
    ),
    "mode": Property("mode", mode),
    "faithfulPolicies": Property("faithful_policies", names),
    "brokerIP1": Property("listen_host", reachable_host),
    "listenPort": Property("listen_port", broker_port),
    "fastPortEnable": Property("fast_port", yes_or_no),
    "storePathRootDir": Property("store_path", text),
    "storePathCommitLog": Property("commit_log_path", text),
    "readOnlyCommitLogStorePaths": Property("read_only_log_paths", text),
    "rocketmq.broker.multiPathSplitter": Property("path_splitter", text),
    "flushDiskType": Property("sync_flush", one_of({"SYNC_FLUSH": True, "ASYNC_FLUSH": False})),
    "transientStorePoolEnable": Property("transient_pool", yes_or_no),
    # With one buffer, which the file being written holds, RocketMQ refuses every send.
    "transientStorePoolSize": Property("transient_pool_size", integer(2, 1 << 20)),
    "commitIntervalCommitLog": Property("commit_interval_s", milliseconds(1, 3_600_000)),
    "commitCommitLogLeastPages": Property("commit_pages", integer(0, 1 << 20)),
    "commitCommitLogThoroughInterval": Property(
        "commit_thorough_interval_s", milliseconds(0, 3_600_000)
    ),
    "fastFailIfNoBufferInStorePool": Property("fail_fast_without_buffer", yes_or_no),
    "mappedFileSizeCommitLog": Property("commit_log_file_size", integer(4096, 1 << 30)),
    "mappedFileSizeConsumeQueue": Property("consume_queue_file_size", queue_file_size),
    "enableConsumeQueueExt": Property("extends_queues", yes_or_no),
    "mappedFileSizeConsumeQueueExt": Property("extension_file_size", integer(1024, 1 << 30)),
    "messageIndexEnable": Property("index_enabled", yes_or_no),
    "maxHashSlotNum": Property("index_slots", integer(1, (1 << 31) - 1)),
    "maxIndexNum": Property("index_numbers", integer(2, (1 << 31) - 1)),
    "maxMessageSize": Property("message_size_max", integer(1, 16 << 20)),
    "haMasterAddress": Property("ha_master_address", one_address),
    "haPeers": Property("ha_peers", addresses),
    "haAllowedAddresses": Property("ha_hosts", hosts),
    "haSlaveFallbehindMax": Property("ha_fall_behind_max", integer(0, 1 << 62)),
    "haSendHeartbeatInterval": Property("ha_heartbeat_interval_s", milliseconds(10, 3_600_000)),
    "accessMessageInMemoryMaxRatio": Property("memory_bytes", share_of_memory()),
    "maxTransferBytesOnMessageInMemory": Property(
        "transfer_memory_bytes", integer(0, (1 << 31) - 1)
    ),
    "maxTransferCountOnMessageInMemory": Property(
        "transfer_memory_count", integer(0, (1 << 31) - 1)
    ),
    "maxTransferBytesOnMessageInDisk": Property("transfer_disk_bytes", integer(0, (1 << 31) - 1)),
    "maxTransferCountOnMessageInDisk": Property("transfer_disk_count", integer(0, (1 << 31) - 1)),
    "offsetCheckInSlave": Property("offset_check_in_slave", yes_or_no),
    "slaveReadEnable": Property("slave_read", yes_or_no),
    "haHousekeepingInterval": Property("ha_silence_max_s", milliseconds(10, 3_600_000)),
    "syncFlushTimeout": Property("sync_flush_timeout_s", milliseconds(1, 3_600_000)),
    "slaveTimeout": Property("slave_timeout_s", milliseconds(1, 3_600_000)),
    "flushConsumerOffsetInterval": Property("offset_flush_interval_s", milliseconds(10, 3_600_000)),
    "registerNameServerPeriod": Property("register_period_s", milliseconds(10_000, 60_000)),
    "registerBrokerTimeoutMills": Property("register_timeout_s", milliseconds(1, 600_000)),
    "messageDelayLevel": Property("delay_levels_ms", parse_delay_levels),
    "flushDelayOffsetInterval": Property(
        "delay_offset_flush_interval_s", milliseconds(10, 3_600_000)
    ),
    "rejectTransactionMessage": Property("reject_transactions", yes_or_no),
    "transactionTimeOut": Property("transaction_timeout_s", milliseconds(0, 86_400_000)),
    "transactionCheckInterval": Property(
        "transaction_check_interval_s", milliseconds(10, 86_400_000)
    ),
    "transactionCheckMax": Property("transaction_check_max", integer(0, 1 << 30)),
    "storeReplyMessageEnable": Property("store_replies", yes_or_no),
    "sendThreadPoolQueueCapacity": Property("send_queue_capacity", queue_capacity),
    "pullThreadPoolQueueCapacity": Property("pull_queue_capacity", queue_capacity),
    "replyThreadPoolQueueCapacity": Property("reply_queue_capacity", queue_capacity),
    "queryThreadPoolQueueCapacity": Property("query_queue_capacity", queue_capacity),
    "clientManagerThreadPoolQueueCapacity": Property(
        "client_manage_queue_capacity", queue_capacity
    ),
    "consumerManagerThreadPoolQueueCapacity": Property(
        "consumer_manage_queue_capacity", queue_capacity
    ),
    "heartbeatThreadPoolQueueCapacity": Property("heartbeat_queue_capacity", queue_capacity),
    "endTransactionPoolQueueCapacity": Property("transaction_queue_capacity", queue_capacity),
    "brokerFastFailureEnable": Property("fast_failure", yes_or_no),
    "waitTimeMillsInSendQueue": Property("send_queue_wait_s", milliseconds(1, 3_600_000)),
    "waitTimeMillsInPullQueue": Property("pull_queue_wait_s", milliseconds(1, 3_600_000)),
    "waitTimeMillsInHeartbeatQueue": Property("heartbeat_queue_wait_s", milliseconds(1, 3_600_000)),
    "waitTimeMillsInTransactionQueue": Property(
        "transaction_queue_wait_s", milliseconds(1, 3_600_000)
    ),
    "osPageCacheBusyTimeOutMills": Property("page_cache_busy_s", milliseconds(1, 3_600_000)),
    "startAcceptSendRequestTimeStamp": Property("accept_sends_from_ms", integer(0, 1 << 52)),
    "forceRegister": Property("force_register", yes_or_no),
    "compressedRegister": Property("compressed_register", yes_or_no),
    "maxMsgsNumBatch": Property("query_max", integer(0, 100_000)),
    "defaultQueryMaxNum": Property("unique_query_max", integer(0, 100_000)),
    "cleanResourceInterval": Property("clean_interval_s", milliseconds(10, 86_400_000)),
    "fileReservedTime": Property("reserved_hours", integer(0, 1 << 20)),
    "deleteWhen": Property("delete_hours", hours),
    "deleteCommitLogFilesInterval": Property("delete_pause_s", milliseconds(0, 60_000)),
    "diskMaxUsedSpaceRatio": Property("disk_used_max", disk_used_max),
    "rocketmq.broker.diskSpaceCleanForciblyRatio": Property("disk_clean_ratio", ratio),
    "rocketmq.broker.diskSpaceWarningLevelRatio": Property("disk_warning_ratio", ratio),
    "cleanFileForciblyEnable": Property("clean_forcibly", yes_or_no),
    "redeleteHangedFileInterval": Property("hanging_retry_s", milliseconds(0, 86_400_000)),
    "aclEnable": Property("acl_enable", yes_or_no),
    "rocketmq.acl.plain.file": Property("acl_path", text),
    "aclCredentialsFile": Property("acl_credentials_path", text),
    "aclFullSignature": Property("acl_full_signature", required),
    "configBlackList": Property("black_list", names),
    "brokerPermission": Property("broker_permission", integer(0, 7)),
    "autoCreateTopicEnable": Property("auto_create_topics", yes_or_no),
    "autoCreateSubscriptionGroup": Property("auto_create_groups", yes_or_no),
    "defaultTopicQueueNums": Property("default_topic_queues", integer(1, 1 << 15)),
    "clusterTopicEnable": Property("cluster_topic", yes_or_no),
    "brokerTopicEnable": Property("broker_topic", yes_or_no),
    "traceTopicEnable": Property("makes_trace_topic", yes_or_no),
    "msgTraceTopicName": Property("trace_topic", name),
    "regionId": Property("region_id", text),
    "traceOn": Property("trace_on", yes_or_no),
    "longPollingEnable": Property("long_polling", yes_or_no),
    "enablePropertyFilter": Property("property_filter", yes_or_no),
    "filterSupportRetry": Property("filters_retries", yes_or_no),
    "enableCalcFilterBitMap": Property("calculates_bits", yes_or_no),
    "maxErrorRateOfBloomFilter": Property("bloom_error_percent", integer(1, 99)),
    "expectConsumerNumUseFilter": Property("bloom_groups", integer(1, 1 << 16)),
    "filterDataCleanTimeSpan": Property("dead_filter_kept_s", milliseconds(0, 1 << 40)),
    "notifyConsumerIdsChangedEnable": Property("notify_consumer_ids_changed", yes_or_no),
    "disableConsumeIfConsumerReadSlowly": Property("disable_slow_consumers", yes_or_no),
    "consumerFallbehindThreshold": Property("consumer_fall_behind_max", integer(0, 1 << 62)),
    "shortPollingTimeMills": Property("short_polling_s", milliseconds(1, 600_000)),
}
