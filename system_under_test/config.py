"""Options of a node from a Java `.properties` file (`-c FILE`), under the names that RocketMQ gives them.

Unlike RocketMQ, which keeps the default when a value makes no sense, a bad value is refused: a broker that runs
with another flush mode than its file says is worse than one that does not start. Unknown names are ignored, as there,
but they are reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from system_under_test.mode import Mode
from system_under_test.remoting.address import parse_address
from system_under_test.store.delay_levels import parse_delay_levels

NAME_LENGTH_MAX = 255
ASSUMED_MEMORY_BYTES = 15 << 29
QUEUE_ENTRY_SIZE = 20  # bytes in a consume queue


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
    for name, value in parse_properties(text).items():
        wanted = known.get(name)
        if wanted is None:
            unknown.append(name)
            continue
        try:
            fields[wanted.field] = wanted.parse(value)
        except ValueError as error:
            raise ConfigError(f"{name} is {value!r}, but {error}") from None
    return Settings(fields=fields, unknown=tuple(unknown))


# Values


def text(value: str) -> str:
    if not value:
        raise ValueError("it must not be empty")
    if not value.isprintable():
        raise ValueError("text without control characters is allowed")
    return value


def name(value: str) -> str:
    """A name that travels in every registration."""
    if len(value) > NAME_LENGTH_MAX:
        raise ValueError(f"up to {NAME_LENGTH_MAX} characters are allowed")
    return text(value)


def yes_or_no(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true and false are allowed")
    return value.lower() == "true"


def integer(low: int, high: int) -> Callable[[str], int]:
    """A parser of decimal integers from `low` to `high`."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,19}", value) or not low <= int(value) <= high:
            raise ValueError(f"a number from {low} to {high} is allowed")
        return int(value)

    return parse


def queue_file_size(value: str) -> int:
    """Bytes of one file of a consume queue: whole entries."""
    size = integer(QUEUE_ENTRY_SIZE, 1 << 30)(value)
    if size % QUEUE_ENTRY_SIZE:
        raise ValueError(f"a multiple of {QUEUE_ENTRY_SIZE} is allowed")
    return size


class milliseconds:  # noqa: N801  used like the functions beside it
    """A parser of milliseconds; the field is in seconds."""

    def __init__(self, low: int, high: int) -> None:
        self._parse = integer(low, high)

    def __call__(self, value: str) -> float:
        return self._parse(value) / 1000

    def format(self, seconds: float) -> str:
        return str(round(seconds * 1000))


class share_of_memory:  # noqa: N801
    """A parser of percentages; the field is in bytes.

    A node cannot ask how much memory its machine has: 7.5 GiB are assumed.
    """

    def __init__(self) -> None:
        self._parse = integer(0, 100)

    def __call__(self, value: str) -> int:
        return self._parse(value) * ASSUMED_MEMORY_BYTES // 100

    def format(self, size_bytes: int) -> str:
        return str(round(size_bytes * 100 / ASSUMED_MEMORY_BYTES))


def hours(value: str) -> tuple[int, ...]:
    """`04;16`: hours of the day."""
    parse = integer(0, 23)
    return tuple(parse(part.strip()) for part in value.split(";"))


def disk_used_max(value: str) -> int:
    """Percent; RocketMQ takes 10 for what is below and 95 for what is above."""
    return min(95, max(10, integer(-(1 << 31), (1 << 31) - 1)(value)))


def ratio(value: str) -> float:
    if not re.fullmatch(r"0?\.[0-9]{1,9}|1(\.0{1,9})?|0", value):
        raise ValueError("a number from 0 to 1 is allowed")
    return float(value)


class one_of:  # noqa: N801
    """A parser of names that stand for values."""

    def __init__(self, choices: Mapping[str, object]) -> None:
        self._choices = choices

    def __call__(self, value: str) -> object:
        if value not in self._choices:
            raise ValueError(f"{', '.join(self._choices)} are allowed")
        return self._choices[value]

    def format(self, value: object) -> str:
        return next(name for name, choice in self._choices.items() if choice == value)


