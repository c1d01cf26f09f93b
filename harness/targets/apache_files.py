"""Configuration files of Apache RocketMQ nodes, and the destination of their logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticfire.faults.model.topology import Replica
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.targets.node_properties import in_store
from staticfire.harness.targets.own_cluster import INDEX_NUMBERS, INDEX_SLOTS, QUEUE_FILE_BYTES
from staticfire.system_under_test.configuration import java_properties

REGISTER_PERIOD_MS = 10_000  # the least that RocketMQ takes: slaves find their master by it
FLUSH_TYPES = {"sync": "SYNC_FLUSH", "async": "ASYNC_FLUSH"}
MASTER_ROLES = {"sync": "SYNC_MASTER", "async": "ASYNC_MASTER", "none": "ASYNC_MASTER"}
SYSTEM_PREFIX = "rocketmq."  # these options are system properties of Java, not of the file

# To standard error, which is the log of a node. `staticfire.harness.environments.real.node_log` reads these lines.
LOGBACK = b"""<configuration>
  <appender name="error" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %p [%t] %logger{0} - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="error"/></root>
</configuration>
"""


def name_server_file(campaign: Campaign, folder: str, port: int) -> bytes:
    return _file(
        {
            "listenPort": str(port),
            "kvConfigPath": f"{folder}/store/kvConfig.json",
            **_of_file(dict(campaign.coordinator_properties)),
        }
    )


def broker_file(
    campaign: Campaign,
    broker: Replica,
    *,
    address: str,
    port: int,
    folder: str,
    name_servers: Sequence[str],
) -> bytes:
    """Small files, so that they roll within a short run, and what the campaign says of flush and replication."""
    store = f"{folder}/store"
    return _file(
        {
            "brokerClusterName": "staticfire",
            "brokerName": broker.replica_set,
            "brokerId": str(broker.number),
            "brokerRole": MASTER_ROLES[campaign.replication] if broker.is_leader else "SLAVE",
            "flushDiskType": FLUSH_TYPES[campaign.flush],
            "brokerIP1": address,
            "brokerIP2": address,
            "listenPort": str(port),
            "haListenPort": str(port + 1),
            "namesrvAddr": ";".join(name_servers),
            "registerNameServerPeriod": str(REGISTER_PERIOD_MS),
            "storePathRootDir": store,
            "storePathCommitLog": f"{store}/commitlog",
            "storePathConsumeQueue": f"{store}/consumequeue",
            "storePathIndex": f"{store}/index",
            "storeCheckpoint": f"{store}/checkpoint",
            "abortFile": f"{store}/abort",
            "mappedFileSizeCommitLog": str(campaign.log_file_bytes),
            "mappedFileSizeConsumeQueue": str(QUEUE_FILE_BYTES),
            "maxHashSlotNum": str(INDEX_SLOTS),
            "maxIndexNum": str(INDEX_NUMBERS),
            "timerWheelEnable": "false",  # of RocketMQ 5: files of 100 MB for what no workload asks
            **_of_file(dict(in_store(campaign.broker_properties, store))),
        }
    )


def system_properties(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Arguments of Java for those options that RocketMQ reads there."""
    return tuple(
        f"-D{name}={value}" for name, value in properties.items() if name.startswith(SYSTEM_PREFIX)
    )


def _of_file(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if not name.startswith(SYSTEM_PREFIX)}


def _file(values: Mapping[str, str]) -> bytes:
    return java_properties.format_properties(values).encode()
