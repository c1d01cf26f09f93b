"""The table of expressions: heartbeats, death and return, and the file."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata import consumer_filters
from staticfire.system_under_test.broker.metadata.consumer_filters import (
    ConsumerFilters,
    FiltersFile,
)
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from staticfire.system_under_test.store.metadata_file import MetadataFile
from tests.system_under_test.broker.bench import Bench, HandClock, Peer

DAY_S = 86_400


class World:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.config = BrokerConfig(broker_name="b", listen_host="10.0.0.1")
        self.filters = self.make()

    def make(self) -> ConsumerFilters:
        return ConsumerFilters(self.config, now_ms=self.clock.wall_ms, queued_end=lambda: 77)

    def beat(self, expression: str, version: int, *, topic: str = "t", kind: str = "SQL92") -> None:
        self.filters.register(
            "g",
            [
                SubscriptionData(
                    topic=topic,
                    sub_string=expression,
                    sub_version=version,
                    expression_type=kind,
                )
            ],
        )

    def expression(self, topic: str = "t") -> str | None:
        known = self.filters.get(topic, "g")
        return None if known is None else known.expression


@pytest.fixture
def world() -> World:
    return World()


def test_only_a_change_is_to_be_written(world: World) -> None:
    assert not world.filters.changed
    world.beat("a = 1", 1)
    assert world.filters.changed


def test_newer_versions_replace_older_ones(world: World) -> None:
    world.beat("a = 1", 5)
    world.beat("a = 2", 5)
    world.beat("a = 3", 4)
    assert world.expression() == "a = 1"
    world.beat("a = 2", 6)
    assert world.expression() == "a = 2"


def test_tags_and_empty_expressions_are_not_kept(world: World) -> None:
    world.beat("a || b", 5, kind="TAG")
    world.beat("", 5)
    assert world.filters.snapshot() == {"filterDataByTopic": {}}


def test_what_is_no_longer_subscribed_dies_and_is_forgotten_after_a_day(world: World) -> None:
    world.beat("a = 1", 5)
    world.beat("a = 1", 6, topic="u")
    known = world.filters.get("t", "g")
    assert known is not None
    assert known.is_dead
    world.clock.move(DAY_S - 1)
    world.filters.forget_old()
    assert world.expression() == "a = 1"
    world.clock.move(1)
    world.filters.forget_old()
    assert (world.expression(), world.expression("u")) == (None, "a = 1")


@pytest.mark.parametrize("version", [5, 6])
def test_who_returns_with_the_same_expression_keeps_its_bits(world: World, version: int) -> None:
    world.beat("a = 1", 5)
    known = world.filters.get("t", "g")
    assert known is not None
    world.filters.unregister("g")
    assert known.is_dead
    world.beat("a = 1", version)
    assert world.filters.get("t", "g") is known
    assert (known.is_dead, known.version) == (False, version)


def test_the_last_member_takes_its_group_along() -> None:
    bench, peer = Bench(), Peer()
    subscription = SubscriptionData(topic="t", sub_string="a = 1", expression_type="SQL92")
    data = HeartbeatData(
        client_id="c", consumers=[ConsumerData(group_name="g", subscriptions=[subscription])]
    )
    body = json_dialect.dumps(data.to_json())
    bench.ask(bench.client_requests.heartbeat, body=body, peer=peer)
    bench.clients.connection_closed(peer.connection)
    known = bench.filters.get("t", "g")
    assert known is not None
    assert known.is_dead


def test_the_file_brings_them_back_dead(world: World) -> None:
    disk = SimDisk(random=Random(1), now_ns=lambda: 0, charge=lambda ns: None)
    file = MetadataFile(disk, "/store/config/consumerFilter.json")
    world.beat("a = 'it''s'", 5)
    world.clock.move(100)
    asyncio.run(FiltersFile(world.filters, file).save())
    assert not world.filters.changed
    world.filters = world.make()
    FiltersFile(world.filters, file).load()
    known = world.filters.get("t", "g")
    assert known is not None
    assert (known.expression, known.version, known.known_from) == ("a = 'it''s'", 5, 77)
    assert known.dead_ms == world.clock.now_ms - 30_000
    assert known.bits.positions == world.filters.bloom.bits_of("g#t").positions


def test_bits_of_another_bloom_filter_are_not_taken(world: World) -> None:
    world.beat("a = 1", 5)
    document = world.filters.snapshot()
    world.config.bloom_groups = 64
    world.filters = world.make()
    world.filters.load(document)
    assert world.expression() is None


@pytest.mark.parametrize(
    "document",
    [
        {"filterDataByTopic": {"t": {}}},
        {"filterDataByTopic": {"t": {"groupFilterData": {"g": {"bornTime": "x"}}}}},
        {"filterDataByTopic": 3},
    ],
)
def test_a_malformed_file_is_said_to_be_one(world: World, document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"malformed|invalid literal"):
        world.filters.load(document)


def test_expressions_that_are_none_are_left_out(world: World) -> None:
    world.beat("a = 1", 5)
    document = world.filters.snapshot()
    document["filterDataByTopic"]["t"]["groupFilterData"]["g"]["expression"] = "a =="
    world.filters = world.make()
    world.filters.load(document)
    assert world.expression() is None


def heartbeat(group: str, expression: str) -> list[ConsumerData]:
    subscription = SubscriptionData(
        topic="t", sub_string=expression, sub_version=1, expression_type="SQL92"
    )
    return [ConsumerData(group_name=group, subscriptions=[subscription])]


def take(world: World, group: str, expression: str) -> None:
    """As the broker takes a heartbeat. Raises ValueError."""
    consumers = heartbeat(group, expression)
    world.filters.check(consumers)
    world.filters.register(group, consumers[0].subscriptions)


@pytest.mark.parametrize(("name", "most"), [("FILTERS_MAX", 2), ("TEXTS_LENGTH_MAX", 10)])
def test_expressions_are_bounded_and_dead_ones_make_room(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(consumer_filters, name, most)
    for group in ("g", "h"):
        take(world, group, "a = 1")
    with pytest.raises(ValueError, match="3 SQL92 expressions of groups would have 15 characters"):
        take(world, "i", "a = 1")
    take(world, "h", "a = 1")  # as before
    world.filters.unregister("g")
    take(world, "i", "a = 1")
    known = {group: world.filters.get("t", group) is not None for group in "ghi"}
    assert known == {"g": False, "h": True, "i": True}
