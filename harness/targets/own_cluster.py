"""Our own cluster: the configuration of each node of a campaign."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from staticfire.faults.model.topology import Replica, Topology
from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.accounts import ACCOUNTS_FILE, CREDENTIALS_FILE, LOAD, OPERATOR
from staticfire.harness.campaign.campaign import Campaign, CampaignError, Properties
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.machines.machine import HealthCheck
from staticfire.harness.targets.consumer_options import consumer_options
from staticfire.harness.targets.node_properties import STORE_ROOT, in_store, with_properties
from staticfire.harness.targets.target import Main
from staticfire.harness.truncated_repr import truncated_repr
from staticfire.harness.workloads.catalogue import WORKLOADS
from staticfire.harness.workloads.consumer_spec import ConsumerSpec
from staticfire.system_under_test.acl.signature import Credentials
from staticfire.system_under_test.broker.assembly.broker import main as broker_main
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.producer.producer import ProducerConfig
from staticfire.system_under_test.configuration import config as node_config
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.configuration.policy_choice import policy_names
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import main as name_server_main
from staticfire.system_under_test.name_server.policies import NAME_SERVER_POLICIES
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.runtime.env import Env, Storage, TlsMode
from staticfire.system_under_test.store.metadata_file import replace_atomically

NAME_SERVER_PORT = 9876
BROKER_PORT = 10911
# Requests that a healthy server answers at once.
NAME_SERVER_QUESTION = RequestCode.GET_BROKER_CLUSTER_INFO
BROKER_QUESTION = RequestCode.GET_BROKER_RUNTIME_INFO
QUEUE_FILE_BYTES = 4000  # 200 entries: queues roll within a short run
NAME_SERVER_POLICY = "name_server."  # prefix of the name server's policies in a campaign
ACCOUNTS_NAME, CREDENTIALS_NAME = "plain_acl.yml", "tools.yml"
INDEX_SLOTS, INDEX_NUMBERS = 500, 2000  # index files roll, too

Config = TypeVar("Config", BrokerConfig, NameServerConfig)
# Returns the address that a node (the first argument) uses for a server's address, such as a proxy's.
Reach = Callable[[str, str, ServerKind], str]


def directly(_node: str, address: str, _kind: ServerKind) -> str:
    """Return the server's own address."""
    return address


