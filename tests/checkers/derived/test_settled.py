"""Settled messages of a synchronous leader with several followers: any of them may connect first after its restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.checkers.derived.settled import settled_positions, settled_spans
from staticfire.checkers.guarantees.facts import FaultFacts, Mode, NodeExit, Timings
from tests.support.history_language import fault, history
from tests.support.one_checker import read_ops

NODES = ("n0", "n1", "n2")
TIMINGS = Timings(flush_s=1.0, packet_s=0.1)
KILL = fault("kill", "n0", at_s=60, healed_s=62)
PARTED = fault("partition", at_s=10, healed_s=58)


def is_settled(
    acked_s: float,
    *faults: FaultFacts,
    nodes: tuple[str, ...] = NODES,
    mode: Mode = "hardened",
    exits: tuple[NodeExit, ...] = (),
) -> bool:
    """Whether a message acknowledged at this time is settled, both by its position and by its time."""
    columns, context = read_ops(
        history(f"0 ok send a@0:3 t={acked_s}"),
        flush="sync",
        replication="sync",
        replica_sets={"b": nodes},
        mode=mode,
        faults=faults,
        exits=exits,
        timings=TIMINGS,
    )
    at_ns = round(acked_s * 1e9)
    by_time = any(span.start_ns <= at_ns < span.end_ns for span in settled_spans(context, "b"))
    assert settled_positions(columns, context).has(0, 3, at_ns) is by_time
    return by_time


@pytest.mark.parametrize(
    ("acked_s", "faults", "expected"),
    [
        (20, [], True),
        (20, [fault("pause", "n0", at_s=21, healed_s=40)], True),  # it never ended
        (20, [fault("network_latency", "n1", at_s=1, healed_s=90)], True),
        (55, [KILL], True),
        (56, [KILL], False),  # a copy takes 1 + 2 * 0.1 + 3 s
        (61, [KILL], False),
        (62, [KILL], True),
        (20, [KILL, replace(PARTED, links=(("n0", "n2"),))], False),
        (20, [KILL, replace(PARTED, links=(("n0", "c1"),))], True),
        (9, [KILL, replace(PARTED, links=(("n0", "n2"),))], False),  # it may have been under way
        (5, [KILL, fault("kill", "n2", at_s=15, healed_s=58)], True),
        (16, [KILL, fault("kill", "n2", at_s=15, healed_s=58)], False),
        (5, [KILL, fault("wiped_slave", "n2", at_s=15, healed_s=58)], False),
        (5, [KILL, fault("wiped_slave", "n2", at_s=63, healed_s=64)], False),
        (5, [KILL, fault("wiped_slave", "n2", at_s=15, healed_s=20)], True),
        (20, [fault("wiped_slave", "n2", at_s=15, healed_s=58)], True),  # the leader never ended
    ],
)
def test_a_message_is_settled_once_each_follower_has_it(
    acked_s: float, faults: list[FaultFacts], expected: bool
) -> None:
    assert is_settled(acked_s, *faults) is expected
    assert is_settled(acked_s, *faults, nodes=NODES[:2])


def test_a_leader_that_ended_by_itself_restarts() -> None:
    ended = (NodeExit(node="n0", time_ns=60_000_000_000, error="x"),)
    assert [is_settled(at, exits=ended) for at in (55, 56, 69, 70)] == [True, False, False, True]


def test_a_follower_of_rocketmq_may_begin_late_in_the_log() -> None:
    assert not is_settled(20, mode="faithful")
    assert is_settled(20, mode="faithful", nodes=NODES[:2])
