"""Options of nodes from `.properties` files."""

from __future__ import annotations

import dataclasses

import pytest

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.configuration.config import (
    BROKER_PROPERTIES,
    NAME_SERVER_PROPERTIES,
    ConfigError,
    Property,
    read_settings,
)
from staticfire.system_under_test.configuration.option_values import format_value
from staticfire.system_under_test.name_server.config import NameServerConfig


def test_a_broker_file() -> None:
    settings = read_settings(
        "brokerClusterName = DefaultCluster\n"
        "brokerName=broker-a\n"
        "brokerId=0\n"
        "brokerRole=SYNC_MASTER\n"
        "flushDiskType=SYNC_FLUSH\n"
        "namesrvAddr=10.0.0.1:9876; 10.0.0.2:9876\n"
        "registerNameServerPeriod=30000\n"
        "autoCreateTopicEnable=FALSE\n"
        "warmMapedFileEnable=false\n",
        BROKER_PROPERTIES,
    )
    assert settings.fields == {
        "cluster_name": "DefaultCluster",
        "broker_name": "broker-a",
        "broker_id": 0,
        "role": "sync-master",
        "sync_flush": True,
        "name_servers": ("10.0.0.1:9876", "10.0.0.2:9876"),
        "register_period_s": 30.0,
        "auto_create_topics": False,
    }
    assert settings.unknown == ("warmMapedFileEnable",)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("listenPort=70000", "listenPort is '70000', but a number from 1 to 65534 is allowed"),
        ("listenPort=1e3", "listenPort is '1e3', but a number from 1 to 65534 is allowed"),
        ("listenPort=0", "a number from 1 to 65534 is allowed"),
        ("brokerIP1=0.0.0.0", "an address that clients can connect to is needed"),
        ("brokerId=-1", "a number from 0 to 9223372036854775807 is allowed"),
        ("brokerName=", "it must not be empty"),
        ("traceOn=yes", "traceOn is 'yes', but true and false are allowed"),
        ("brokerRole=MASTER", "SYNC_MASTER, ASYNC_MASTER, SLAVE are allowed"),
        ("flushDiskType=sync", "SYNC_FLUSH, ASYNC_FLUSH are allowed"),
        ("namesrvAddr=a:1;b", "address 'b' is not host:port"),
        ("slaveTimeout=0", "a number from 1 to 3600000 is allowed"),
        ("mappedFileSizeConsumeQueue=50", "a multiple of 20 is allowed"),
        ("mappedFileSizeConsumeQueue=0", "a number from 20 to"),
        ("haMasterAddress=nowhere", "is not host:port"),
        (
            "haAllowedAddresses=10.0.0.1;nowhere",
            "but 'nowhere' is neither an address nor a block such as 10.0.1.0/24",
        ),
        ("haAllowedAddresses=10.0.0.7/24", "'10.0.0.7/24' is neither an address nor a block"),
        ("aclFullSignature=true", "is 'true', but OPTIONAL and REQUIRED are allowed"),
        ("haAllowedAddresses=;", "addresses and blocks such as 10.0.1.0/24 are allowed"),
        (r"storePathRootDir=/a\u0000b", "text without control characters is allowed"),
        (r"brokerName=\ud800", "text without control characters is allowed"),
        ("brokerClusterName=" + "x" * 256, "up to 255 characters are allowed"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(line: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(line, BROKER_PROPERTIES)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("brokerId", 0, 2**63 - 1),
        ("listenPort", 1, 65_534),
        ("transientStorePoolSize", 2, 2**20),
        ("commitCommitLogLeastPages", 0, 2**20),
        ("mappedFileSizeCommitLog", 4096, 2**30),
        ("mappedFileSizeConsumeQueueExt", 1024, 2**30),
        ("maxHashSlotNum", 1, 2**31 - 1),
        ("maxIndexNum", 2, 2**31 - 1),
        ("maxMessageSize", 1, 2**24),
        ("haSlaveFallbehindMax", 0, 2**62),
        ("maxTransferBytesOnMessageInMemory", 0, 2**31 - 1),
        ("maxTransferCountOnMessageInMemory", 0, 2**31 - 1),
        ("maxTransferBytesOnMessageInDisk", 0, 2**31 - 1),
        ("maxTransferCountOnMessageInDisk", 0, 2**31 - 1),
        ("transactionCheckMax", 0, 2**30),
        ("sendThreadPoolQueueCapacity", 1, 2**31 - 1),
        ("pullThreadPoolQueueCapacity", 1, 2**31 - 1),
        ("replyThreadPoolQueueCapacity", 1, 2**31 - 1),
        ("queryThreadPoolQueueCapacity", 1, 2**31 - 1),
        ("clientManagerThreadPoolQueueCapacity", 1, 2**31 - 1),
        ("consumerManagerThreadPoolQueueCapacity", 1, 2**31 - 1),
        ("heartbeatThreadPoolQueueCapacity", 1, 2**31 - 1),
        ("endTransactionPoolQueueCapacity", 1, 2**31 - 1),
        ("startAcceptSendRequestTimeStamp", 0, 2**52),
        ("maxMsgsNumBatch", 0, 100_000),
        ("defaultQueryMaxNum", 0, 100_000),
        ("fileReservedTime", 0, 2**20),
        ("brokerPermission", 0, 7),
        ("defaultTopicQueueNums", 1, 2**15),
        ("maxErrorRateOfBloomFilter", 1, 99),
        ("expectConsumerNumUseFilter", 1, 2**16),
        ("consumerFallbehindThreshold", 0, 2**62),
    ],
)
def test_a_number_may_reach_its_limits_and_not_pass_them(name: str, low: int, high: int) -> None:
    known = BROKER_PROPERTIES[name]
    for value in (low, high):
        assert read_settings(f"{name}={value}", BROKER_PROPERTIES).fields == {known.field: value}
    for value in (low - 1, high + 1):
        with pytest.raises(ConfigError, match=f"a number from {low} to {high} is allowed"):
            read_settings(f"{name}={value}", BROKER_PROPERTIES)


@pytest.mark.parametrize(
    ("properties", "config"),
    [(BROKER_PROPERTIES, BrokerConfig), (NAME_SERVER_PROPERTIES, NameServerConfig)],
)
def test_every_property_is_a_field(properties: dict[str, Property], config: type) -> None:
    fields = {field.name for field in dataclasses.fields(config)}
    assert [known.field for known in properties.values() if known.field not in fields] == []


def test_retention() -> None:
    text = "deleteWhen=04;16\nfileReservedTime=48\ndiskMaxUsedSpaceRatio=99\n"
    text += "rocketmq.broker.diskSpaceWarningLevelRatio=0.5\ncleanFileForciblyEnable=false\n"
    assert read_settings(text, BROKER_PROPERTIES).fields == {
        "delete_hours": (4, 16),
        "reserved_hours": 48,
        "disk_used_max": 95,
        "disk_warning_ratio": 0.5,
        "clean_forcibly": False,
    }


def test_the_share_of_memory_is_a_percentage_there_and_bytes_here() -> None:
    ratio = BROKER_PROPERTIES["accessMessageInMemoryMaxRatio"]
    assert ratio.parse("40") == BrokerConfig(broker_name="a", listen_host="10.0.0.1").memory_bytes
    assert format_value(ratio.parse, 3 << 30) == "40"
    with pytest.raises(ValueError, match="a number from 0 to 100 is allowed"):
        ratio.parse("101")
