"""Options of a node from a Java `.properties` file (`-c FILE`), under the names that RocketMQ gives them.

Unlike RocketMQ, which keeps the default when a value makes no sense, a bad value is refused: a broker that runs
with another flush mode than its file says is worse than one that does not start. Unknown names are ignored, as there,
but they are reported.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """How one Java property becomes one field. `parse` raises ValueError with what is allowed as its text."""

    field: str
    parse: Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Fields that a file sets, and the names in it that mean nothing here."""

    fields: dict[str, object]
    unknown: tuple[str, ...]


def read_settings(text: str, known: Mapping[str, Property]) -> Settings:
    """Fields from the text of a `.properties` file.

    Raises:
        ConfigError: a known property has a bad value.
    """
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
    "listenPort": Property(field="listen_port", parse=port),
    "bindAddress": Property(field="listen_host", parse=text),
    "kvConfigPath": Property(field="kv_config_path", parse=text),
    "configStorePath": Property(field="config_path", parse=text),
    "configBlackList": Property(field="black_list", parse=names),
    "orderMessageEnable": Property(field="order_message_enable", parse=yes_or_no),
    "registerAllowedAddresses": Property(field="register_hosts", parse=hosts),
    "registerAllowedClusters": Property(field="register_clusters", parse=allowed_names),
    "registerAllowedBrokers": Property(field="register_brokers", parse=allowed_names),
    "mode": Property(field="mode", parse=mode),
    "faithfulPolicies": Property(field="faithful_policies", parse=names),
}

