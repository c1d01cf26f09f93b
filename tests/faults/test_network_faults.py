"""Hosts that are gone, and networks that are late, lossy or narrow: what is asked for, and what counts as a bite."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from staticfire.faults.model.fault import ClusterContext
from staticfire.faults.plans.catalogue import fault_named
from staticfire.harness.campaign.campaign import topology_of
from tests.faults.fault_stories import carried_out

SITUATION = ClusterContext(
    topology=topology_of(2, (1, 1), 2, 2), topic="T", sync_flush=True, replication="sync"
)


@pytest.mark.parametrize(
    ("answers", "swallowed", "bitten"),
    [
        (False, (5, 9), True),
        (True, (5, 9), False),  # a connection got through
        (False, (5, 5), False),  # nothing came by
    ],
)
@pytest.mark.parametrize("kind", ["broker-black-hole", "name-server-black-hole"])
def test_a_black_hole_bit_if_it_was_silent_and_swallowed_packets(
    kind: str, answers: bool, swallowed: tuple[int, int], bitten: bool
) -> None:
    totals = iter(swallowed)
    script = {"answers": answers, "swallowed": lambda _: next(totals)}
    calls, evidence = carried_out(kind, "n", answers=script)
    assert calls == [
        "swallowed n",
        "black_hole n",
        "answers n",
        "swallowed n",
        "end_black_hole n",
    ]
    assert evidence["bitten"] is bitten
    assert evidence["swallowed"] == swallowed[1] - swallowed[0]


@pytest.mark.parametrize(
    ("kind", "params", "counter", "asked"),
    [
        ("network-latency", {"delay_ms": 80.5}, "delayed", ["delay n 80.5", "delay n 0"]),
        ("packet-loss", {"percent": 3.5}, "lost", ["lose n 3.5", "lose n 0"]),
        ("bandwidth", {"bits_per_s": 500_000}, "limited", ["limit n 500000", "limit n 0"]),
    ],
)
@pytest.mark.parametrize("after", [4, 7])
def test_a_bad_network_bit_if_its_own_counter_moved(
    kind: str, params: dict[str, Any], counter: str, asked: list[str], after: int
) -> None:
    others = {"delayed": 0, "lost": 0, "limited": 0}
    totals = iter([{**others, counter: 4}, {**others, counter: after}])
    script = {"traffic_counters": lambda _: next(totals)}
    calls, evidence = carried_out(kind, "n", params=params, answers=script)
    assert calls == ["traffic_counters n", *asked, "traffic_counters n"]
    assert evidence == {"bitten": after > 4, counter: after - 4}


def test_only_masters_send_enough_to_feel_a_narrow_wire() -> None:
    drawn = [fault_named("bandwidth").draw(Random(seed), SITUATION) for seed in range(40)]
    assert {strike.targets for strike in drawn if strike} == {("broker-a-0",), ("broker-b-0",)}
