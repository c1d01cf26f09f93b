"""The links that a fault strikes, and the combined effect of several faults."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.faults.proxy.core.link_faults import (
    Direction,
    LinkFault,
    LinkFaultError,
    LinkFaultKind,
    effect_of,
)

CLIENTS = ("slave", "10.0.0.9@7#[x]", "10.0.0.9", "10.0.0.9:5000")
SERVERS = ("broker-a-0", "10.0.0.1:10911")
KIND = "brokers"


def fault(kind: str, **values: Any) -> LinkFault:
    return LinkFault(number=1, kind=LinkFaultKind(kind), **values)


@pytest.mark.parametrize("client", ["*", "slave", "10.0.0.9@7#[x]", "10.0.0.9", "*:5000", "10.*"])
@pytest.mark.parametrize("server", ["*", "broker-a-0", "broker-*", "brokers", "*:10911"])
def test_ends_have_several_names(client: str, server: str) -> None:
    assert fault("drop", client=client, server=server).strikes(CLIENTS, SERVERS, KIND)


@pytest.mark.parametrize(
    ("client", "server"),
    [
        ("slav", "*"),
        ("", "*"),
        ("10.0.0.?", "*"),
        ("*", "broker-a"),
        ("*", "brokers*"),
        ("*", "name-servers"),
    ],
)
def test_other_links_are_spared(client: str, server: str) -> None:
    assert not fault("drop", client=client, server=server).strikes(CLIENTS, SERVERS, KIND)


def test_delays_add_up_and_the_smallest_limit_counts() -> None:
    faults = [
        fault("delay", delay_ms=10, jitter_ms=2),
        fault("delay", delay_ms=5, direction=Direction.UP),
        fault("limit", bytes_per_s=100),
        fault("limit", bytes_per_s=50, direction=Direction.DOWN),
    ]
    up, down = (effect_of(faults, direction) for direction in (Direction.UP, Direction.DOWN))
    assert (up.delay_s, up.jitter_s, up.bytes_per_s) == (0.015, 0.002, 100)
    assert (down.delay_s, down.jitter_s, down.bytes_per_s) == (0.010, 0.002, 50)


def test_a_direction_is_spared() -> None:
    faults = [fault("drop", direction=Direction.UP), fault("freeze", direction=Direction.DOWN)]
    up, down = (effect_of(faults, direction) for direction in (Direction.UP, Direction.DOWN))
    assert (up.drops, up.freezes) == (tuple(faults[:1]), ())
    assert (down.drops, down.freezes) == ((), tuple(faults[1:]))


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        ("delay", {}, "delay_ms is 0.0; allowed: above 0"),
        ("delay", {"delay_ms": -1}, "delay_ms is -1"),
        ("delay", {"delay_ms": float("nan")}, "delay_ms is nan"),
        ("delay", {"delay_ms": 5, "jitter_ms": 6}, "jitter_ms is 6; allowed: 0 to the delay, 5"),
        ("delay", {"delay_ms": 5, "bytes_per_s": 6}, "bytes_per_s is 6; only limit has it"),
        ("limit", {}, "bytes_per_s is 0; allowed: above 0"),
        ("drop", {"delay_ms": 1}, "delay_ms is 1; only delay has it"),
        ("cut", {"direction": Direction.UP}, "direction of cut is 'up'; allowed: both"),
    ],
)
def test_refused(kind: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(LinkFaultError, match=words):
        fault(kind, **values)


def test_as_plain_data() -> None:
    found = fault("delay", delay_ms=5, client="c")
    assert not found.bitten
    found.count(4)
    found.count(5)
    assert found.bitten
    assert found.to_json() == {
        "fault": 1,
        "f": "delay",
        "client": "c",
        "server": "*",
        "direction": "both",
        "delay_ms": 5,
        "jitter_ms": 0.0,
        "bytes": 9,
        "pieces": 2,
        "connections": 0,
    }
