from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.system_under_test.client.routing.routes import (
    ROUTE_KEEP_S,
    ROUTE_QUEUES_MAX,
    BrokerRoute,
    RouteTable,
    broker_routes,
    unite,
)
from tests.system_under_test.client.scripted_remoting import route_of


class Table:
    """A route table whose brokers answer unless they are in `silent`."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.changes: list[str] = []
        self.table = RouteTable(
            is_kept=lambda address: address not in self.silent, on_change=self.changes.append
        )

    def update(self, *brokers: str, at_s: float = 0.0, slaves: bool = False) -> list[str]:
        """Take in a route and return the names of the brokers with queues to send to."""
        route = self.table.update("t", broker_routes(route_of(*brokers, slaves=slaves)), at_s)
        return sorted({queue.broker_name for queue in route.publish_queues})


def addresses(table: RouteTable) -> list[str]:
    return table.addresses()


def test_queues_are_sorted_and_only_writable_with_a_master() -> None:
    brokers = broker_routes(route_of("b", "a", queues=1, slaves=True))
    brokers["b"] = replace(brokers["b"], addresses={1: "b:1"})
    table = Table().table
    route = table.update("t", brokers, 0.0)
    assert [q.broker_name for q in route.read_queues] == ["a", "b"]
    assert [q.broker_name for q in route.publish_queues] == ["a"]


def test_permissions() -> None:
    brokers = broker_routes(route_of("a", "b", queues=1))
    brokers["a"] = replace(brokers["a"], permission=4)
    brokers["b"] = replace(brokers["b"], permission=2)
    route = Table().table.update("t", brokers, 0.0)
    assert [q.broker_name for q in route.read_queues] == ["a"]
    assert [q.broker_name for q in route.publish_queues] == ["b"]


def test_a_broker_that_answers_is_kept_for_a_while() -> None:
    table = Table()
    table.update("a", "b")
    assert table.update("a", at_s=1.0) == ["a", "b"]
    assert table.update("a", at_s=ROUTE_KEEP_S) == ["a", "b"]
    assert table.update("a", at_s=1.0 + ROUTE_KEEP_S) == ["a"]


def test_a_broker_that_does_not_answer_goes_with_the_route() -> None:
    table = Table()
    table.update("a", "b")
    table.silent.add("b:0")
    assert table.update("a", at_s=1.0) == ["a"]


def test_the_time_of_keeping_starts_anew_once_the_broker_was_listed_again() -> None:
    table = Table()
    table.update("a", "b")
    table.update("a", at_s=50.0)
    table.update("a", "b", at_s=60.0)
    assert table.update("a", at_s=80.0 + ROUTE_KEEP_S - 1.0) == ["a", "b"]


def test_a_master_that_answers_is_kept_beside_its_listed_slave() -> None:
    table = Table()
    table.update("a", slaves=True)
    only_slave = broker_routes(route_of("a", slaves=True))
    only_slave["a"] = replace(only_slave["a"], addresses={1: "a:1"})
    route = table.table.update("t", only_slave, 1.0)
    assert route.brokers["a"].addresses == {0: "a:0", 1: "a:1"}


def test_change_is_reported_once() -> None:
    table = Table()
    table.update("a")
    table.update("a", at_s=1.0)
    table.update("a", "b", at_s=2.0)
    assert table.changes == ["t", "t"]


def test_a_template_is_replaced_as_a_whole() -> None:
    table = Table()
    template = table.table.use_template("t", broker_routes(route_of("a", "b", queues=8)))
    assert len(template.publish_queues) == 8
    assert table.update("b", at_s=1.0) == ["b"]


def test_a_template_never_replaces_a_route() -> None:
    table = Table()
    table.update("a")
    table.table.use_template("t", broker_routes(route_of("a", "b")))
    assert addresses(table.table) == ["a:0"]


def test_union_of_what_name_servers_know() -> None:
    amnesiac = broker_routes(route_of("a"))
    other = broker_routes(route_of("b", slaves=True))
    assert sorted(unite([amnesiac, other])) == ["a", "b"]
    assert unite([other, broker_routes(route_of("b"))])["b"].addresses == {0: "b:0", 1: "b:1"}
    assert unite([broker_routes(route_of("b")), other])["b"].addresses == {0: "b:0", 1: "b:1"}


def test_where_name_servers_differ_the_one_with_more_queues_is_right() -> None:
    first = broker_routes(route_of("a", queues=4, slaves=True))
    second = broker_routes(route_of("a", queues=8))
    for answers in ([first, second], [second, first]):
        united: dict[str, BrokerRoute] = unite(answers)
        assert united["a"].read_queues == 8
        assert united["a"].addresses == {0: "a:0", 1: "a:1"}


def test_so_many_queues_that_their_list_would_fill_the_memory_are_refused() -> None:
    assert (
        broker_routes(route_of("a", queues=ROUTE_QUEUES_MAX))["a"].write_queues == ROUTE_QUEUES_MAX
    )
    with pytest.raises(ValueError, match="a topic of 2147483647 queues; up to 131072 are allowed"):
        broker_routes(route_of("a", queues=2**31 - 1))


def test_brokers_without_queues_or_address_are_left_out() -> None:
    route = route_of("a", "b")
    route.broker_datas[1].broker_addrs.clear()
    route.queue_datas.pop(0)
    assert broker_routes(route) == {}
