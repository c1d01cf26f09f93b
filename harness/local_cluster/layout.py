"""Lays out a local cluster: its nodes, their ports, the configuration of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from staticfire.harness.local_cluster.errors import ClusterOptionError
from staticfire.harness.local_cluster.options import (
    BROKER_PORT_DISTANCE,
    BROKER_PORT_STEP,
    ClusterOptions,
)
from staticfire.harness.local_cluster.ports import BLOCK, HA_PORT_DISTANCE, HOST
from staticfire.harness.targets.node_properties import with_properties
from staticfire.harness.truncated_repr import truncated_repr
from staticfire.system_under_test.broker.config import MASTER_ID, BrokerConfig, BrokerRole
from staticfire.system_under_test.configuration.config import BROKER_PROPERTIES
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.name_server.config import NameServerConfig

# Sizes for test machines, which need neither RocketMQ's file sizes of gigabytes nor millions of messages a queue.
COMMIT_LOG_FILE_BYTES = 64 << 20
QUEUE_FILE_BYTES = 200_000  # 10,000 messages
INDEX_SLOTS = 50_000
INDEX_NUMBERS = 200_000
RECONNECT_DELAY_S = 0.05
SLAVE_SYNC_FIRST_S = 0.5
# Properties that would make brokers of one machine share folders.
FOLDER_PROPERTIES = ("storePathCommitLog", "readOnlyCommitLogStorePaths")
CHANGES_FILE = "changed.properties"  # options that were changed while the broker ran
REGISTER_PERIOD_S = 1.0  # short, so that a restarted name server soon has all brokers

Config = NameServerConfig | BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A name server or a broker of a local cluster."""

    name: str
    address: str  # host:port
    config: Config

    @property
    def is_broker(self) -> bool:
        return isinstance(self.config, BrokerConfig)

    @property
    def broker_name(self) -> str:
        """The broker's name, which a master and its slaves share; empty for a name server."""
        return self.config.broker_name if isinstance(self.config, BrokerConfig) else ""

    @property
    def broker_id(self) -> int:
        """The broker's id: 0 for a master; -1 for a name server."""
        return self.config.broker_id if isinstance(self.config, BrokerConfig) else -1

    @property
    def is_slave(self) -> bool:
        return self.broker_id > MASTER_ID

    @property
    def role(self) -> str:
        """The role in words."""
        if not self.is_broker:
            return "name server"
        return f"slave {self.broker_id}" if self.is_slave else "master"

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports on which the node listens."""
        port = self.config.listen_port
        return tuple(port + distance for distance in BLOCK) if self.is_broker else (port,)


def node_names(options: ClusterOptions) -> tuple[str, ...]:
    """Return the names in starting order: name servers, masters, slaves."""
    names = [f"name-server-{number}" for number in range(1, options.name_servers + 1)]
    masters = [_broker_name(index) for index in range(options.masters)]
    names += [f"{master}-{MASTER_ID}" for master in masters]
    for master, count in zip(masters, options.slave_counts, strict=True):
        names += [f"{master}-{broker_id}" for broker_id in range(1, count + 1)]
    return tuple(names)


def fixed_ports(options: ClusterOptions) -> dict[str, int]:
    """Return ports: name servers from `options.port` up, brokers from 1035 above it, as 10911 is above 9876."""
    names = node_names(options)
    count = options.name_servers
    ports = {name: options.port + index for index, name in enumerate(names[:count])}
    first = options.port + BROKER_PORT_DISTANCE
    for index, name in enumerate(names[count:]):
        ports[name] = first + index * BROKER_PORT_STEP
    return ports


def make_nodes(
    options: ClusterOptions, ports: Mapping[str, int], folder: Path, *, is_new: bool
) -> tuple[Node, ...]:
    """Return the nodes in starting order; their data are below `folder`.

    In a new cluster slaves have no records, so masters need not fetch records from them first.

    Raises ClusterOptionError for a broker property that cannot be used.
    """
    names = node_names(options)
    name_servers = tuple(f"{HOST}:{ports[name]}" for name in names[: options.name_servers])
    nodes = []
    for name in names:
        config: Config
        if name.startswith("name-server-"):
            config = NameServerConfig(
                listen_host=HOST,
                listen_port=ports[name],
                kv_config_path=str(folder / name / "kvConfig.json"),
                config_path=str(folder / name / "namesrv.properties"),
                mode=_mode(options),
            )
        else:
            config = _broker_config(options, name, ports, name_servers, folder, is_new=is_new)
        nodes.append(Node(name=name, address=f"{HOST}:{ports[name]}", config=config))
    return tuple(nodes)


def _broker_config(
    options: ClusterOptions,
    name: str,
    ports: Mapping[str, int],
    name_servers: tuple[str, ...],
    folder: Path,
    *,
    is_new: bool,
) -> BrokerConfig:
    broker_name, _, number = name.rpartition("-")
    broker_id = int(number)
    replicas = [other for other in ports if other.rpartition("-")[0] == broker_name]
    ha = {other: f"{HOST}:{ports[other] + HA_PORT_DISTANCE}" for other in replicas}
    config = BrokerConfig(
        broker_name=broker_name,
        broker_id=broker_id,
        role=_role(options, broker_id),
        listen_host=HOST,
        listen_port=ports[name],
        name_servers=name_servers,
        store_path=str(folder / name),
        changes_file=str(folder / name / CHANGES_FILE),
        sync_flush=options.flush == "sync",
        commit_log_file_size=COMMIT_LOG_FILE_BYTES,
        consume_queue_file_size=QUEUE_FILE_BYTES,
        index_slots=INDEX_SLOTS,
        index_numbers=INDEX_NUMBERS,
        ha_master_address=ha[f"{broker_name}-{MASTER_ID}"] if broker_id else None,
        ha_peers=() if is_new else tuple(ha[other] for other in replicas if other != name),
        ha_reconnect_delay_s=RECONNECT_DELAY_S,
        slave_sync_first_s=SLAVE_SYNC_FIRST_S,
        register_period_s=REGISTER_PERIOD_S,
        mode=_mode(options),
    )
    for property_name, value in options.broker_properties:
        if property_name in FOLDER_PROPERTIES:
            raise ClusterOptionError(
                f"the property {property_name}={truncated_repr(value)} would give all brokers of the cluster"
                " the same folders; each keeps its log in the folder of its own"
            )
    try:
        return with_properties(config, options.broker_properties, BROKER_PROPERTIES)
    except ValueError as error:
        raise ClusterOptionError(str(error)) from error


def _mode(options: ClusterOptions) -> Mode:
    return Mode.FAITHFUL if options.faithful else Mode.HARDENED


def _role(options: ClusterOptions, broker_id: int) -> BrokerRole:
    if broker_id != MASTER_ID:
        return BrokerRole.SLAVE
    return BrokerRole.SYNC_MASTER if options.replication == "sync" else BrokerRole.ASYNC_MASTER


def _broker_name(index: int) -> str:
    return f"broker-{chr(ord('a') + index)}"
