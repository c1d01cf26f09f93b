"""Partitions between nodes become frozen directions of links."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from staticfire.faults.model.capabilities import NetworkControl
from staticfire.faults.proxy import Proxy, ProxyNetwork
from staticfire.faults.proxy.core.link_faults import LinkFault

ADDRESSES = {
    "ns-1": ["10.0.0.1:9876"],
    "broker-a-0": ["10.0.0.2:10911", "10.0.0.2:10912"],
    "broker-a-1": ["10.0.0.3:10911", "10.0.0.3:10912"],
}


class Bench:
    def __init__(self) -> None:
        self.proxy = Proxy(["10.0.0.1:9876"])
        self.network: NetworkControl = ProxyNetwork(self.proxy, ADDRESSES)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)

    @property
    def struck(self) -> list[tuple[str, str, str]]:
        return [(one.client, one.server, one.direction.value) for one in self.proxy.faults]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_between_brokers_both_may_have_opened_the_connection(bench: Bench) -> None:
    bench.do(bench.network.drop(source="broker-a-0", target="broker-a-1"))
    assert bench.struck == [
        ("broker-a-0", "10.0.0.3:10911", "up"),
        ("broker-a-0", "10.0.0.3:10912", "up"),
        ("broker-a-1", "10.0.0.2:10911", "down"),
        ("broker-a-1", "10.0.0.2:10912", "down"),
    ]
    assert {fault.kind for fault in bench.proxy.faults} == {"freeze"}


def test_no_node_dials_a_client(bench: Bench) -> None:
    bench.do(bench.network.drop(source="ns-1", target="producer-1"))
    bench.do(bench.network.drop(source="producer-1", target="ns-1"))
    bench.do(bench.network.drop(source="producer-1", target="consumer-1"))
    assert bench.struck == [
        ("producer-1", "10.0.0.1:9876", "down"),
        ("producer-1", "10.0.0.1:9876", "up"),
    ]


def test_what_was_held_back_is_counted_also_when_it_is_over(bench: Bench) -> None:
    pair = {"source": "producer-1", "target": "broker-a-0"}
    for _ in range(2):
        bench.do(bench.network.drop(**pair))
        bench.do(bench.network.drop(**pair))  # is no other partition
        assert len(bench.proxy.faults) == 2
        for fault in bench.proxy.faults:
            fault.count(100)
        bench.do(bench.network.restore(**pair))
        assert bench.struck == []
    assert bench.do(bench.network.dropped(**pair)) == 4
    assert bench.do(bench.network.dropped(source="broker-a-0", target="producer-1")) == 0


def test_heal_ends_partitions_and_nothing_else(bench: Bench) -> None:
    other: LinkFault = bench.proxy.delay(5)
    bench.do(bench.network.drop(source="ns-1", target="broker-a-0"))
    bench.do(bench.network.drop(source="broker-a-0", target="ns-1"))
    bench.do(bench.network.heal())
    assert bench.proxy.faults == (other,)


def test_what_a_node_sends_goes_up_its_own_links_and_down_those_of_others(bench: Bench) -> None:
    bench.do(bench.network.delay("broker-a-0", 30))
    assert bench.struck == [
        ("broker-a-0", "*", "up"),
        ("*", "10.0.0.2:10911", "down"),
        ("*", "10.0.0.2:10912", "down"),
    ]
    assert {fault.delay_ms for fault in bench.proxy.faults} == {30}
    bench.do(bench.network.limit("producer-1", 80_000))
    assert bench.struck[3:] == [("producer-1", "*", "up")]
    assert bench.proxy.faults[3].bytes_per_s == 10_000


def test_delays_and_limits_count_also_when_they_are_over(bench: Bench) -> None:
    none = {"delayed": 0, "limited": 0, "lost": 0}
    assert bench.do(bench.network.traffic_counters("ns-1")) == none
    bench.do(bench.network.delay("ns-1", 30))
    bench.do(bench.network.limit("ns-1", 8000))
    for fault in bench.proxy.faults[:3]:
        fault.count(100)
    assert bench.do(bench.network.traffic_counters("ns-1")) == {**none, "delayed": 2, "limited": 1}
    bench.do(bench.network.delay("ns-1", 0))
    bench.do(bench.network.heal())
    assert bench.struck == []
    assert bench.do(bench.network.traffic_counters("ns-1")) == {**none, "delayed": 2, "limited": 1}
