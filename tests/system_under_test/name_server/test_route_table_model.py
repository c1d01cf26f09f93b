"""The route table against a plain model: any order of registrations, departures, silence and administration.

The model knows brokers and queues as two dicts and looks everything up by scanning; it has no caches to get stale.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from staticfire.system_under_test.name_server.route_table import (
    ABANDONED_NS,
    EXPIRY_NS,
    BrokerIdentity,
    Registration,
    RouteTable,
)
from staticfire.system_under_test.name_server.rules import (
    leaves_any_place,
    leaves_own_place,
    never_outdated,
    no_topics,
    older_connection,
    readable_topics,
)
from staticfire.system_under_test.protocol.bodies import DataVersion, TopicConfig

TOPICS = ("T", "U", "V")
CLUSTERS = ("c", "d")
NAMES = ("a", "b")
ADDRESSES = ("A1", "A2", "A3", "A4")
KEYS = (1, 2, 3, 4)

identities = st.builds(
    BrokerIdentity,
    cluster=st.sampled_from(CLUSTERS),
    broker_name=st.sampled_from(NAMES),
    broker_id=st.integers(0, 2),
    address=st.sampled_from(ADDRESSES),
)


@dataclass
class Heard:
    """The last registration from one address."""

    at_ns: int
    version: int
    key: int | None
    since_ns: int  # of the first registration with this key


@dataclass
class Model:
    faithful: bool
    ids: dict[tuple[str, int], str] = field(default_factory=dict)  # (name, id) -> address
    cluster_of: dict[str, str] = field(default_factory=dict)  # of the first registration
    members: set[tuple[str, str]] = field(default_factory=set)  # (cluster, name)
    queues: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    heard: dict[str, Heard] = field(default_factory=dict)  # by address
    # address -> the oldest connection in use, and the time, when it was last gone
    departures: dict[str, tuple[int, int]] = field(default_factory=dict)
    of_slaves: set[tuple[str, str]] = field(
        default_factory=set
    )  # (topic, name) in the master's absence

    def register(
        self, who: BrokerIdentity, topics: dict[str, int], version: int, key: int, now_ns: int
    ) -> str | None:
        place = (who.broker_name, who.broker_id)
        if self.is_outdated(who, key, now_ns):
            return None
        self.members.add((who.cluster, who.broker_name))
        self.cluster_of.setdefault(who.broker_name, who.cluster)
        for other in [p for p in self.ids if p[0] == who.broker_name and p != place]:
            if self.ids[other] == who.address:
                del self.ids[other]
        known = self.heard.get(who.address)
        is_news = place not in self.ids or known is None or known.version != version
        self.ids[place] = who.address
        if is_news or who.broker_id:
            self._take_topics(who, topics)
        since_ns = known.since_ns if known is not None and known.key == key else now_ns
        self.heard[who.address] = Heard(now_ns, version, key, since_ns)
        self.departures.pop(who.address, None)
        return self.master_of(who)

    def is_outdated(self, who: BrokerIdentity, key: int, now_ns: int) -> bool:
        known = self.heard.get(who.address)
        if known is not None:
            last_key, since_ns = known.key or 0, known.since_ns
        else:
            last_key, since_ns = self.departures.get(who.address, (0, 0))
        return not self.faithful and now_ns - since_ns <= ABANDONED_NS and last_key > key

    def master_of(self, who: BrokerIdentity) -> str | None:
        master = self.ids.get((who.broker_name, 0))
        return master if who.broker_id and master in self.heard else None

    def _take_topics(self, who: BrokerIdentity, topics: dict[str, int]) -> None:
        if who.broker_id == 0:
            mine = {place for place in self.of_slaves if place[1] == who.broker_name}
            self.of_slaves -= mine
            for place in mine:
                self.queues.pop(place, None)
        for topic, queues in topics.items():
            place = (topic, who.broker_name)
            if who.broker_id == 0:
                self.queues[place] = (queues, 6)
            elif self.faithful or (who.broker_name, 0) in self.ids:
                pass
            elif self.queues.get(place, (0, 0))[0] < queues:
                self.queues[place] = (queues, 4)
                self.of_slaves.add(place)

    def unregister(self, who: BrokerIdentity, key: int, now_ns: int) -> None:
        if self.is_outdated(who, key, now_ns):
            return
        known = self.heard.pop(who.address, None)
        if known is not None and known.key is not None:
            self.departures[who.address] = min(known.key, key), now_ns
        place = (who.broker_name, who.broker_id)
        if self.faithful or self.ids.get(place) == who.address:
            self.ids.pop(place, None)
        self.sweep()

    def destroy(self, address: str, now_ns: int) -> None:
        known = self.heard.pop(address, None)
        if known is not None and known.key is not None:
            self.departures[address] = known.key, now_ns
        self.ids = {place: found for place, found in self.ids.items() if found != address}
        self.sweep()

    def sweep(self) -> None:
        """Names without an id are gone from everywhere."""
        names = {name for name, _ in self.ids}
        self.cluster_of = {n: c for n, c in self.cluster_of.items() if n in names}
        self.members = {(c, n) for c, n in self.members if n in names}
        self.queues = {(t, n): q for (t, n), q in self.queues.items() if n in names}
        self.of_slaves = {(t, n) for t, n in self.of_slaves if n in names}

    def brokers(self, topic: str) -> dict[str, dict[int, str]]:
        names = sorted({name for found, name in self.queues if found == topic})
        return {
            name: {number: a for (n, number), a in self.ids.items() if n == name} for name in names
        }


class RouteTableMachine(RuleBasedStateMachine):
    faithful = False

    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable(
            slave_topics=no_topics if self.faithful else readable_topics,
            leaves=leaves_any_place if self.faithful else leaves_own_place,
            is_outdated=never_outdated if self.faithful else older_connection,
        )
        self.model = Model(faithful=self.faithful)
        self.now_ns = 0

    @rule(
        who=identities,
        topics=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3)),
        version=st.integers(1, 3),
        key=st.sampled_from(KEYS),
    )
    def register(self, who: BrokerIdentity, topics: dict[str, int], version: int, key: int) -> None:
        configs = {
            topic: TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
            for topic, queues in topics.items()
        }
        registration = Registration(
            identity=who,
            ha_address=f"ha-{who.address}",
            topics=configs,
            data_version=DataVersion(timestamp=1, counter=version),
        )
        reported = self.table.register(registration, now_ns=self.now_ns, connection_key=key)
        is_outdated = self.model.is_outdated(who, key, self.now_ns)
        master = self.model.register(who, topics, version, key, self.now_ns)
        assert (reported is None) is is_outdated
        assert reported is None or reported.address == master

    @rule(who=identities, key=st.sampled_from(KEYS))
    def unregister(self, who: BrokerIdentity, key: int) -> None:
        self.table.unregister(who, now_ns=self.now_ns, connection_key=key)
        self.model.unregister(who, key, self.now_ns)

    @rule(key=st.sampled_from(KEYS))
    def close(self, key: int) -> None:
        gone = [a for a, heard in self.model.heard.items() if heard.key == key]
        closed = self.table.connection_closed(key, now_ns=self.now_ns)
        assert sorted(closed.addresses) == sorted(gone)
        for address in gone:
            self.model.destroy(address, self.now_ns)

    @rule(key=st.sampled_from(KEYS))
    def detach(self, key: int) -> None:
        self.table.detach(key)
        for heard in self.model.heard.values():
            if heard.key == key:
                heard.key = None

    @rule()
    def drop_detached(self) -> None:
        self.table.drop_detached(now_ns=self.now_ns)
        for address in [a for a, heard in self.model.heard.items() if heard.key is None]:
            self.model.destroy(address, self.now_ns)

    @rule(address=st.sampled_from(ADDRESSES), version=st.integers(1, 3))
    def query_data_version(self, address: str, version: int) -> None:
        known = self.model.heard.get(address)
        found = self.table.data_version(address)
        assert (found and found.counter) == (known and known.version)
        if known is not None and known.version == version:
            self.table.touch(address, now_ns=self.now_ns)
            known.at_ns = self.now_ns

    @rule(quarters=st.integers(1, 5))
    def wait_and_scan(self, quarters: int) -> None:
        self.now_ns += quarters * EXPIRY_NS // 4 + 1
        late = [a for a, h in self.model.heard.items() if self.now_ns - h.at_ns > EXPIRY_NS]
        keys = [self.model.heard[a].key for a in late]
        assert self.table.expire(now_ns=self.now_ns) == [key for key in keys if key is not None]
        for address in late:
            self.model.destroy(address, self.now_ns)

    @rule(name=st.sampled_from(NAMES), adds=st.booleans())
    def change_permission(self, name: str, adds: bool) -> None:
        table, queues = self.table, self.model.queues
        change = table.add_write_permission if adds else table.wipe_write_permission
        places = [place for place in queues if place[1] == name]
        assert change(name) == len(places)
        for place in places:
            count, perm = queues[place]
            queues[place] = (count, 6 if adds else perm & ~2)

    @rule(topic=st.sampled_from(TOPICS), cluster=st.none() | st.sampled_from(CLUSTERS))
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, cluster=cluster)
        members = self.model.members
        for found, name in list(self.model.queues):
            if found == topic and (cluster is None or (cluster, name) in members):
                del self.model.queues[found, name]

    @invariant()
    def routes_agree(self) -> None:
        for topic in TOPICS:
            route = self.table.route(topic)
            brokers = route.broker_datas if route else []
            found = {broker.broker_name: broker.broker_addrs for broker in brokers}
            assert found == self.model.brokers(topic)
            queues = {
                q.broker_name: (q.read_queue_nums, q.perm)
                for q in (route.queue_datas if route else [])
            }
            expected = {n: q for (t, n), q in self.model.queues.items() if t == topic}
            assert queues == expected

    @invariant()
    def lists_agree(self) -> None:
        assert set(self.table.topics()) == {topic for topic, _ in self.model.queues}
        info = self.table.cluster_info()
        members = {(c, n) for c, names in info.cluster_addr_table.items() for n in names}
        assert members == self.model.members
        clusters = {name: broker.cluster for name, broker in info.broker_addr_table.items()}
        assert clusters == self.model.cluster_of
        for cluster in CLUSTERS:
            names = {n for c, n in self.model.members if c == cluster}
            topics = {t for t, n in self.model.queues if n in names}
            assert set(self.table.topics_by_cluster(cluster)) == topics


class FaithfulRouteTableMachine(RouteTableMachine):
    faithful = True


@pytest.mark.slow
@pytest.mark.parametrize("machine", [RouteTableMachine, FaithfulRouteTableMachine])
def test_the_table_agrees_with_the_model(machine: type[RouteTableMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=80, stateful_step_count=40))