BROKER_PROPERTIES: dict[str, Property] = {
    "namesrvAddr": Property(field="name_servers", parse=addresses),
    "brokerClusterName": Property(field="cluster_name", parse=name),
    "brokerName": Property(field="broker_name", parse=name),
    "brokerId": Property(field="broker_id", parse=integer(0, (1 << 63) - 1)),
    "brokerRole": Property(
        field="role",
        parse=one_of(
            {"SYNC_MASTER": "sync-master", "ASYNC_MASTER": "async-master", "SLAVE": "slave"}
        ),
    ),
    "mode": Property(field="mode", parse=mode),
    "faithfulPolicies": Property(field="faithful_policies", parse=names),
    "brokerIP1": Property(field="listen_host", parse=reachable_host),
    "listenPort": Property(field="listen_port", parse=broker_port),
    "fastPortEnable": Property(field="fast_port", parse=yes_or_no),
    "storePathRootDir": Property(field="store_path", parse=text),
    "storePathCommitLog": Property(field="commit_log_path", parse=text),
    "readOnlyCommitLogStorePaths": Property(field="read_only_log_paths", parse=text),
    "rocketmq.broker.multiPathSplitter": Property(field="path_splitter", parse=text),
    "flushDiskType": Property(
        field="sync_flush", parse=one_of({"SYNC_FLUSH": True, "ASYNC_FLUSH": False})
    ),
    "transientStorePoolEnable": Property(field="transient_pool", parse=yes_or_no),
    # With one buffer, which the file being written holds, RocketMQ refuses everything.
    "transientStorePoolSize": Property(field="transient_pool_size", parse=integer(2, 1 << 20)),
    "commitIntervalCommitLog": Property(
        field="commit_interval_s", parse=milliseconds(1, 3_600_000)
    ),
    "commitCommitLogLeastPages": Property(field="commit_pages", parse=integer(0, 1 << 20)),
    "commitCommitLogThoroughInterval": Property(
        field="commit_thorough_interval_s", parse=milliseconds(0, 3_600_000)
    ),
    "fastFailIfNoBufferInStorePool": Property(field="fail_fast_without_buffer", parse=yes_or_no),
    "mappedFileSizeCommitLog": Property(field="commit_log_file_size", parse=integer(4096, 1 << 30)),
    "mappedFileSizeConsumeQueue": Property(field="consume_queue_file_size", parse=queue_file_size),
    "enableConsumeQueueExt": Property(field="extends_queues", parse=yes_or_no),
    "mappedFileSizeConsumeQueueExt": Property(
        field="extension_file_size", parse=integer(1024, 1 << 30)
    ),
    "messageIndexEnable": Property(field="index_enabled", parse=yes_or_no),
    "maxHashSlotNum": Property(field="index_slots", parse=integer(1, (1 << 31) - 1)),
    "maxIndexNum": Property(field="index_numbers", parse=integer(2, (1 << 31) - 1)),
    "maxMessageSize": Property(field="message_size_max", parse=integer(1, 16 << 20)),
    "haMasterAddress": Property(field="ha_master_address", parse=one_address),
    "haPeers": Property(field="ha_peers", parse=addresses),
    "haAllowedAddresses": Property(field="ha_hosts", parse=hosts),
    "haSlaveFallbehindMax": Property(field="ha_fall_behind_max", parse=integer(0, 1 << 62)),
    "haSendHeartbeatInterval": Property(
        field="ha_heartbeat_interval_s", parse=milliseconds(10, 3_600_000)
    ),
    "accessMessageInMemoryMaxRatio": Property(field="memory_bytes", parse=share_of_memory()),
    "maxTransferBytesOnMessageInMemory": Property(
        field="transfer_memory_bytes", parse=integer(0, (1 << 31) - 1)
    ),
    "maxTransferCountOnMessageInMemory": Property(
        field="transfer_memory_count", parse=integer(0, (1 << 31) - 1)
    ),
    "maxTransferBytesOnMessageInDisk": Property(
        field="transfer_disk_bytes", parse=integer(0, (1 << 31) - 1)
    ),
    "maxTransferCountOnMessageInDisk": Property(
        field="transfer_disk_count", parse=integer(0, (1 << 31) - 1)
    ),
    "offsetCheckInSlave": Property(field="offset_check_in_slave", parse=yes_or_no),
    "slaveReadEnable": Property(field="slave_read", parse=yes_or_no),
    "haHousekeepingInterval": Property(field="ha_silence_max_s", parse=milliseconds(10, 3_600_000)),
    "syncFlushTimeout": Property(field="sync_flush_timeout_s", parse=milliseconds(1, 3_600_000)),
    "slaveTimeout": Property(field="slave_timeout_s", parse=milliseconds(1, 3_600_000)),
    "flushConsumerOffsetInterval": Property(
        field="offset_flush_interval_s", parse=milliseconds(10, 3_600_000)
    ),
    "registerNameServerPeriod": Property(
        field="register_period_s", parse=milliseconds(10_000, 60_000)
    ),
    "registerBrokerTimeoutMills": Property(
        field="register_timeout_s", parse=milliseconds(1, 600_000)
    ),
    "messageDelayLevel": Property(field="delay_levels_ms", parse=parse_delay_levels),
    "flushDelayOffsetInterval": Property(
        field="delay_offset_flush_interval_s", parse=milliseconds(10, 3_600_000)
    ),
    "rejectTransactionMessage": Property(field="reject_transactions", parse=yes_or_no),
    "transactionTimeOut": Property(
        field="transaction_timeout_s", parse=milliseconds(0, 86_400_000)
    ),
    "transactionCheckInterval": Property(
        field="transaction_check_interval_s", parse=milliseconds(10, 86_400_000)
    ),
    "transactionCheckMax": Property(field="transaction_check_max", parse=integer(0, 1 << 30)),
    "storeReplyMessageEnable": Property(field="store_replies", parse=yes_or_no),
    "sendThreadPoolQueueCapacity": Property(field="send_queue_capacity", parse=queue_capacity),
    "pullThreadPoolQueueCapacity": Property(field="pull_queue_capacity", parse=queue_capacity),
    "replyThreadPoolQueueCapacity": Property(field="reply_queue_capacity", parse=queue_capacity),
    "queryThreadPoolQueueCapacity": Property(field="query_queue_capacity", parse=queue_capacity),
    "clientManagerThreadPoolQueueCapacity": Property(
        field="client_manage_queue_capacity", parse=queue_capacity
    ),
    "consumerManagerThreadPoolQueueCapacity": Property(
        field="consumer_manage_queue_capacity", parse=queue_capacity
    ),
    "heartbeatThreadPoolQueueCapacity": Property(
        field="heartbeat_queue_capacity", parse=queue_capacity
    ),
    "endTransactionPoolQueueCapacity": Property(
        field="transaction_queue_capacity", parse=queue_capacity
    ),
    "brokerFastFailureEnable": Property(field="fast_failure", parse=yes_or_no),
    "waitTimeMillsInSendQueue": Property(
        field="send_queue_wait_s", parse=milliseconds(1, 3_600_000)
    ),
    "waitTimeMillsInPullQueue": Property(
        field="pull_queue_wait_s", parse=milliseconds(1, 3_600_000)
    ),
    "waitTimeMillsInHeartbeatQueue": Property(
        field="heartbeat_queue_wait_s", parse=milliseconds(1, 3_600_000)
    ),
    "waitTimeMillsInTransactionQueue": Property(
        field="transaction_queue_wait_s", parse=milliseconds(1, 3_600_000)
    ),
    "osPageCacheBusyTimeOutMills": Property(
        field="page_cache_busy_s", parse=milliseconds(1, 3_600_000)
    ),
    "startAcceptSendRequestTimeStamp": Property(
        field="accept_sends_from_ms", parse=integer(0, 1 << 52)
    ),
    "forceRegister": Property(field="force_register", parse=yes_or_no),
    "compressedRegister": Property(field="compressed_register", parse=yes_or_no),
    "maxMsgsNumBatch": Property(field="query_max", parse=integer(0, 100_000)),
    "defaultQueryMaxNum": Property(field="unique_query_max", parse=integer(0, 100_000)),
    "cleanResourceInterval": Property(field="clean_interval_s", parse=milliseconds(10, 86_400_000)),
    "fileReservedTime": Property(field="reserved_hours", parse=integer(0, 1 << 20)),
    "deleteWhen": Property(field="delete_hours", parse=hours),
    "deleteCommitLogFilesInterval": Property(field="delete_pause_s", parse=milliseconds(0, 60_000)),
    "diskMaxUsedSpaceRatio": Property(field="disk_used_max", parse=disk_used_max),
    "rocketmq.broker.diskSpaceCleanForciblyRatio": Property(field="disk_clean_ratio", parse=ratio),
    "rocketmq.broker.diskSpaceWarningLevelRatio": Property(field="disk_warning_ratio", parse=ratio),
    "cleanFileForciblyEnable": Property(field="clean_forcibly", parse=yes_or_no),
    "redeleteHangedFileInterval": Property(
        field="hanging_retry_s", parse=milliseconds(0, 86_400_000)
    ),
    "aclEnable": Property(field="acl_enable", parse=yes_or_no),
    "rocketmq.acl.plain.file": Property(field="acl_path", parse=text),
    "aclCredentialsFile": Property(field="acl_credentials_path", parse=text),
    "aclFullSignature": Property(field="acl_full_signature", parse=required),
    "configBlackList": Property(field="black_list", parse=names),
    "brokerPermission": Property(field="broker_permission", parse=integer(0, 7)),
    "autoCreateTopicEnable": Property(field="auto_create_topics", parse=yes_or_no),
    "autoCreateSubscriptionGroup": Property(field="auto_create_groups", parse=yes_or_no),
    "defaultTopicQueueNums": Property(field="default_topic_queues", parse=integer(1, 1 << 15)),
    "clusterTopicEnable": Property(field="cluster_topic", parse=yes_or_no),
    "brokerTopicEnable": Property(field="broker_topic", parse=yes_or_no),
    "traceTopicEnable": Property(field="makes_trace_topic", parse=yes_or_no),
    "msgTraceTopicName": Property(field="trace_topic", parse=name),
    "regionId": Property(field="region_id", parse=text),
    "traceOn": Property(field="trace_on", parse=yes_or_no),
    "longPollingEnable": Property(field="long_polling", parse=yes_or_no),
    "enablePropertyFilter": Property(field="property_filter", parse=yes_or_no),
    "filterSupportRetry": Property(field="filters_retries", parse=yes_or_no),
    "enableCalcFilterBitMap": Property(field="calculates_bits", parse=yes_or_no),
    "maxErrorRateOfBloomFilter": Property(field="bloom_error_percent", parse=integer(1, 99)),
    "expectConsumerNumUseFilter": Property(field="bloom_groups", parse=integer(1, 1 << 16)),
    "filterDataCleanTimeSpan": Property(field="dead_filter_kept_s", parse=milliseconds(0, 1 << 40)),
    "notifyConsumerIdsChangedEnable": Property(
        field="notify_consumer_ids_changed", parse=yes_or_no
    ),
    "disableConsumeIfConsumerReadSlowly": Property(field="disable_slow_consumers", parse=yes_or_no),
    "consumerFallbehindThreshold": Property(
        field="consumer_fall_behind_max", parse=integer(0, 1 << 62)
    ),
    "shortPollingTimeMills": Property(field="short_polling_s", parse=milliseconds(1, 600_000)),
}
