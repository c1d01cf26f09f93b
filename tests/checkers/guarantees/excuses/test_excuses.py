"""Excuses: the fault has bitten, concerns a node of the witness, and has the effect and duration of its row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.excuses.excuse import Role
from staticfire.checkers.guarantees.excuses.excuse_table import EXCUSES
from staticfire.checkers.guarantees.excuses.excuses import Excuses
from staticfire.checkers.guarantees.excuses.seconds import forgets_after_a_pause
from staticfire.checkers.guarantees.facts import (
    AffectedTarget,
    FaultFacts,
    NodeExit,
    OffsetsReset,
    RunFacts,
    Timings,
)
from staticfire.checkers.guarantees.fault_effects import ALL_EFFECTS
from staticfire.checkers.model.columns import LogKey
from staticfire.system_under_test.name_server import name_server, pause_guard
from tests.checkers.legal_histories import cut
from tests.support.history_language import facts, fault

S = 10**9
BROKERS = {"b": ("n0", "n1"), "other": ("n2",)}


def delayed(node: str, delay_ms: float, *, at_s: float, healed_s: float) -> FaultFacts:
    late = fault("network_latency", node, at_s=at_s, healed_s=healed_s)
    return replace(late, delay_s=delay_ms / 1000)


def excuses(*faults: FaultFacts, **changes: object) -> Excuses:
    return Excuses(facts(replica_sets=BROKERS, faults=faults, **changes))


def test_every_row_can_be_met() -> None:
    for anomaly, rows in EXCUSES.items():
        for row in rows:
            assert row.anomaly == anomaly
            assert row.mechanism
            assert set(row.effects) <= ALL_EFFECTS
            assert row.before(Timings()) >= 0
            assert row.after(Timings()) >= 0


@pytest.mark.parametrize(
    ("of", "excused"),
    [
        (fault("kill", "n0", at_s=10, healed_s=20), True),
        (fault("kill", "n1", at_s=10, healed_s=20), True),  # replication waits for it
        (fault("kill", "n2", at_s=10, healed_s=20), False),  # of another broker name
        (fault("kill", "n0", at_s=10, healed_s=20, bitten=False), False),
        (fault("clock_skew", "n0", at_s=10, healed_s=20), False),
        (fault("kill", "c1", at_s=10, healed_s=20), True),
        (fault("kill", "c9", at_s=10, healed_s=20), False),  # of another group
        (fault("topic_change", at_s=10, healed_s=20), False),
        (fault("never_heard_of", "n0", at_s=10, healed_s=20), True),
    ],
)
def test_a_fault_counts_by_its_effect_and_its_node(of: FaultFacts, excused: bool) -> None:
    known = excuses(of, replication="sync")
    assert (known.find("late_delivery", 15 * S, 16 * S, "b", ("c1", None)) is not None) is excused


@pytest.mark.parametrize(
    ("others", "known", "excused"),
    [
        ((), {"replication": "sync"}, True),  # messages wait for it
        ((), {"replication": "async", "follower_reads": True}, True),  # members wait for it
        ((), {"replication": "async"}, False),
        # members may have gone to the follower when the leader was not in the routes
        ((fault("kill", "n0", at_s=2, healed_s=4),), {"replication": "async"}, True),
        ((fault("kill", "ns-1", at_s=2, healed_s=4),), {"replication": "async"}, True),
        ((cut("n0", "ns-1", at_s=2, healed_s=4),), {"replication": "async"}, True),
        ((fault("kill", "n0", at_s=2, healed_s=4, bitten=False),), {"replication": "async"}, False),
        ((fault("kill", "n2", at_s=2, healed_s=4),), {"replication": "async"}, False),
        ((fault("kill", "n0", at_s=-90, healed_s=-60),), {"replication": "async"}, False),
        ((fault("kill", "n0", at_s=21, healed_s=22),), {"replication": "async"}, False),
        ((delayed("n0", 1.0, at_s=2, healed_s=4),), {"replication": "async"}, False),
    ],
)
def test_a_follower_counts_where_something_waits_for_it(
    others: tuple[FaultFacts, ...], known: dict[str, Any], excused: bool
) -> None:
    paused = fault("pause", "n1", at_s=10, healed_s=20)
    found = excuses(*others, paused, coordinators=("ns-1",), **known)
    windows = found.windows("slow_delivery", "b", ("c1",))
    assert any(window.fault == paused for window in windows) is excused


@pytest.mark.parametrize(
    ("anomaly", "delay_ms", "excused"),
    [
        ("slow_delivery", 0.0, True),  # packets are also lost, or it is not known
        ("slow_delivery", 1.0, False),
        ("slow_delivery", 100.0, True),
        ("needless_refusal", 100.0, False),  # a request is answered in time
        ("needless_refusal", 400.0, True),
        ("spurious_weak_status FLUSH_SLAVE_TIMEOUT", 1.0, True),  # the row names no time
    ],
)
def test_late_packets_count_only_where_a_request_takes_too_long(
    anomaly: str, delay_ms: float, excused: bool
) -> None:
    late = delayed("n0", delay_ms, at_s=10, healed_s=20)
    assert (excuses(late).find(anomaly, 15 * S, 16 * S, "b") is not None) is excused
    lost = replace(late, affects=("network", "stalls"))
    assert excuses(lost).find(anomaly, 15 * S, 16 * S, "b") is not None


@pytest.mark.parametrize(
    ("nodes", "mode", "excused"),
    [
        (("n0", "n1"), "hardened", True),
        (("n0",), "hardened", False),  # no follower has shown what the leader lost
        (("n0",), "faithful", True),  # the leader itself has shown what it had not flushed
    ],
)
def test_a_leader_sets_a_member_back_where_more_was_shown_than_it_kept(
    nodes: tuple[str, ...], mode: str, excused: bool
) -> None:
    kill = fault("kill", "n0", at_s=10, healed_s=20)
    known = Excuses(facts(faults=(kill,), replica_sets={"b": nodes}, mode=mode))
    assert (known.find("commit_rewound", 15 * S, 16 * S, "b") is not None) is excused


def test_a_window_ends_when_the_effect_does() -> None:
    known = excuses(
        fault("kill", "n0", at_s=10, healed_s=20), timings=Timings(request_s=1.0)
    )  # and a request that waits
    assert known.find("late_delivery", 0, 10 * S - 1, "b") is None
    assert known.find("late_delivery", 0, 10 * S, "b") is not None
    assert known.find("late_delivery", 21 * S, 30 * S, "b") is not None
    assert known.find("late_delivery", 21 * S + 1, 30 * S, "b") is None
    [span] = known.spans("late_delivery", "b")
    assert span == (10 * S, 21 * S)


@pytest.mark.parametrize(
    ("link", "excused"),
    [
        (("n0", "n1"), True),
        (("n1", "n0"), True),
        (("n0", "n2"), False),
        (("c1", "n1"), True),
        (("c9", "n0"), False),
        (("c1", "n2"), False),
    ],
)
def test_a_partition_counts_by_the_links_that_it_cut(link: tuple[str, str], excused: bool) -> None:
    known = excuses(cut(*link, at_s=10, healed_s=20), replication="sync")
    found = known.find("late_delivery", 15 * S, 16 * S, "b", ("c1",))
    assert (found is not None) is excused


@pytest.mark.parametrize(
    ("faults", "excused"),
    [
        ((fault("kill", "n0", at_s=10, healed_s=30),), False),
        ((fault("cluster_power_cut", "n0", "n1", "n2", at_s=10, healed_s=30),), True),
        (
            (
                fault("kill", "n0", at_s=10, healed_s=30),
                fault("pause", "n1", at_s=12, healed_s=40),
            ),
            True,
        ),
        (
            (
                fault("kill", "n0", at_s=10, healed_s=30),
                fault("pause", "n1", at_s=25, healed_s=40),
            ),
            False,  # together for 5 s, which is less than half of a rebalance
        ),
        # one after the other: each when the one before answers again
        ((fault("rolling_restart", "n0", "n1", at_s=10, healed_s=30),), False),
    ],
)
def test_a_broker_is_away_while_each_of_its_replicas_is(
    faults: tuple[FaultFacts, ...], excused: bool
) -> None:
    windows = excuses(*faults).windows("queue_unowned", "b")
    away = [window for window in windows if window.excuse.on == (Role.ALL_REPLICAS,)]
    assert any(w.start_ns <= 20 * S and w.end_ns >= 30 * S for w in away) is excused


def test_a_fault_that_strikes_in_turn_excuses_each_target_in_its_own_time() -> None:
    rolling = replace(
        fault("rolling_restart", "n0", "n1", "n2", at_s=10, healed_s=30),
        struck=(
            AffectedTarget(node="n0", start_ns=10 * S, end_ns=14 * S),
            AffectedTarget(node="n1", start_ns=14 * S),
        ),
    )
    known = excuses(rolling, timings=Timings(request_s=1.0))
    assert known.spans("slow_delivery", "b") == [(10 * S, 32 * S)]
    assert known.spans("moved_twice", "b") == [(10 * S, 14 * S)]  # of the master alone
    assert known.spans("offset_lost", "b") == [(9 * S, 14 * S)]  # of the master alone
    assert known.spans("moved_twice", "other") == []  # it was left out
    assert RunFacts.from_json(facts(faults=(rolling,)).to_json()).faults == (rolling,)


def test_a_restart_at_both_ends_of_a_fault_excuses_no_more_than_that() -> None:
    split = replace(
        fault("split_name_servers", "n0", "c1", at_s=10, healed_s=30),
        struck=(
            AffectedTarget(node="n0", start_ns=10 * S, end_ns=12 * S, affects=("stops",)),
            AffectedTarget(node="n0", start_ns=10 * S, affects=("routes",)),
            AffectedTarget(node="n0", start_ns=28 * S, end_ns=30 * S, affects=("stops",)),
        ),
    )
    known = excuses(split)
    assert known.spans("checked_too_often", "b") == [(10 * S, 12 * S), (28 * S, 30 * S)]
    assert known.find("offset_at_follower", 20 * S, 21 * S, "b") is not None
    assert RunFacts.from_json(facts(faults=(split,)).to_json()).faults == (split,)


def test_a_partition_of_unknown_links_may_have_cut_any() -> None:
    unknown = fault("partition_one", "n2", at_s=10, healed_s=20)
    assert excuses(unknown).find("late_delivery", 15 * S, 16 * S, "b") is not None


def test_declared_effects_go_before_those_of_the_kind() -> None:
    harmless = replace(fault("kill", "n0", at_s=10, healed_s=20), affects=("clock",))
    assert excuses(harmless).find("late_delivery", 15 * S, 16 * S, "b") is None
    assert excuses(harmless).find("clock", 15 * S, 16 * S, "b") is not None


def test_a_node_that_ended_by_itself_counts_until_it_is_back() -> None:
    known = excuses(exits=(NodeExit(node="n0", time_ns=10 * S, error="EIO"),))
    assert known.find("late_delivery", 15 * S, 16 * S, "b") is not None
    assert known.find("late_delivery", 15 * S, 16 * S, "other") is None
    assert known.find("late_delivery", 60 * S, 61 * S, "b") is None


def test_facts_keep_effects_links_and_timings() -> None:
    of = replace(cut("n0", "c", at_s=10, healed_s=20), affects=("cuts",), delay_s=0.25)
    known = facts(faults=(of,), timings=Timings(register_s=60.0), coordinators=("n",))
    assert RunFacts.from_json(known.to_json()) == known
    fields: Any = known.to_json()
    for name in ("timings", "coordinators"):
        del fields[name]
    for name in ("affects", "links", "delay_s"):
        del fields["faults"][0][name]
    [older] = RunFacts.from_json(fields).faults
    assert (older.effects, older.links, older.delay_s) == (("cuts",), (), 0.0)


@pytest.mark.parametrize(
    ("resets", "group", "topic", "stream", "offset", "may"),
    [
        ((), "g", "t", "b", 5, True),  # no leader answered: any group may have gone back
        (("g t b 7",), "g", "t", "b", 7, True),
        (("g t b 7",), "g", "t", "b", 6, False),  # farther than the leader answered
        (("g t b 7",), "g", "t", "b", None, True),
        (("g t b 7", "g t b 4"), "g", "t", "b", 6, True),
        (("g t b 7",), "g", "other", "b", 9, False),
        (("g t b 7",), "g", "t", "other", 0, True),  # whose leader did not answer
        (("g t b 7",), "h", "t", "b", 0, True),  # nor for this group
        (("g t b -",), "g", "t", "b", 0, True),  # to the beginning
    ],
)
def test_a_reset_sends_groups_back_as_far_as_leaders_answered(
    resets: tuple[str, ...], group: str, topic: str, stream: str, offset: int | None, may: bool
) -> None:
    reset = replace(
        fault("offsets_reset", at_s=10, healed_s=11), resets=tuple(map(offsets_reset, resets))
    )
    window = excuses(reset).find("sent_back", 10 * S, 11 * S)
    assert window is not None
    queue = LogKey(topic=topic, home=stream, partition=0)
    assert window.sends_back_to(group, queue, offset) is may


def offsets_reset(text: str) -> OffsetsReset:
    group, topic, stream, offset = text.split()
    return OffsetsReset(
        group=group,
        topic=topic,
        stream=stream,
        asked_ns=10 * S,
        answered_ns=10 * S,
        offsets=() if offset == "-" else ((0, int(offset)),),
    )


@pytest.mark.parametrize("register_s", [10.0, 30.0])
def test_a_coordinator_that_stood_still_keeps_servers_for_a_fixed_time(register_s: float) -> None:
    """It does not know how often they register."""
    grace_s = pause_guard.GRACE_NS / 10**9
    looks_s = name_server.SCAN_INTERVAL_NS / 10**9
    assert forgets_after_a_pause(Timings(register_s=register_s)) == grace_s + looks_s
