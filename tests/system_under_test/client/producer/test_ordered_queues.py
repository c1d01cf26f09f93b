from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.system_under_test.client.producer.ordered_queues import OrderedQueues, index_of_key
from staticfire.system_under_test.client.routing.routes import (
    BrokerRoute,
    Route,
    broker_routes,
    order_configuration,
    template_route,
)
from tests.system_under_test.client.scripted_remoting import route_of

KEYS = [f"key-{number}" for number in range(200)]


def route(*brokers: BrokerRoute) -> Route:
    return Route("t", {broker.broker_name: broker for broker in brokers})


def broker(name: str, queues: int = 2, **changes: object) -> BrokerRoute:
    found = broker_routes(route_of(name, queues=queues))[name]
    return replace(found, **changes)  # type: ignore[arg-type]


def places(queues: OrderedQueues, route: Route) -> list[str]:
    found = [queues.queue_of(key, route) for key in KEYS]
    return [f"{queue.broker_name}{queue.queue_id}" for queue in found if queue is not None]


@pytest.mark.parametrize(
    ("key", "count", "place"),
    [("", 4, 0), ("a", 4, 1), ("polygenelubricants", 4, 0), ("polygenelubricants", 7, 2)],
)
def test_the_place_of_a_key_is_java_s(key: str, count: int, place: int) -> None:
    assert index_of_key(key, count) == place  # polygenelubricants has the hash -2^31


def test_keys_are_spread_over_all_queues_and_keep_theirs() -> None:
    queues, full = OrderedQueues(), route(broker("a"), broker("b"))
    first = places(queues, full)
    assert sorted(set(first)) == ["a0", "a1", "b0", "b1"]
    assert places(queues, full) == first
    assert places(OrderedQueues(), full) == first


@pytest.mark.parametrize(
    "now",
    [
        route(broker("a"), broker("b", addresses={1: "b:1"})),  # b has lost its master
        route(broker("a")),  # b has vanished
    ],
)
def test_a_broker_that_is_away_keeps_its_keys(now: Route) -> None:
    queues = OrderedQueues()
    before = places(queues, route(broker("a"), broker("b")))
    assert places(queues, now) == before


def test_a_broker_without_write_permission_gives_its_keys_away() -> None:
    queues = OrderedQueues()
    places(queues, route(broker("a"), broker("b")))
    now = route(broker("a"), broker("b", permission=4))
    assert set(places(queues, now)) == {"a0", "a1"}


def test_more_queues_move_keys() -> None:
    queues = OrderedQueues()
    before = places(queues, route(broker("a")))
    after = places(queues, route(broker("a", 4)))
    assert after != before
    assert sorted(set(after)) == ["a0", "a1", "a2", "a3"]


def test_an_order_configuration_is_the_law() -> None:
    data = replace(route_of("a", "b"), order_topic_conf="a:1;c:2")
    configured = Route("t", broker_routes(data))
    assert set(places(OrderedQueues(), configured)) == {"a0", "c0", "c1"}
    assert {queue.broker_name for queue in configured.publish_queues} == {"a", "b"}


def test_a_topic_that_does_not_exist_is_not_remembered() -> None:
    queues = OrderedQueues()
    places(queues, template_route("t", broker_routes(route_of("a", "b", queues=8))))
    assert set(places(queues, route(broker("a")))) == {"a0", "a1"}


def test_no_broker_is_writable() -> None:
    assert OrderedQueues().queue_of("k", route(broker("a", permission=4))) is None


@pytest.mark.parametrize("text", ["a", "a:", ":4", "a:x", "a:4;b"])
def test_a_bad_order_configuration(text: str) -> None:
    with pytest.raises(ValueError, match="expected broker:queues"):
        order_configuration(text)