class OwnCluster:
    """The configurations of our own nodes and clients.

    Args:
        campaign: decides the nodes, and how they keep their data.
        addresses: the IP address of every node.
        stores: the folder of each server.
        reach: returns the address by which a node reaches a server, such as a proxy's.
        ports: the ports of servers that do not use the default one.
    """

    def __init__(
        self,
        campaign: Campaign,
        addresses: Mapping[str, str],
        stores: Mapping[str, str] = MappingProxyType({}),
        reach: Reach = directly,
        ports: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._campaign = campaign
        self._ports = ports
        self._addresses = addresses
        self._stores = stores
        self._reach = reach
        self.topology: Topology = campaign.topology()
        self.changed_specifications: dict[str, None] = {}  # consumers whose filter has changed

    def name_server_address(self, node: str) -> str:
        return f"{self._addresses[node]}:{self._ports.get(node, NAME_SERVER_PORT)}"

    def server_address(self, node: str) -> str:
        """Return `host:port` of a name server or broker."""
        if node in self.topology.coordinators:
            return self.name_server_address(node)
        return self.broker_address(node)

    def broker_address(self, node: str) -> str:
        return f"{self._addresses[node]}:{self._ports.get(node, BROKER_PORT)}"

    def serving(self, node: str) -> HealthCheck:
        """Return the health check of a name server or broker."""
        is_name_server = node in self.topology.coordinators
        question = NAME_SERVER_QUESTION if is_name_server else BROKER_QUESTION
        tls = self._campaign.tls == TlsMode.ENFORCING
        return HealthCheck(address=self.server_address(node), question=question, tls=tls)

    def store_folder(self, node: str) -> str:
        return self._stores.get(node, STORE_ROOT)

    def server_main(self, node: str, name_servers: Sequence[str]) -> Main:
        """Return the main coroutine of a name server or broker. A broker registers with the nodes `name_servers`."""
        if node in self.topology.coordinators:
            config = self.name_server_config(node)
            return lambda env: name_server_main(env, config)
        broker_config = self.broker_config(self.topology.replica(node), name_servers)
        files = self.account_files(node)

        async def main(env: Env) -> None:
            write_missing(env.storage, files)
            await broker_main(env, broker_config)

        return main

    def name_server_config(self, node: str) -> NameServerConfig:
        config = NameServerConfig(
            listen_host=self._addresses[node],
            listen_port=NAME_SERVER_PORT,
            kv_config_path=f"{self.store_folder(node)}/kvConfig.json",
            **self._mode(is_broker=False),
        )
        return _with_properties(
            config, self._campaign.coordinator_properties, node_config.NAME_SERVER_PROPERTIES
        )

    def broker_config(self, broker: Replica, name_servers: Sequence[str]) -> BrokerConfig:
        campaign = self._campaign
        others = [r for r in self.topology.replicas_of(broker.replica_set) if r.node != broker.node]
        try:
            config = BrokerConfig(
                broker_name=broker.replica_set,
                broker_id=broker.number,
                role=self._role(broker),
                listen_host=self._addresses[broker.node],
                listen_port=BROKER_PORT,
                name_servers=self.name_servers_for(broker.node, name_servers),
                store_path=self.store_folder(broker.node),
                sync_flush=campaign.flush == "sync",
                commit_log_file_size=campaign.log_file_bytes,
                consume_queue_file_size=QUEUE_FILE_BYTES,
                index_slots=INDEX_SLOTS,
                index_numbers=INDEX_NUMBERS,
                **self._mode(is_broker=True),
                ha_peers=tuple(self._ha_address_for(broker.node, other.node) for other in others),
                **self._access_control(broker.node),
            )
        except ValueError as error:
            raise CampaignError(f"{broker.node} cannot start: {error}") from error
        properties = in_store(campaign.broker_properties, config.store_path)
        return _with_properties(config, properties, node_config.BROKER_PROPERTIES)

    def _access_control(self, node: str) -> dict[str, Any]:
        if not self._campaign.acl:
            return {}
        folder = self._accounts_folder(node)
        return {
            "acl_enable": True,
            "acl_path": f"{folder}/{ACCOUNTS_NAME}",
            "acl_credentials_path": f"{folder}/{CREDENTIALS_NAME}",
        }

    def speaks_tls(self, node: str) -> bool:
        """Whether a node connects with TLS: every node if TLS is enforcing, every second one if it is permissive."""
        mode = TlsMode(self._campaign.tls)
        if mode is not TlsMode.PERMISSIVE:
            return mode is TlsMode.ENFORCING
        nodes = (*self.topology.servers, *self.topology.clients, ADMIN, PROBE)
        return nodes.index(node) % 2 == 1

    def account_files(self, node: str) -> dict[str, bytes]:
        """Return the files of a broker's access control, by path. Brokers change them: write only missing ones."""
        if not self._campaign.acl:
            return {}
        folder = self._accounts_folder(node)
        return {
            f"{folder}/{ACCOUNTS_NAME}": ACCOUNTS_FILE,
            f"{folder}/{CREDENTIALS_NAME}": CREDENTIALS_FILE,
        }

    def _accounts_folder(self, node: str) -> str:
        """Return the folder of the accounts, beside the store on the same disk."""
        return f"{self.store_folder(node).rpartition('/')[0]}/accounts"

    @property
    def operator(self) -> Credentials | None:
        """Return the keys of the administrator; None without access control."""
        return Credentials(**OPERATOR) if self._campaign.acl else None

    def _credentials(self) -> Credentials | None:
        """Return the keys of the load."""
        return Credentials(**LOAD) if self._campaign.acl else None

    def _mode(self, *, is_broker: bool) -> dict[str, Any]:
        """Return a node's mode: it is hardened if none of the campaign's faithful policies concern it."""
        policies = self._campaign.policies
        mine = tuple(
            name.removeprefix(NAME_SERVER_POLICY)
            for name in policies
            if name.startswith(NAME_SERVER_POLICY) is not is_broker
        )
        mode = Mode(self._campaign.mode) if mine or not policies else Mode.HARDENED
        return {"mode": mode, "faithful_policies": mine}

    def _role(self, broker: Replica) -> BrokerRole:
        if not broker.is_leader:
            return BrokerRole.SLAVE
        sync = self._campaign.replication == "sync"
        return BrokerRole.SYNC_MASTER if sync else BrokerRole.ASYNC_MASTER

    def producer_config(self, node: str, name_servers: Sequence[str]) -> ProducerConfig:
        return ProducerConfig(
            group="staticfire-producers",
            client_id=f"{self._addresses[node]}@{node}",
            name_servers=self.name_servers_for(node, name_servers),
            credentials=self._credentials(),
        )

    def consumer_config(self, node: str, name_servers: Sequence[str]) -> ConsumerConfig:
        return ConsumerConfig(
            client_id=f"{self._addresses[node]}@{node}",
            name_servers=self.name_servers_for(node, name_servers),
            credentials=self._credentials(),
            **consumer_options(self.spec(node), self.store_folder(node)),
        )

    def spec(self, node: str) -> ConsumerSpec:
        """Return the specification that the workload gives a consumer."""
        number = self.topology.consumers.index(node)
        workload = WORKLOADS[self._campaign.workload]
        if node in self.changed_specifications:
            return workload.member_changed(self._campaign, number)
        return workload.member(self._campaign, number)

    def name_servers_for(self, node: str, name_servers: Sequence[str]) -> tuple[str, ...]:
        """Return the addresses by which the node reaches these name servers (nodes)."""
        addresses = map(self.name_server_address, name_servers)
        return tuple(self._reach(node, address, ServerKind.NAME_SERVER) for address in addresses)

    def _ha_address_for(self, node: str, other: str) -> str:
        address = f"{self._addresses[other]}:{self._ports.get(other, BROKER_PORT) + 1}"
        return self._reach(node, address, ServerKind.HA)


def write_missing(storage: Storage, files: Mapping[str, bytes]) -> None:
    """Write, durably, each of these files that is missing. Raises OSError."""
    for path, data in files.items():
        if not storage.exists(path):
            replace_atomically(storage, path, data)


def _with_properties(
    config: Config, properties: Properties, known: Mapping[str, node_config.Property]
) -> Config:
    """Raises CampaignError for a property that is unknown, that a campaign cannot set, or that has a bad value."""
    try:
        return with_properties(config, properties, known)
    except ValueError as error:
        raise CampaignError(str(error)) from error


def check_properties(campaign: Campaign) -> None:
    """Raises CampaignError if a node of the campaign cannot have the campaign's properties or policies."""
    known = known_policies()
    for name in campaign.policies:
        if name not in known:
            raise CampaignError(
                f"policies hold {truncated_repr(name)}; there are: {', '.join(known)}"
            )
    topology = campaign.topology()
    names = [*topology.coordinators, *(broker.node for broker in topology.replicas)]
    cluster = OwnCluster(campaign, dict.fromkeys(names, "127.0.0.1"))
    cluster.name_server_config(topology.coordinators[0])
    for broker in topology.replicas:
        cluster.broker_config(broker, topology.coordinators)


def known_policies() -> tuple[str, ...]:
    """Return the names that `policies` of a campaign may hold."""
    servers = policy_names(NAME_SERVER_POLICIES[Mode.FAITHFUL])
    return (
        *policy_names(BROKER_POLICIES[Mode.FAITHFUL]),
        *(f"{NAME_SERVER_POLICY}{name}" for name in servers),
    )
