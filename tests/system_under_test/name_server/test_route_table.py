"""The rules of the route table one by one. A broker is written `cluster/name/id@address`."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.name_server import route_table
from staticfire.system_under_test.name_server.policies import NAME_SERVER_POLICIES
from staticfire.system_under_test.name_server.route_table import (
    NAME_LENGTH_MAX,
    BrokerIdentity,
    MasterAddresses,
    Registration,
    RouteTable,
)
from staticfire.system_under_test.protocol.bodies import DataVersion, TopicConfig

SECOND_NS = 1_000_000_000
NOT_LIVE = MasterAddresses()


def identity(text: str) -> BrokerIdentity:
    names, address = text.split("@")
    cluster, broker_name, broker_id = names.split("/")
    return BrokerIdentity(
        cluster=cluster, broker_name=broker_name, broker_id=int(broker_id), address=address
    )


def topic_config(topic: str, queues: int = 4, sys_flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, topic_sys_flag=sys_flag
    )


class Registry:
    """A route table and the time of its clock."""

    def __init__(self) -> None:
        self.table = RouteTable()
        self.now_s = 1000.0

    @property
    def now_ns(self) -> int:
        return int(self.now_s * SECOND_NS)

    def register(
        self,
        broker: str,
        *topics: str,
        version: int = 1,
        key: int = 1,
        queues: int = 4,
        filters: tuple[str, ...] = (),
    ) -> MasterAddresses | None:
        return self.table.register(
            Registration(
                identity=identity(broker),
                ha_address=f"ha-{identity(broker).address}",
                topics={topic: topic_config(topic, queues) for topic in topics},
                data_version=DataVersion(timestamp=1, counter=version),
                filter_servers=filters,
            ),
            now_ns=self.now_ns,
            connection_key=key,
        )

    def unregister(self, broker: str, *, key: int = 99) -> None:
        self.table.unregister(identity(broker), now_ns=self.now_ns, connection_key=key)

    def brokers(self, topic: str) -> dict[str, dict[int, str]] | None:
        """Broker names and addresses in the route of a topic."""
        route = self.table.route(topic)
        if route is None:
            return None
        assert [queue.broker_name for queue in route.queue_datas] == [
            broker.broker_name for broker in route.broker_datas
        ]
        return {broker.broker_name: dict(broker.broker_addrs) for broker in route.broker_datas}

    def queues(self, topic: str) -> dict[str, tuple[int, int]]:
        """Broker name -> (write queues, permission)."""
        route = self.table.route(topic)
        assert route is not None
        return {
            queue.broker_name: (queue.write_queue_nums, queue.perm) for queue in route.queue_datas
        }


@pytest.fixture
def registry() -> Registry:
    return Registry()


# Registering


def test_a_route_has_all_brokers_of_the_topic(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", "OnlyA")
    registry.register("c/b/0@B", "T", key=2)
    registry.register("c/b/1@B1", "T", key=3)
    assert registry.brokers("T") == {"a": {0: "A"}, "b": {0: "B", 1: "B1"}}
    assert registry.brokers("OnlyA") == {"a": {0: "A"}}
    assert registry.brokers("Unknown") is None


def test_a_slave_tells_nothing_about_topics_while_its_master_is_known(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", queues=4)
    registry.register("c/a/1@A1", "T", "U", queues=8, key=2)
    assert (registry.queues("T"), registry.brokers("U")) == ({"a": (4, 6)}, None)


def test_what_only_a_slave_knows_can_be_read_until_the_master_is_back(registry: Registry) -> None:
    registry.register("c/a/1@A1", "T", queues=4)
    assert (registry.brokers("T"), registry.queues("T")) == ({"a": {1: "A1"}}, {"a": (4, 4)})
    registry.register("c/a/0@A", "T", queues=8, key=2)
    assert registry.queues("T") == {"a": (8, 6)}


def test_what_only_a_slave_knew_is_gone_if_its_master_lacks_it(registry: Registry) -> None:
    registry.register("c/b/0@B", "Deleted", key=3)
    registry.register("c/a/1@A1", "T", "Deleted", queues=4)
    registry.register("c/a/0@A", "T", queues=4, key=2)
    assert registry.queues("T") == {"a": (4, 6)}
    assert registry.brokers("Deleted") == {"b": {0: "B"}}


def test_a_master_that_lacks_what_it_had_registered_itself_changes_nothing(
    registry: Registry,
) -> None:
    registry.register("c/a/0@A", "T", "U", queues=4)
    registry.register("c/a/1@A1", "T", "U", queues=4, key=2)
    registry.unregister("c/a/0@A")
    registry.register("c/a/1@A1", "T", "U", queues=4, key=2)
    registry.register("c/a/0@A", "T", version=2, queues=4, key=4)
    assert registry.queues("U") == {"a": (4, 6)}


def test_a_slave_does_not_change_what_its_master_registered(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", queues=8)
    registry.register("c/a/1@A1", "T", queues=8, key=2)
    registry.unregister("c/a/0@A")
    registry.register("c/a/1@A1", "T", "U", version=2, queues=4, key=2)
    assert (registry.queues("T"), registry.queues("U")) == ({"a": (8, 6)}, {"a": (4, 4)})


def test_queues_that_the_master_got_unheard_are_read_from_its_slave(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", queues=4)
    registry.register(
        "c/a/1@A1", "T", queues=8, version=2, key=2
    )  # the master did so, too, at other name servers
    assert registry.queues("T") == {"a": (4, 6)}
    registry.unregister("c/a/0@A")
    registry.register("c/a/1@A1", "T", queues=8, version=2, key=2)
    assert registry.queues("T") == {"a": (8, 4)}


def test_topics_that_a_registration_misses_stay(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", version=1)
    registry.register("c/a/0@A", "U", version=2)
    assert (registry.brokers("T"), registry.brokers("U")) == ({"a": {0: "A"}}, {"a": {0: "A"}})


@pytest.mark.parametrize(("version", "queues"), [(1, 4), (2, 8), (0, 8)])
def test_topics_change_only_with_another_data_version(
    registry: Registry, version: int, queues: int
) -> None:
    registry.register("c/a/0@A", "T", version=1, queues=4)
    registry.register("c/a/0@A", "T", version=version, queues=8)
    assert registry.queues("T") == {"a": (queues, 6)}


def test_the_same_version_counts_when_the_broker_id_was_vacant(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", version=1, queues=4)
    registry.register("c/a/1@A1", version=1, key=2)
    registry.unregister("c/a/0@A")
    registry.register("c/a/0@A", "T", version=1, queues=8)
    assert registry.queues("T") == {"a": (8, 6)}


def test_the_same_version_counts_when_a_slave_becomes_master(registry: Registry) -> None:
    registry.register("c/a/1@A", version=1)
    registry.register("c/a/0@A", "T", version=1)
    assert registry.brokers("T") == {"a": {0: "A"}}


def test_the_same_version_counts_from_an_address_that_was_not_live(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", version=1, queues=4)
    registry.register("c/a/0@B", "T", version=1, queues=8, key=2)
    assert registry.queues("T") == {"a": (8, 6)}


def test_a_promoted_slave_keeps_one_id(registry: Registry) -> None:
    registry.register("c/a/0@A", "T")
    registry.register("c/a/1@A1", key=2)
    registry.unregister("c/a/0@A")
    registry.register("c/a/0@A1", "T", key=2)
    assert registry.brokers("T") == {"a": {0: "A1"}}


def test_another_address_with_the_same_id_takes_the_place(registry: Registry) -> None:
    registry.register("c/a/0@A", "T")
    registry.register("c/a/0@B", "T", key=2)
    assert registry.brokers("T") == {"a": {0: "B"}}
    # The old address is still live, and its end takes nothing from the new one.
    assert registry.table.connection_closed(1, now_ns=registry.now_ns).addresses == ["A"]
    assert registry.brokers("T") == {"a": {0: "B"}}


def test_the_cluster_of_a_known_broker_name_stays(registry: Registry) -> None:
    registry.register("c/a/0@A", "T")
    registry.register("other/a/0@A", "T", version=2)
    info = registry.table.cluster_info()
    assert info.broker_addr_table["a"].cluster == "c"
    assert info.cluster_addr_table == {"c": ["a"], "other": ["a"]}


@pytest.mark.parametrize(
    ("before", "who", "reported"),
    [
        (["c/a/0@A"], "c/a/1@A1", MasterAddresses(address="A", ha_address="ha-A")),
        (["c/a/0@A"], "c/a/0@A", NOT_LIVE),  # a master has no master
        (["c/b/0@B"], "c/a/1@A1", NOT_LIVE),  # another broker name
        (["c/a/2@A2"], "c/a/1@A1", NOT_LIVE),  # only slaves
    ],
)
def test_a_slave_gets_the_address_of_its_master(
    registry: Registry, before: list[str], who: str, reported: MasterAddresses
) -> None:
    for key, broker in enumerate(before):
        registry.register(broker, "T", key=key)
    assert registry.register(who, key=9) == reported


def test_filter_servers_are_replaced_with_each_registration(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", filters=("F1", "F2"))
    route = registry.table.route("T")
    assert route is not None
    assert route.filter_server_table == {"A": ["F1", "F2"]}
    registry.register("c/a/0@A", "T")
    route = registry.table.route("T")
    assert route is not None
    assert route.filter_server_table == {}


# Leaving


def test_an_old_master_that_leaves_late_does_not_take_the_new_one_along(registry: Registry) -> None:
    registry.register("c/a/0@Old", "T")
    registry.register("c/a/0@New", "T", key=2)
    registry.unregister("c/a/0@Old")
    assert registry.brokers("T") == {"a": {0: "New"}}
    assert registry.table.data_version("Old") is None
    registry.unregister("c/a/0@New")
    assert registry.brokers("T") is None


def test_in_faithful_mode_it_does(registry: Registry) -> None:
    registry.table = RouteTable(leaves=NAME_SERVER_POLICIES[Mode.FAITHFUL].leaves)
    registry.register("c/a/0@Old", "T")
    registry.register("c/a/0@New", "T", key=2)
    registry.unregister("c/a/0@Old")
    assert registry.brokers("T") is None


def test_what_is_read_late_from_an_older_connection_changes_nothing(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", key=2, version=2, queues=6)
    registry.register("c/a/0@A", "T", key=1, version=1, queues=2)
    registry.unregister("c/a/0@A", key=1)
    assert registry.queues("T") == {"a": (6, 6)}
    assert registry.table.connection_closed(1, now_ns=registry.now_ns).addresses == []
    assert registry.register("c/b/1@A", key=1) is None
    assert registry.brokers("T") == {"a": {0: "A"}}


def test_in_faithful_mode_an_older_registration_may_be_the_last_word(registry: Registry) -> None:
    registry.table = RouteTable(is_outdated=NAME_SERVER_POLICIES[Mode.FAITHFUL].is_outdated)
    registry.register("c/a/0@A", "T", key=2, version=2, queues=6)
    registry.register("c/a/0@A", "T", key=1, version=1, queues=2)
    assert registry.queues("T") == {"a": (2, 6)}
    registry.unregister("c/a/0@A", key=1)
    assert registry.brokers("T") is None


@pytest.mark.parametrize(
    ("key", "passed_s", "is_back"),
    [
        (1, 0, False),  # its process had sent it before it said goodbye
        (1, 120, False),
        (1, 120.1, True),
        (2, 0, True),
        (3, 0, True),  # it started again
    ],
)
def test_a_goodbye_outlives_what_is_read_late_from_an_older_connection(
    registry: Registry, key: int, passed_s: float, is_back: bool
) -> None:
    registry.register("c/a/0@A", "T", key=2)
    registry.unregister("c/a/0@A", key=4)
    registry.now_s += passed_s
    registry.table.expire(now_ns=registry.now_ns)
    registry.register("c/a/0@A", "T", key=key)
    assert registry.brokers("T") == ({"a": {0: "A"}} if is_back else None)


@pytest.mark.parametrize(
    ("key", "passed_s", "is_back"),
    [(1, 0, False), (1, 120, False), (1, 120.1, True), (3, 0, True)],
)
@pytest.mark.parametrize("leaves", ["closed", "silent"])
def test_so_does_the_end_of_its_connection(
    registry: Registry, leaves: str, key: int, passed_s: float, is_back: bool
) -> None:
    """What a cut held up comes after the process has ended, and the process does not."""
    registry.register("c/a/0@A", "T", key=2)
    if leaves == "closed":
        registry.table.connection_closed(2, now_ns=registry.now_ns)
    else:
        registry.now_s += 121
        assert registry.table.expire(now_ns=registry.now_ns) == [2]
    registry.now_s += passed_s
    registry.table.expire(now_ns=registry.now_ns)
    registry.register("c/a/0@A", "T", key=key)
    assert registry.brokers("T") == ({"a": {0: "A"}} if is_back else None)


def test_in_faithful_mode_an_older_connection_brings_a_broker_back(registry: Registry) -> None:
    registry.table = RouteTable(is_outdated=NAME_SERVER_POLICIES[Mode.FAITHFUL].is_outdated)
    registry.register("c/a/0@A", "T", key=2)
    registry.unregister("c/a/0@A", key=2)
    registry.register("c/a/0@A", "T", key=1)
    assert registry.brokers("T") == {"a": {0: "A"}}


def test_the_oldest_of_too_many_goodbyes_is_forgotten(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_table, "BROKERS_MAX", 3)
    for number in range(4):
        registry.register(f"c/a/0@A{number}", "T", key=2)
        registry.unregister(f"c/a/0@A{number}", key=2)
    registry.register("c/a/0@A1", "T", key=1)
    assert registry.brokers("T") is None
    registry.register("c/a/0@A0", "T", key=1)
    assert registry.brokers("T") == {"a": {0: "A0"}}


def test_a_goodbye_of_an_unknown_broker_is_not_kept(registry: Registry) -> None:
    registry.unregister("c/a/0@A", key=2)
    registry.register("c/a/0@A", "T", key=1)
    assert registry.brokers("T") == {"a": {0: "A"}}


def test_a_broker_that_goes_on_speaking_on_its_connection_is_heard(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", key=1, queues=6)
    registry.register("c/a/0@A", "T", key=2, version=9, queues=1)  # of another process
    registry.now_s += 110
    registry.register("c/a/0@A", "T", key=2, version=9, queues=1)
    registry.register("c/a/0@A", "T", key=1, queues=6)
    assert registry.queues("T") == {"a": (1, 6)}
    registry.now_s += 10.1
    registry.register("c/a/0@A", "T", key=1, queues=6)
    assert registry.queues("T") == {"a": (6, 6)}


def test_a_connection_that_ended_makes_no_later_one_outdated(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", key=2, queues=6)
    registry.table.detach(2)
    registry.register("c/a/0@A", "T", key=1, version=2, queues=2)
    assert registry.queues("T") == {"a": (2, 6)}


def test_in_faithful_mode_topics_of_slaves_are_ignored(registry: Registry) -> None:
    registry.table = RouteTable(slave_topics=NAME_SERVER_POLICIES[Mode.FAITHFUL].slave_topics)
    registry.register("c/a/1@A1", "T")
    assert registry.brokers("T") is None


def test_the_last_id_takes_broker_cluster_and_topics_along(registry: Registry) -> None:
    registry.register("c/a/0@A", "T")
    registry.register("c/b/0@B", "T", key=2)
    registry.unregister("c/a/0@A")
    info = registry.table.cluster_info()
    assert (list(info.broker_addr_table), info.cluster_addr_table) == (["b"], {"c": ["b"]})
    assert registry.brokers("T") == {"b": {0: "B"}}
    registry.unregister("c/b/0@B")
    assert registry.table.cluster_info().cluster_addr_table == {}
    assert (registry.table.topics(), registry.table.some_address()) == ([], None)


@pytest.mark.parametrize("how", ["unregister", "connection closed", "silence"])
def test_topics_stay_while_a_slave_is_left(registry: Registry, how: str) -> None:
    registry.register("c/a/0@A", "T")
    registry.now_s += 60
    registry.register("c/a/1@A1", key=2)
    if how == "unregister":
        registry.unregister("c/a/0@A")
    elif how == "connection closed":
        registry.table.connection_closed(1, now_ns=registry.now_ns)
    else:
        registry.now_s += 61
        registry.table.expire(now_ns=registry.now_ns)
    assert registry.brokers("T") == {"a": {1: "A1"}}


def test_unknown_brokers_may_leave(registry: Registry) -> None:
    registry.unregister("c/a/0@A")
    assert registry.table.connection_closed(7, now_ns=registry.now_ns).addresses == []


@pytest.mark.parametrize(
    ("silent_s", "expired"), [(119.0, []), (120.0, []), (120.001, [1]), (400.0, [1])]
)
def test_silence(registry: Registry, silent_s: float, expired: list[int]) -> None:
    registry.register("c/a/0@A", "T")
    registry.now_s += silent_s
    registry.register("c/b/0@B", "T", key=2)
    assert registry.table.expire(now_ns=registry.now_ns) == expired
    assert ("a" in (registry.brokers("T") or {})) == (not expired)


def test_a_touch_keeps_a_broker_alive(registry: Registry) -> None:
    registry.register("c/a/0@A", "T")
    registry.now_s += 100
    registry.table.touch("A", now_ns=registry.now_ns)
    registry.table.touch("Unknown", now_ns=registry.now_ns)
    registry.now_s += 100
    assert registry.table.expire(now_ns=registry.now_ns) == []


def test_only_the_connection_of_the_last_registration_counts(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", key=1)
    registry.register("c/a/0@A", "T", key=2)
    assert registry.table.connection_closed(1, now_ns=registry.now_ns).addresses == []
    assert registry.brokers("T") == {"a": {0: "A"}}
    assert registry.table.connection_closed(2, now_ns=registry.now_ns).addresses == ["A"]
    assert registry.brokers("T") is None


def test_older_connections_end_with_the_newest_one(registry: Registry) -> None:
    """The newest may be one that the broker gave up: on another one, then, it has to come again."""
    for key in (1, 2, 3, 4):
        registry.register("c/a/0@A", "T", key=key)
    assert registry.table.connection_closed(2, now_ns=registry.now_ns) == ([], [])
    assert registry.table.connection_closed(4, now_ns=registry.now_ns) == (["A"], [1, 3])
    registry.register("c/a/0@A", "T", key=3)
    assert registry.brokers("T") is None
    registry.register("c/a/0@A", "T", key=5)
    assert registry.brokers("T") == {"a": {0: "A"}}


def test_in_faithful_mode_older_connections_stay(registry: Registry) -> None:
    registry.table = RouteTable(is_outdated=NAME_SERVER_POLICIES[Mode.FAITHFUL].is_outdated)
    for key in (1, 2):
        registry.register("c/a/0@A", "T", key=key)
    assert registry.table.connection_closed(2, now_ns=registry.now_ns) == (["A"], [])


def test_the_detached_leave_unless_they_register_again(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", key=1)
    registry.register("c/b/0@B", "T", key=2)
    registry.table.detach(1)
    registry.table.detach(2)
    assert registry.brokers("T") == {"a": {0: "A"}, "b": {0: "B"}}
    registry.register("c/b/0@B", "T", key=3)
    registry.table.drop_detached(now_ns=registry.now_ns)
    assert registry.brokers("T") == {"b": {0: "B"}}


# Asking


def test_data_version_of_the_live_only(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", version=7)
    assert registry.table.data_version("A") == DataVersion(timestamp=1, counter=7)
    registry.unregister("c/a/0@A")
    assert registry.table.data_version("A") is None


@pytest.mark.parametrize(
    ("has", "lacks", "topics"), [(1, 0, ["U", "B"]), (2, 0, ["S", "B"]), (2, 1, ["S"])]
)
def test_unit_topics(registry: Registry, has: int, lacks: int, topics: list[str]) -> None:
    configs = {
        name: topic_config(name, sys_flag=flag) for name, flag in zip("NUSB", range(4), strict=True)
    }
    registration = Registration(
        identity=identity("c/a/0@A"),
        ha_address="H",
        topics=configs,
        data_version=DataVersion(timestamp=1, counter=1),
    )
    registry.table.register(registration, now_ns=registry.now_ns, connection_key=1)
    assert registry.table.topics_by_flags(has=has, lacks=lacks) == topics


def test_lists(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", "U")
    registry.register("d/b/0@B", "U", "V", key=2)
    assert registry.table.topics() == ["T", "U", "V"]
    assert registry.table.topics_by_cluster("c") == ["T", "U"]
    assert registry.table.topics_by_cluster("nowhere") == []
    assert registry.table.clusters_and_brokers() == ["c", "d", "a", "b"]
    assert registry.table.some_address() == "A"


# Administration


def test_write_permission_until_the_next_changed_registration(registry: Registry) -> None:
    registry.register("c/a/0@A", "T", "U")
    registry.register("c/b/0@B", "T", key=2)
    assert registry.table.wipe_write_permission("a") == 2
    assert registry.queues("T") == {"a": (4, 4), "b": (4, 6)}
    registry.register("c/a/0@A", "T", "U", version=1)
    assert registry.queues("U") == {"a": (4, 4)}
    registry.register("c/a/0@A", "T", "U", version=2)
    assert registry.queues("T") == {"a": (4, 6), "b": (4, 6)}


def test_adding_write_permission_sets_six(registry: Registry) -> None:
    registry.register("c/a/0@A", "T")
    registry.table.wipe_write_permission("a")
    assert (registry.table.add_write_permission("a"), registry.queues("T")) == (1, {"a": (4, 6)})
    assert registry.table.add_write_permission("unknown") == 0


@pytest.mark.parametrize(
    ("cluster", "left"),
    [
        (None, None),
        ("c", {"b": {0: "B"}}),
        ("unknown", {"a": {0: "A"}, "b": {0: "B"}}),
    ],
)
def test_deleting_a_topic(
    registry: Registry, cluster: str | None, left: dict[str, dict[int, str]] | None
) -> None:
    registry.register("c/a/0@A", "T", "U")
    registry.register("d/b/0@B", "T", key=2)
    registry.table.delete_topic("T", cluster=cluster)
    registry.table.delete_topic("Unknown", cluster=cluster)
    assert registry.brokers("T") == left
    assert registry.brokers("U") == {"a": {0: "A"}}


# --- what hostile peers may fill


@pytest.mark.parametrize("field", ["cluster", "broker_name", "address", "ha", "topic", "filter"])
def test_a_name_that_is_too_long_is_refused(registry: Registry, field: str) -> None:
    names = {"cluster": "c", "broker_name": "a", "address": "A", "ha": "h", "topic": "T"}
    names = names | {"filter": "f", field: "n" * (NAME_LENGTH_MAX + 1)}
    wanted = Registration(
        identity=BrokerIdentity(
            cluster=names["cluster"],
            broker_name=names["broker_name"],
            broker_id=0,
            address=names["address"],
        ),
        ha_address=names["ha"],
        topics={names["topic"]: topic_config(names["topic"])},
        data_version=DataVersion(timestamp=1, counter=1),
        filter_servers=(names["filter"],),
    )
    with pytest.raises(ValueError, match="a name of the registration would be 513; allowed: up to"):
        registry.table.register(wanted, now_ns=0, connection_key=1)
    assert registry.table.topics() == []
    assert registry.table.clusters_and_brokers() == []


@pytest.mark.parametrize(
    ("others", "what"),
    [
        (["c/{}/0@A{}"], "addresses of brokers"),
        (["c/a/{}@A{}"], "addresses of brokers"),
        (["c/{}/0@A"], "brokers"),  # one address under many names
        (["c{}/a/0@A"], "broker names of clusters"),  # one broker in many clusters
    ],
)
def test_brokers_are_bounded(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, others: list[str], what: str
) -> None:
    monkeypatch.setattr(route_table, "BROKERS_MAX", 3)
    (form,) = others
    for number in range(3):
        registry.register(form.format(number, number), "T")
    with pytest.raises(ValueError, match=f"^{what} would be 4; allowed: up to 3"):
        registry.register(form.format(3, 3), "T")
    registry.register(form.format(2, 2), "T", version=2)
    registry.table.connection_closed(1, now_ns=registry.now_ns)
    registry.register(form.format(3, 3), "T")
    assert registry.table.topics() == ["T"]


def test_brokers_of_one_connection_go_together(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand brokers with 200 topics each are one look through the topics, not a thousand."""
    for number in range(5):
        registry.register(f"c/b{number}/0@B{number}", "T", f"of {number}")
    registry.register("c/b4/1@slave", key=2)
    registry.register("c/other/0@O", "T", key=2)
    calls: list[int] = []
    drop = registry.table._drop_queues

    def counted(topics: list[str], names: Collection[str]) -> None:
        calls.append(len(names))
        drop(topics, names)

    monkeypatch.setattr(registry.table, "_drop_queues", counted)
    assert registry.table.connection_closed(1, now_ns=registry.now_ns).addresses == [
        f"B{number}" for number in range(5)
    ]
    assert calls == [4]
    assert sorted(registry.table.topics()) == ["T", "of 4"]
    route = registry.table.route("T")
    assert route is not None
    assert sorted(broker.broker_name for broker in route.broker_datas) == ["b4", "other"]


def test_topics_of_all_brokers_are_bounded(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_table, "ROUTES_MAX", 4)
    registry.register("c/a/0@A", "T", "U")
    registry.register("c/b/0@B", "T", "U", key=2)
    registry.register("c/a/0@A", "T", "U", version=2)
    with pytest.raises(ValueError, match=r"^topics of brokers would be 5; allowed: up to 4"):
        registry.register("c/a/0@A", "T", "V", version=3)
    registry.table.delete_topic("U")
    registry.register("c/a/0@A", "T", "V", version=3)
    registry.table.connection_closed(2, now_ns=registry.now_ns)
    registry.register("c/a/0@A", "W", "X", version=4)
    assert registry.table.topics() == ["T", "V", "W", "X"]
