"""Configuration files of Apache RocketMQ nodes, and the configuration of their logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticfire.faults.model.topology import Replica
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.targets.node_properties import in_store
from staticfire.harness.targets.own_cluster import INDEX_NUMBERS, INDEX_SLOTS, QUEUE_FILE_BYTES
from staticfire.system_under_test.configuration import java_properties

REGISTER_PERIOD_MS = (
    10_000  # the shortest period that RocketMQ allows: slaves learn their master's address by it
)
FLUSH_TYPES = {"sync": "SYNC_FLUSH", "async": "ASYNC_FLUSH"}
MASTER_ROLES = {"sync": "SYNC_MASTER", "async": "ASYNC_MASTER", "none": "ASYNC_MASTER"}
SYSTEM_PREFIX = (
    "rocketmq."  # RocketMQ reads these options from Java's system properties, not from the file
)

# Logs to standard error, the log of a node. `staticfire.harness.environments.real.node_log` reads these lines.
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
    """Return a broker's configuration file: log files that roll within a short run, and the campaign's options."""
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
            "timerWheelEnable": "false",  # RocketMQ 5: writes files of 100 MB, and no workload uses it
            **_of_file(dict(in_store(campaign.broker_properties, store))),
        }
    )


def system_properties(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments of Java for the options that RocketMQ reads from system properties."""
    return tuple(
        f"-D{name}={value}" for name, value in properties.items() if name.startswith(SYSTEM_PREFIX)
    )


def _of_file(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if not name.startswith(SYSTEM_PREFIX)}


def _file(values: Mapping[str, str]) -> bytes:
    return java_properties.format_properties(values).encode()
