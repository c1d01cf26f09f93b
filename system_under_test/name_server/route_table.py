"""Maps topics to the brokers that serve them (RocketMQ: RouteInfoManager). Plain data and rules: no clock, no sockets.

Brokers register periodically. A broker stays in the table as long as it has a live entry, by its address. The entry is
dropped when the connection of its last registration ends, or when the broker has been silent for EXPIRY_NS.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from staticfire.system_under_test.name_server.rules import (
    PERMISSION_WRITE,
    IsOutdated,
    Leaves,
    SlaveTopics,
    leaves_own_place,
    older_connection,
    readable_topics,
)
from staticfire.system_under_test.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    TopicConfig,
    TopicRouteData,
)

MASTER_ID = 0  # RocketMQ, MixAll.MASTER_ID
# RocketMQ has no limits.
BROKERS_MAX = 1_000  # addresses, broker ids of all names, and broker names of clusters
ROUTES_MAX = 200_000  # topics of all brokers: one for each broker that has it
NAME_LENGTH_MAX = 512  # characters of a cluster, a broker, an address, a topic or a filter server
# How long a connection counts as abandoned once its broker has registered on a newer one. TCP retransmits data delayed
# by a network cut within this time (TCP_RTO_MAX). A broker that still uses the connection after that is alive.
ABANDONED_NS = 120_000_000_000
EXPIRY_NS = 120_000_000_000  # RocketMQ, RouteInfoManager.BROKER_CHANNEL_EXPIRED_TIME
PERMISSION_READ_WRITE = 6
UNIT_FLAG = 1  # RocketMQ, TopicSysFlag: bits of QueueData.topic_sys_flag
UNIT_SUBSCRIPTION_FLAG = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """A broker's identity, as it reports it. `address` is `ip:port` and the key of its live entry."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The content of one registration. `topics` may be a part of the broker's topics."""

    identity: BrokerIdentity
    ha_address: str
    topics: dict[str, TopicConfig]
    data_version: DataVersion
    filter_servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterAddresses:
    """The answer to a registering slave; both None for a master, or while no master is live."""

    address: str | None = None
    ha_address: str | None = None


@dataclass(slots=True, kw_only=True)
class LiveBroker:
    """A live entry. `connection_key` is None once its connection has ended during a pause of ours."""

    updated_ns: int
    connected_ns: int  # time of the first registration on that connection
    data_version: DataVersion
    connection_key: int | None
    ha_address: str
    # Older open connections on which it registered; the broker may still use one of them: if the end of a handshake
    # arrives late, a server may accept an abandoned connection after a newer one.
    older_keys: dict[int, None] = field(default_factory=dict)


class Gone(NamedTuple):
    """Addresses of dropped brokers, and keys of their open connections."""

    addresses: list[str]
    connection_keys: list[int]


class RouteTable:
    """Topics, brokers and clusters. Times are all from one clock.

    Args:
        slave_topics: which topics of a slave count while no master of its name is registered.
        leaves: whether a broker that unregisters frees its broker id.
        is_outdated: whether a request on a connection is older than the known registration.
    """

    def __init__(
        self,
        *,
        slave_topics: SlaveTopics = readable_topics,
        leaves: Leaves = leaves_own_place,
        is_outdated: IsOutdated = older_connection,
    ) -> None:
        self._slave_topics = slave_topics
        self._leaves = leaves
        self._is_outdated = is_outdated
        self._queues: dict[str, dict[str, QueueData]] = {}  # topic -> broker name
        self._queue_count = 0
        # broker name -> topics that only slaves have registered since its master left
        self._from_slaves: dict[str, set[str]] = {}
        self._brokers: dict[str, BrokerData] = {}  # broker name
        self._clusters: dict[
            str, dict[str, None]
        ] = {}  # cluster -> broker names, as an ordered set
        self._live: dict[str, LiveBroker] = {}  # broker address
        self._filter_servers: dict[str, tuple[str, ...]] = {}  # broker address
        # Address of a departed broker -> (key of the last connection on which it was registered, or of the one on which
        # it unregistered if that is older; time of its departure).
        self._departed: dict[str, tuple[int, int]] = {}

    # Registration

    def register(
        self, registration: Registration, *, now_ns: int, connection_key: int
    ) -> MasterAddresses | None:
        """Apply a registration; return the answer for slaves, None if the broker has used a newer connection since.

        Raises ValueError: the tables would be too large; nothing has changed.
        """
        self._check(registration)
        identity = registration.identity
        if self._is_old_news(identity.address, connection_key, now_ns):
            return None
        known = self._live.get(identity.address)
        is_new = known is None or known.connection_key != connection_key
        is_first = self._add_broker(identity)
        is_news = is_first or self.data_version(identity.address) != registration.data_version
        name = identity.broker_name
        if is_news and identity.broker_id == MASTER_ID:
            from_slaves = self._from_slaves.pop(name, set()) - registration.topics.keys()
            self._drop_queues(sorted(from_slaves & self._queues.keys()), (name,))
            self._set_queues(name, registration.topics)
        elif MASTER_ID not in self._brokers[name].broker_addrs:
            # Even if its version is not new: earlier the topics of its master counted instead.
            topics = self._slave_topics(name, registration.topics, self._queues)
            self._from_slaves.setdefault(name, set()).update(topics)
            self._set_queues(name, topics)
        self._live[identity.address] = LiveBroker(
            updated_ns=now_ns,
            connected_ns=now_ns if known is None or is_new else known.connected_ns,
            data_version=registration.data_version,
            connection_key=connection_key,
            ha_address=registration.ha_address,
            older_keys=self._older_keys(known, connection_key),
        )
        self._departed.pop(identity.address, None)
        self._filter_servers.pop(identity.address, None)
        if registration.filter_servers:
            self._filter_servers[identity.address] = registration.filter_servers
        return self._master_of(identity)

    def is_doubtful(self, registration: Registration, *, connection_key: int) -> bool:
        """Whether a broker may have given up the connection of this registration before we accepted it.

        It has sent a newer version on another open connection. A broker that lost its disk sends an older version, too.
        """
        live, said = self._live.get(registration.identity.address), registration.data_version
        if live is None or live.connection_key is None:
            return False
        is_less = (
            said.counter < live.data_version.counter
            and said.timestamp <= live.data_version.timestamp
        )
        return is_less and self._is_outdated(connection_key, live.connection_key)

    def _older_keys(self, known: LiveBroker | None, connection_key: int) -> dict[int, None]:
        if known is None or known.connection_key is None:
            return {}
        keys = {**known.older_keys, known.connection_key: None}
        return {key: None for key in keys if self._is_outdated(connection_key, key)}

    def _is_old_news(self, address: str, connection_key: int, now_ns: int) -> bool:
        live, departed = self._live.get(address), self._departed.get(address)
        if live is not None:
            last_key, since_ns = live.connection_key, live.connected_ns
        elif departed is not None:
            last_key, since_ns = departed
        else:
            return False
        return now_ns - since_ns <= ABANDONED_NS and self._is_outdated(last_key, connection_key)

    def _check(self, registration: Registration) -> None:
        """Raises ValueError."""
        identity, topics = registration.identity, registration.topics
        names = (identity.cluster, identity.broker_name, identity.address, registration.ha_address)
        longest = max(map(len, (*names, *topics, *registration.filter_servers)))
        check_count("characters of a name of the registration", longest, NAME_LENGTH_MAX)
        if identity.address not in self._live:
            check_count("addresses of brokers", len(self._live) + 1, BROKERS_MAX)
        broker = self._brokers.get(identity.broker_name)
        if broker is None or identity.broker_id not in broker.broker_addrs:
            ids = sum(len(known.broker_addrs) for known in self._brokers.values())
            check_count("brokers", ids + 1, BROKERS_MAX)
        if identity.broker_name not in self._clusters.get(identity.cluster, {}):
            names_count = sum(map(len, self._clusters.values()))
            check_count("broker names of clusters", names_count + 1, BROKERS_MAX)
        if self._queue_count + len(topics) > ROUTES_MAX:
            name = identity.broker_name
            new = sum(name not in self._queues.get(topic, {}) for topic in topics)
            if new:
                check_count("topics of brokers", self._queue_count + new, ROUTES_MAX)

    def _add_broker(self, identity: BrokerIdentity) -> bool:
        """Set the address of the broker id; True if that broker id was vacant."""
        self._clusters.setdefault(identity.cluster, {})[identity.broker_name] = None
        broker = self._brokers.get(identity.broker_name)
        if broker is None:
            broker = BrokerData(
                cluster=identity.cluster, broker_name=identity.broker_name, broker_addrs={}
            )
            self._brokers[identity.broker_name] = broker
        addresses = broker.broker_addrs
        # A slave that became master registers its address under another id.
        for broker_id in [number for number in addresses if addresses[number] == identity.address]:
            if broker_id != identity.broker_id:
                del addresses[broker_id]
        is_first = identity.broker_id not in addresses
        addresses[identity.broker_id] = identity.address
        return is_first

    def _set_queues(self, broker_name: str, topics: dict[str, TopicConfig]) -> None:
        # Topics that are missing here stay. Only delete_topic(), the departure of the broker, or a returned master that
        # lacks topics registered by its slaves removes a topic.
        alike: dict[QueueData, QueueData] = {}  # topics with the same queues share one object
        for topic, config in topics.items():
            self._queue_count += broker_name not in self._queues.get(topic, {})
            queues = QueueData(
                broker_name=broker_name,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
                perm=config.perm,
                topic_sys_flag=config.topic_sys_flag,
            )
            self._queues.setdefault(topic, {})[broker_name] = alike.setdefault(queues, queues)

    def _master_of(self, identity: BrokerIdentity) -> MasterAddresses:
        if identity.broker_id == MASTER_ID:
            return MasterAddresses()
        broker = self._brokers.get(identity.broker_name)
        address = broker.broker_addrs.get(MASTER_ID, "") if broker is not None else ""
        master = self._live.get(address)
        if master is None:
            return MasterAddresses()
        return MasterAddresses(address=address, ha_address=master.ha_address)

    def data_version(self, address: str) -> DataVersion | None:
        """The version of the last registration from this address; None if it is not live."""
        live = self._live.get(address)
        return live.data_version if live else None

    def touch(self, address: str, *, now_ns: int) -> None:
        """Keep a broker alive that has nothing new to register."""
        live = self._live.get(address)
        if live is not None:
            live.updated_ns = now_ns

    # Departure

    def unregister(self, identity: BrokerIdentity, *, now_ns: int, connection_key: int) -> None:
        """Drop a broker that unregisters."""
        if self._is_old_news(identity.address, connection_key, now_ns):
            return
        live = self._live.get(identity.address)
        if live is not None and live.connection_key is not None:
            last_key = min(live.connection_key, connection_key)
            self._note_departure(identity.address, last_key, now_ns)
        self._forget_live(identity.address)
        broker = self._brokers.get(identity.broker_name)
        if broker is None:
            return
        if self._leaves(broker.broker_addrs.get(identity.broker_id), identity.address):
            broker.broker_addrs.pop(identity.broker_id, None)
        self._drop_if_empty([broker])

    def _note_departure(self, address: str, last_key: int, now_ns: int) -> None:
        self._departed.pop(address, None)
        self._departed[address] = last_key, now_ns
        if len(self._departed) > BROKERS_MAX:
            del self._departed[next(iter(self._departed))]  # the oldest

    def expire(self, *, now_ns: int) -> list[int]:
        """Drop brokers silent for EXPIRY_NS; return the keys of their connections, for the caller to close."""
        self._departed = {
            address: departure
            for address, departure in self._departed.items()
            if now_ns - departure[1] <= ABANDONED_NS
        }
        late = [
            address for address, live in self._live.items() if now_ns - live.updated_ns > EXPIRY_NS
        ]
        return self._destroy_all(late, now_ns)

    def connection_closed(self, key: int, *, now_ns: int, most: int | None = None) -> Gone:
        """Drop the brokers registered on a connection that has ended, up to `most` of them.

        The caller must close their older connections: a broker that still uses one of them will register again.
        """
        for live in self._live.values():
            live.older_keys.pop(key, None)
        gone = self._registered_on(key)[:most]
        older = [older_key for address in gone for older_key in self._live[address].older_keys]
        self._destroy_all(gone, now_ns)
        return Gone(gone, sorted(older))

    def detach(self, key: int) -> None:
        """Keep the brokers registered on a connection that has ended, until drop_detached()."""
        for address in self._registered_on(key):
            self._live[address].connection_key = None

    def drop_detached(self, *, now_ns: int) -> None:
        """Drop detached brokers that have not registered since."""
        detached = [address for address, live in self._live.items() if live.connection_key is None]
        self._destroy_all(detached, now_ns)

    def _registered_on(self, key: int) -> list[str]:
        return [address for address, live in self._live.items() if live.connection_key == key]

    def _destroy_all(self, addresses: list[str], now_ns: int) -> list[int]:
        """Drop brokers (RocketMQ, onChannelDestroy); return the keys of their connections that may be open."""
        keys = []
        for address in addresses:
            key = self._live[address].connection_key
            if key is not None:
                keys.append(key)
                self._note_departure(address, key, now_ns)
            self._forget_live(address)
        gone = dict.fromkeys(addresses)
        touched = []
        for broker in self._brokers.values() if gone else ():
            of_id = broker.broker_addrs
            ids = [broker_id for broker_id in of_id if of_id[broker_id] in gone]
            for broker_id in ids:
                del of_id[broker_id]
            if ids:
                touched.append(broker)
        self._drop_if_empty(touched)
        return keys

    def _forget_live(self, address: str) -> None:
        self._live.pop(address, None)
        self._filter_servers.pop(address, None)

    def _drop_if_empty(self, brokers: list[BrokerData]) -> None:
        """Drop broker names without addresses. A name with a slave left keeps its topics, and clients see no id 0."""
        empty = {broker.broker_name: None for broker in brokers if not broker.broker_addrs}
        for name in empty:
            del self._brokers[name]
            self._from_slaves.pop(name, None)
            for cluster in [cluster for cluster, names in self._clusters.items() if name in names]:
                del self._clusters[cluster][name]
                if not self._clusters[cluster]:
                    del self._clusters[cluster]
        if empty:
            self._drop_queues(list(self._queues), empty)

    def _drop_queues(self, topics: list[str], broker_names: Collection[str]) -> None:
        for topic in topics:
            queues = self._queues[topic]
            # Iterate over the shorter one: many brokers may each have many topics that no other broker has.
            if len(queues) < len(broker_names):
                gone = [name for name in queues if name in broker_names]
            else:
                gone = [name for name in broker_names if name in queues]
            for name in gone:
                del queues[name]
                self._queue_count -= 1
            if not queues:
                del self._queues[topic]

    # Questions

    def route(self, topic: str) -> TopicRouteData | None:
        """Queues and brokers of a topic, even if only slaves are left; None if it has neither."""
        queues = self._queues.get(topic, {})
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        addresses = [address for broker in brokers for address in broker.broker_addrs.values()]
        return TopicRouteData(
            queue_datas=list(queues.values()),
            broker_datas=brokers,
            filter_server_table={
                address: list(self._filter_servers[address])
                for address in addresses
                if address in self._filter_servers
            },
        )

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table=dict(self._brokers),
            cluster_addr_table={cluster: list(names) for cluster, names in self._clusters.items()},
        )

    def topics(self) -> list[str]:
        return list(self._queues)

    def topics_by_cluster(self, cluster: str) -> list[str]:
        names = self._clusters.get(cluster, {})
        return [
            topic for topic, queues in self._queues.items() if any(name in names for name in queues)
        ]

    def topics_by_flags(self, *, has: int, lacks: int = 0) -> list[str]:
        """Topics whose first queue data has the flag `has` and not `lacks` (RocketMQ, getUnitTopics and others)."""
        flags = {
            topic: next(iter(queues.values())).topic_sys_flag
            for topic, queues in self._queues.items()
        }
        return [topic for topic, flag in flags.items() if flag & has and not flag & lacks]

    def clusters_and_brokers(self) -> list[str]:
        """The names of all clusters and all brokers, which are topics of every broker."""
        return [*self._clusters, *(name for names in self._clusters.values() for name in names)]

    def some_address(self) -> str | None:
        for broker in self._brokers.values():
            return next(iter(broker.broker_addrs.values()))
        return None

    # Administration; only in the memory of this name server

    def wipe_write_permission(self, broker_name: str) -> int:
        """Stop writes to a broker until its next changed registration; return the number of topics."""
        return self._change_permission(broker_name, and_mask=~PERMISSION_WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Set the permission of a broker's topics to read and write; return the number of topics."""
        return self._change_permission(broker_name, and_mask=0, or_mask=PERMISSION_READ_WRITE)

    def _change_permission(self, broker_name: str, *, and_mask: int, or_mask: int = 0) -> int:
        count = 0
        for queues in self._queues.values():
            queue = queues.get(broker_name)
            if queue is not None:
                queues[broker_name] = replace(queue, perm=queue.perm & and_mask | or_mask)
                count += 1
        return count

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic from the table, for all brokers or for those of one cluster."""
        if topic not in self._queues:
            return
        names: Collection[str] = self._queues[topic]
        if cluster is not None:
            names = self._clusters.get(cluster, {})
        self._drop_queues([topic], names)


def check_count(what: str, count: int, count_max: int) -> None:
    """Raises ValueError if `count` is above `count_max`."""
    if count > count_max:
        raise ValueError(f"{what} would be {count}; allowed: up to {count_max}")