def format_value(parse: Callable[[str], object], value: Any) -> str:
    """The text from which `parse` makes this value; "" for None."""
    if isinstance(parse, milliseconds | one_of | share_of_memory):
        return parse.format(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if parse is parse_delay_levels:
        return " ".join(f"{delay_ms // 1000}s" for delay_ms in value)
    if isinstance(value, tuple):
        return ";".join(map(str, value))
    return "" if value is None else str(value)


def names(value: str) -> tuple[str, ...]:
    """`name;name`"""
    return tuple(part.strip() for part in value.split(";") if part.strip())


def addresses(value: str) -> tuple[str, ...]:
    """`host:port;host:port`"""
    found = tuple(part.strip() for part in value.split(";") if part.strip())
    for address in found:
        parse_address(address)
    return found


def one_address(value: str) -> str:
    """`host:port`"""
    parse_address(value)
    return value


def reachable_host(value: str) -> str:
    """A broker registers the address that it listens on: clients must be able to use it."""
    if value in ("0.0.0.0", "::"):
        raise ValueError("an address that clients can connect to is needed")
    return text(value)


mode = one_of({mode.value: mode for mode in Mode})
port = integer(0, 65535)
queue_capacity = integer(1, (1 << 31) - 1)
broker_port = integer(1, 65534)  # registered, so not 0; replication listens on the next one

# The format of java.util.Properties

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ENTRY = re.compile(r"((?:[^\\=:\s]|\\.)*)\s*[=:]?\s*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Names and values; a name that comes twice has its last value."""
    found = {}
    for line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        assert match is not None, "the pattern matches every text"
        found[_unescape(match[1])] = _unescape(match[2]).strip()
    return found


def format_properties(values: Mapping[str, str]) -> str:
    """The text that `parse_properties` reads back; what is empty is left out."""
    return "".join(f"{name}={_escape_value(value)}\n" for name, value in values.items() if value)


def _escape_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blanks; one that ends with an odd number of backslashes goes on."""
    pending = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        pending += line
        backslashes = len(pending) - len(pending.rstrip("\\"))
        if backslashes % 2:
            pending = pending[:-1]
            continue
        yield pending
        pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return _CONTROL.get(match[2], match[2])

    return _ESCAPE.sub(replace, text)


# What each node understands

NAME_SERVER_PROPERTIES: dict[str, Property] = {
    "listenPort": Property(field="listen_port", parse=port),
    "bindAddress": Property(field="listen_host", parse=text),
    "kvConfigPath": Property(field="kv_config_path", parse=text),
    "configStorePath": Property(field="config_path", parse=text),
    "configBlackList": Property(field="black_list", parse=names),
    "orderMessageEnable": Property(field="order_message_enable", parse=yes_or_no),
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
    "messageIndexEnable": Property(field="index_enabled", parse=yes_or_no),
    "maxHashSlotNum": Property(field="index_slots", parse=integer(1, (1 << 31) - 1)),
    "maxIndexNum": Property(field="index_numbers", parse=integer(2, (1 << 31) - 1)),
    "maxMessageSize": Property(field="message_size_max", parse=integer(1, 16 << 20)),
    "haMasterAddress": Property(field="ha_master_address", parse=one_address),
    "haPeers": Property(field="ha_peers", parse=addresses),
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
    "configBlackList": Property(field="black_list", parse=names),
    "brokerPermission": Property(field="broker_permission", parse=integer(0, 7)),
    "autoCreateTopicEnable": Property(field="auto_create_topics", parse=yes_or_no),
    "autoCreateSubscriptionGroup": Property(field="auto_create_groups", parse=yes_or_no),
    "defaultTopicQueueNums": Property(field="default_topic_queues", parse=integer(1, 1 << 15)),
    "regionId": Property(field="region_id", parse=text),
    "traceOn": Property(field="trace_on", parse=yes_or_no),
    "longPollingEnable": Property(field="long_polling", parse=yes_or_no),
    "notifyConsumerIdsChangedEnable": Property(
        field="notify_consumer_ids_changed", parse=yes_or_no
    ),
    "disableConsumeIfConsumerReadSlowly": Property(field="disable_slow_consumers", parse=yes_or_no),
    "consumerFallbehindThreshold": Property(
        field="consumer_fall_behind_max", parse=integer(0, 1 << 62)
    ),
    "shortPollingTimeMills": Property(field="short_polling_s", parse=milliseconds(1, 600_000)),
}
