"""Group membership, subscriptions, and notifications of changes."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.broker.clients import clients
from staticfire.system_under_test.broker.clients.clients import (
    CLIENT_EXPIRY_NS,
    NAME_LENGTH_MAX,
    Clients,
    size_of,
)
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.remoting.turn_share import TURN_S, TurnShare
from tests.system_under_test.broker.bench import Peer


class Registry:
    """Clients on a clock moved by hand; `notified` lists (group, connection key) of each code 40."""

    def __init__(
        self, *, notifies_of_expired_members: bool = True, keeps_shared_client_ids: bool = True
    ) -> None:
        self.now_ns = 0
        self.notified: list[tuple[str, int]] = []
        self.share = TurnShare()
        self.quiet_groups: list[str] = []
        self.clients = Clients(
            now_ns=lambda: self.now_ns,
            notify=self._notify,
            may_notify=lambda group: group not in self.quiet_groups,
            notifies_of_expired_members=notifies_of_expired_members,
            keeps_shared_client_ids=keeps_shared_client_ids,
            share=self.share,
        )
        self.peers = {key: Peer(key) for key in (1, 2, 3)}

    def _notify(self, group: str, connection: Connection) -> None:
        self.notified.append((group, connection.key))

    def consume(self, key: int, *topics: str, group: str = "g", version: int = 1) -> None:
        """A heartbeat of the consumer on connection `key`."""
        subscriptions = [
            SubscriptionData(topic=topic, sub_string=f"v{version}", sub_version=version)
            for topic in topics
        ]
        data = ConsumerData(group_name=group, subscriptions=subscriptions)
        heartbeat = HeartbeatData(client_id=f"c{key}", consumers=[data])
        self._beat(key, heartbeat)

    def produce(self, key: int, group: str = "p", client_id: str = "") -> None:
        client_id = client_id or f"c{key}"
        self._beat(key, HeartbeatData(client_id=client_id, producer_groups=[group]))

    def _beat(self, key: int, heartbeat: HeartbeatData) -> None:
        connection = self.peers[key].connection
        self.clients.heartbeat(connection, heartbeat, language=3, version=409)

    def members(self, group: str = "g") -> list[str]:
        found = self.clients.consumer_group(group)
        return [] if found is None else found.client_ids()

    def take_notified(self) -> list[tuple[str, int]]:
        notified, self.notified = self.notified, []
        return notified


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_all_members_are_notified_of_a_new_member(registry: Registry) -> None:
    registry.consume(1, "t")
    registry.take_notified()
    registry.consume(2, "t")
    assert registry.members() == ["c1", "c2"]
    assert registry.take_notified() == [("g", 1), ("g", 2)]


def test_same_heartbeat_again_notifies_no_member(registry: Registry) -> None:
    registry.consume(1, "t")
    registry.take_notified()
    registry.consume(1, "t", version=2)
    assert registry.take_notified() == []


@pytest.mark.parametrize("topics", [("t", "u"), ()])
def test_members_are_notified_of_an_added_or_removed_topic(
    registry: Registry, topics: tuple[str, ...]
) -> None:
    registry.consume(1, "t")
    registry.take_notified()
    registry.consume(1, *topics)
    assert registry.take_notified() == [("g", 1)]


def test_older_subscription_does_not_come_back(registry: Registry) -> None:
    registry.consume(1, "t", version=5)
    registry.consume(2, "t", version=4)
    group = registry.clients.consumer_group("g")
    assert group is not None
    assert group.subscriptions["t"].sub_version == 5
    registry.consume(2, "t", version=6)
    assert group.subscriptions["t"].sub_string == "v6"


def test_closed_connection_leaves_every_group(registry: Registry) -> None:
    registry.consume(1, "t")
    registry.consume(2, "t")
    registry.consume(1, "t", group="h")
    registry.produce(1)
    registry.take_notified()
    registry.clients.connection_closed(registry.peers[1].connection)
    assert registry.members() == ["c2"]
    assert registry.clients.consumer_group("h") is None
    assert registry.clients.producers("p") == []
    assert registry.take_notified() == [("g", 2)]


def test_unregister_leaves_only_what_it_names(registry: Registry) -> None:
    registry.consume(1, "t")
    registry.produce(1)
    registry.clients.unregister(
        registry.peers[1].connection, producer_group=None, consumer_group="g"
    )
    assert registry.members() == []
    assert [member.client_id for member in registry.clients.producers("p")] == ["c1"]


def test_silent_client_is_closed_and_a_lively_one_is_not(registry: Registry) -> None:
    registry.consume(1, "t")
    registry.produce(2)
    registry.now_ns = CLIENT_EXPIRY_NS
    registry.consume(3, "t")
    registry.clients.expire()
    assert not any(peer.closed for peer in registry.peers.values())
    registry.now_ns += 1
    registry.clients.expire()
    assert [key for key, peer in registry.peers.items() if peer.closed] == [1, 2]


@pytest.mark.parametrize(("mode", "reported"), [(Mode.HARDENED, [("g", 2)]), (Mode.FAITHFUL, [])])
def test_an_expired_member_is_reported_to_the_others_or_not(
    mode: Mode, reported: list[tuple[str, int]]
) -> None:
    """RocketMQ has forgotten the member when its connection ends, and notifies no other member."""
    policy = BROKER_POLICIES[mode].admin
    registry = Registry(notifies_of_expired_members=policy.notifies_of_expired_members)
    registry.consume(1, "t")
    registry.consume(2, "t")
    registry.now_ns = CLIENT_EXPIRY_NS + 1
    registry.consume(2, "t")
    registry.take_notified()
    registry.clients.expire()
    assert registry.peers[1].closed
    registry.clients.connection_closed(registry.peers[1].connection)
    assert registry.members() == ["c2"]
    assert registry.take_notified() == reported


@pytest.mark.parametrize(("mode", "reached"), [(Mode.HARDENED, 2), (Mode.FAITHFUL, None)])
def test_a_former_connection_that_ends_takes_the_client_id_along_or_not(
    mode: Mode, reached: int | None
) -> None:
    """RocketMQ does not enter a client id again for a connection that it knows (#6810)."""
    policies = BROKER_POLICIES[mode]
    registry = Registry(keeps_shared_client_ids=policies.keeps_shared_client_ids)
    registry.produce(1, client_id="c")
    registry.produce(2, client_id="c")
    registry.clients.connection_closed(registry.peers[1].connection)
    registry.produce(2, client_id="c")
    found = registry.clients.producer_connection("c")
    assert (None if found is None else found.key) == reached


def test_the_last_member_that_expires_takes_its_group_along() -> None:
    registry = Registry(notifies_of_expired_members=False)
    registry.consume(1, "t")
    registry.produce(1)
    registry.now_ns = CLIENT_EXPIRY_NS + 1
    registry.clients.expire()
    assert registry.clients.consumer_group("g") is None
    assert registry.clients.producer_groups() == []


def test_a_group_that_wants_no_notifications_gets_none(registry: Registry) -> None:
    registry.quiet_groups.append("g")
    registry.consume(1, "t")
    registry.consume(1, "t", group="h")
    assert registry.take_notified() == [("h", 1)]


# --- what hostile peers may fill


def beat(registry: Registry, *groups: ConsumerData, key: int = 1, client: str = "c") -> None:
    """A heartbeat as the broker takes it: checked first. Raises ValueError."""
    heartbeat = HeartbeatData(client_id=client, producer_groups=[], consumers=list(groups))
    connection = registry.peers[key].connection
    registry.clients.check(connection, heartbeat)
    registry.clients.heartbeat(connection, heartbeat, language=3, version=409)


def subscribing(group: str, topic: str, text: str = "*", version: int = 1) -> ConsumerData:
    data = SubscriptionData(topic=topic, sub_string=text, sub_version=version)
    return ConsumerData(group_name=group, subscriptions=[data])


@pytest.mark.parametrize("name", ["client", "group", "topic"])
def test_a_name_that_is_too_long_is_refused(registry: Registry, name: str) -> None:
    names = {"client": "c", "group": "g", "topic": "t"} | {name: "n" * (NAME_LENGTH_MAX + 1)}
    with pytest.raises(ValueError, match="a name in the heartbeat has 1025 characters"):
        beat(registry, subscribing(names["group"], names["topic"]), client=names["client"])
    assert registry.clients.consumer_count() == 0


def test_members_of_all_groups_are_bounded(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MEMBERS_MAX", 3)
    beat(registry, subscribing("g", "t"), subscribing("h", "t"))
    beat(registry, subscribing("g", "t"), key=2)
    with pytest.raises(ValueError, match="all groups would have 4 members; allowed: up to 3"):
        beat(registry, subscribing("h", "t"), key=2)
    beat(registry, subscribing("g", "t"), key=2)  # as before
    registry.clients.connection_closed(registry.peers[1].connection)
    beat(registry, subscribing("h", "t"), key=2)
    assert registry.members("h") == ["c"]


def test_subscriptions_of_all_groups_are_bounded(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = 2 * size_of(subscribing("g", "t", "x" * 1000).subscriptions)
    monkeypatch.setattr(clients, "SUBSCRIPTIONS_SIZE_MAX", 2 * one)
    for group in ("g", "h"):
        beat(registry, subscribing(group, "t", "x" * 1000))
    with pytest.raises(ValueError, match="the subscriptions of all groups would take"):
        beat(registry, subscribing("i", "t"))
    beat(registry, subscribing("h", "t", "x" * 1000), key=2)  # the same once more
    registry.clients.unregister(
        registry.peers[1].connection, producer_group=None, consumer_group="g"
    )
    beat(registry, subscribing("i", "t"))
    assert registry.members("i") == ["c"]


def test_subscriptions_that_stay_beside_older_ones_count(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older subscription does not replace what a group has; so each heartbeat could add a large one."""
    one = size_of(subscribing("g", "t0", "x" * 1000).subscriptions)
    monkeypatch.setattr(clients, "SUBSCRIPTIONS_SIZE_MAX", 5 * one)

    def add(count: int) -> None:
        old = [SubscriptionData(topic=f"t{at}") for at in range(count)]
        new = SubscriptionData(topic=f"t{count}", sub_string="x" * 1000, sub_version=9)
        beat(registry, ConsumerData(group_name="g", subscriptions=[*old, new]))

    for count in range(3):
        add(count)
    with pytest.raises(ValueError, match="the subscriptions of all groups would take"):
        for count in range(3, 6):
            add(count)


def test_a_connection_that_changes_its_client_id_is_known_by_the_last_one(
    registry: Registry,
) -> None:
    for number in range(5):
        heartbeat = HeartbeatData(client_id=f"id{number}", producer_groups=["p"])
        registry.clients.heartbeat(registry.peers[1].connection, heartbeat, language=3, version=1)
    assert registry.clients.producer_connection("id4") is registry.peers[1].connection
    assert [registry.clients.producer_connection(f"id{number}") for number in range(4)] == [
        None
    ] * 4


def test_members_are_notified_in_a_later_turn_once_this_one_is_over() -> None:
    """Once for each group, whatever has happened to it meanwhile."""
    registry = Registry()
    registry.consume(1, "T", group="g")
    registry.consume(1, "T", group="h")
    registry.notified.clear()

    async def main() -> None:
        registry.share.spend(TURN_S, asyncio.get_running_loop())
        registry.consume(2, "T", group="g")
        registry.consume(2, "T", group="h")
        registry.consume(3, "T", group="g")
        registry.clients.connection_closed(registry.peers[3].connection)
        assert registry.notified == []
        await asyncio.sleep(0)

    asyncio.run(main())
    assert registry.notified == [("g", 1), ("g", 2), ("h", 1), ("h", 2)]


def test_a_connection_leaves_its_groups_in_the_order_in_which_they_came() -> None:
    registry = Registry()
    registry.consume(1, "T", group="b")
    registry.consume(1, "T", group="a")
    registry.consume(2, "T", group="a")
    registry.consume(2, "T", group="b")
    registry.notified.clear()
    registry.clients.connection_closed(registry.peers[2].connection)
    assert registry.notified == [("b", 1), ("a", 1)]
    assert registry.clients.consumer_count() == 2
