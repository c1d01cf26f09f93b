"""Delivery latency: a message must be delivered at once unless something legal delays it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.features import delivery_waits
from staticfire.checkers.guarantees.facts import AffectedTarget, FaultFacts, Timings
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.history import Op
from tests.checkers.legal_histories import cut
from tests.support.history_language import GROUP, TOPIC, facts, fault, history
from tests.support.one_checker import judged_by
from tests.support.reference_waits_of_messages import slow_deliveries
from tests.support.waiting_histories import (
    EPOCH_MS,
    contents_stored,
    waiting_history,
    with_store_times,
)

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "60")))
OWNED = ("1 ok open node=c1", "2 ok open node=c2", "1 ok assign 0", "2 ok assign 1")


def judged(ops: list[Op], **changes: object) -> Verdict:
    return judged_by("delivery_waits", ops, [], facts(**changes))


def check(*ops: str, **changes: object) -> Verdict:
    return judged(history(*OWNED, *ops), **changes)


def keys(verdict: Verdict) -> list[str | None]:
    assert all(finding.anomaly == "slow_delivery" for finding in verdict.findings)
    return [finding.key for finding in verdict.findings]


@pytest.mark.parametrize(
    ("ops", "slow"),
    [
        (["0 ok send a t=20", "1 ok consume a t=22"], []),
        (["0 ok send a t=20", "1 ok consume a t=22.5"], ["a"]),
        # what was acknowledged there is gone, and another message took its place
        (["0 ok send a@0:0 t=20", "0 info send b t=29", "1 ok consume b@0:0 t=30"], []),
        # its listener was busy with what came before
        (["0 ok send a t=20", "0 ok send b", "1 ok consume a t=20.1", "1 ok consume b t=22.1"], []),
        (
            ["0 ok send a t=20", "0 ok send b", "1 ok consume a t=20.1", "1 ok consume b t=23"],
            ["b"],
        ),
        (
            [
                *("0 ok send a t=20", "0 ok send b", "1 invoke consume a t=20.1"),
                *("1 ok consume a t=30", "1 ok consume b t=31.9"),
            ],
            [],
        ),
        # what was taken had been delivered late before, and counts though another one was acknowledged there since
        (["0 ok send a@0:0 t=20", "1 ok consume a@0:0 t=25", "0 ok send b@0:0 t=30"], ["a"]),
        # it came behind one that no acknowledgement places, and both had waited
        (
            [
                *("0 info send a@0:0 t=19", "0 ok send b@0:1 t=20"),
                *("1 ok consume a@0:0 t=30", "1 ok consume b@0:1 t=30.1"),
            ],
            ["b"],
        ),
        # ... while the listener was at work
        (
            [
                *("0 ok send c@0:0 t=18", "1 invoke consume c@0:0 t=19"),
                *("0 info send a@0:1 t=19.1", "0 ok send b@0:2 t=20", "1 ok consume c@0:0 t=29"),
                *("1 ok consume a@0:1 t=30", "1 ok consume b@0:2 t=30.1"),
            ],
            [],
        ),
        # another queue keeps no listener of this one at work
        (
            [
                *("1 ok assign 0 1 t=1", "0 ok send c@1:0 t=19", "1 invoke consume c@1:0 t=19.1"),
                *("0 ok send b@0:0 t=20", "1 ok consume b@0:0 t=30", "1 ok consume c@1:0 t=31"),
            ],
            ["b"],
        ),
        # a new owner needs a moment, but not between two messages
        (
            [
                *("0 ok send a t=20", "1 ok assign 1 t=20.5", "2 ok assign 0 t=21"),
                *("2 ok consume a t=22", "0 ok send b t=23", "2 ok consume b t=26"),
            ],
            ["b"],
        ),
        # ... until it may have given the queue up
        (
            [
                *("0 ok send a t=20", "1 ok assign 1 t=20.5", "2 ok assign 0 t=21"),
                *("2 ok consume a t=22", "0 ok send b t=23", "2 ok assign 1 t=26"),
                *("1 ok assign 0 t=26.1", "1 ok consume b t=27"),
            ],
            [],
        ),
        (
            [
                *("0 ok send a t=20", "1 ok consume a t=20.1", "1 ok assign 1 t=20.5"),
                *("2 ok assign 0 t=21", "0 ok send b t=23", "2 ok consume b t=26"),
            ],
            [],
        ),
        (
            [
                "0 ok send a t=20",
                "1 ok assign 1 t=21",
                "2 ok assign 0 t=21.5",
                "2 ok consume a t=33",
            ],
            [],
        ),
        (
            [
                "0 ok send a t=20",
                "1 ok assign 1 t=21",
                "2 ok assign 0 t=21.5",
                "2 ok consume a t=34",
            ],
            ["a"],
        ),
        # the first owner had been idle for long enough
        (
            [
                "0 ok send a t=20",
                "1 ok assign 1 t=23",
                "2 ok assign 0 t=23.5",
                "2 ok consume a t=24",
            ],
            ["a"],
        ),
        # no member had the queue
        (
            [
                "1 ok assign 1 t=10",
                "0 ok send a t=20",
                "1 ok assign 0 1 t=80",
                "1 ok consume a t=81",
            ],
            [],
        ),
        # its owner had ended
        (
            [
                "3 ok open node=c1 t=19",
                "0 ok send a t=20",
                "2 ok assign 0 1 t=40",
                "2 ok consume a t=41",
            ],
            [],
        ),
        # a redelivery is no first delivery, and what is not acknowledged may not be there
        (["0 ok send a t=20", "1 ok consume a t=21", "1 ok consume a~1 t=50"], []),
        (["0 info send a@0:0 t=20", "1 ok consume a t=50"], []),
    ],
)
def test_only_what_nothing_holds_up(ops: list[str], slow: list[str]) -> None:
    verdict = check(*ops)

    assert keys(verdict) == slow
    assert verdict.valid is not bool(slow)


@pytest.mark.parametrize(("ends", "slow"), [(False, []), (True, ["b"])])
def test_a_listener_that_died_was_at_work_until_then(ends: bool, slow: list[str]) -> None:
    """Its call has no end, and what lies behind it waits for the next owner."""
    lines = (
        *OWNED,
        "0 ok send a t=20",
        "0 ok send b",
        "1 ok consume a t=20.1",
        "2 ok assign 0 1 t=28",
        "2 ok consume b",
    )
    ops = history(*lines)
    if not ends:
        ops[6] = replace(ops[6], type="invoke")
    crash = fault("client_crash", "c1", at_s=27, healed_s=27.5)
    assert keys(judged(ops, faults=(crash,))) == slow


@pytest.mark.parametrize(
    ("orderly", "at_s", "slow"), [(("g",), 32, []), (("g",), 33, ["b"]), ((), 23, ["b"])]
)
def test_an_orderly_listener_tries_the_first_one_again_before(
    orderly: tuple[str, ...], at_s: int, slow: list[str]
) -> None:
    ops = ("0 ok send a t=20", "0 ok send b", "1 info consume a t=20.1")

    assert keys(check(*ops, f"1 ok consume b t={at_s}", orderly=orderly)) == slow


FAILED = ("0 ok send a t=20", "0 ok send b", "1 invoke consume a t=20.1", "1 info consume a t=20.2")


@pytest.mark.parametrize(
    ("ops", "held_max", "slow"),
    [
        # given to the listener again, and until then the member has too much
        (("1 ok consume a@0:0 t=25.2", "1 ok consume b@0:1 t=27"), 0, []),
        (("1 ok consume a@0:0 t=25.2", "1 ok consume b@0:1 t=27.3"), 0, ["b"]),
        (("1 ok consume a@0:0 t=25.2", "1 ok consume b@0:1 t=25.3"), 1, ["b"]),
        # not given to the listener again
        (("1 ok consume b@0:1 t=27.1",), 0, []),
        (("1 ok consume b@0:1 t=27.3",), 0, ["b"]),
        # another member has nothing
        (("2 ok consume a@0:0 t=22.5", "1 ok consume b@0:1 t=27.1"), 0, []),
    ],
)
def test_a_member_that_keeps_too_many_failed_messages_fetches_nothing(
    ops: tuple[str, ...], held_max: int, slow: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_waits, "HELD_MAX", held_max)
    assert keys(check(*FAILED, *ops)) == slow


@pytest.mark.parametrize(("span_max", "slow"), [(0, ["b"]), (-1, [])])
def test_a_member_fetches_nothing_that_lies_too_far_behind_a_failed_message(
    span_max: int, slow: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_waits, "SPAN_MAX", span_max)
    given = ("1 ok consume a@0:0 t=25.2", "1 ok consume b@0:1 t=25.3")

    assert keys(check(*FAILED, *given)) == slow


@pytest.mark.parametrize(
    ("reported_s", "copied", "process", "given_s", "slow"),
    [
        (23.2, True, 1, 25.2, []),
        (23.2, True, 1, 25.3, ["b"]),
        (23.2, False, 1, 25.2, ["b"]),  # a broker that takes it back answers at once
        (23.2, True, 2, 25.2, ["b"]),  # another member
        (29.2, True, 1, 31.2, []),
        (29.3, True, 1, 31.2, ["b"]),  # a client does not try for so long
    ],
)
def test_a_member_whose_broker_declines_is_busy_with_its_own_copy(
    reported_s: float, copied: bool, process: int, given_s: float, slow: list[str]
) -> None:
    ops = history(*OWNED, *FAILED, f"1 ok consume b@0:1 t={given_s}")
    held = {"group": GROUP, "topic": TOPIC, "broker": "b", "queue": 0, "messages": [["a", 0, 0]]}
    report = Op(
        index=len(ops) - 1,
        time_ns=round(reported_s * NS_PER_S),
        process=process,
        type="ok",
        f="send_back",
        value={**held, "copied": copied},
    )
    ops[-1:] = [report, replace(ops[-1], index=len(ops))]
    assert keys(judged(ops)) == slow


@pytest.mark.parametrize(("poll_s", "slow"), [(0.0, ["a"]), (1.0, [])])
def test_short_polling_takes_its_time(poll_s: float, slow: list[str]) -> None:
    ops = ("0 ok send a t=20", "1 ok consume a t=22.9")

    assert keys(check(*ops, timings=Timings(poll_s=poll_s))) == slow


@pytest.mark.parametrize(
    ("flush_wait_s", "at_s", "slow"),
    [(0.0, 22.1, ["a"]), (0.1, 22.1, ["a"]), (8.0, 27.9, []), (8.0, 28.1, ["a"])],
)
def test_a_message_waits_until_it_is_flushed(
    flush_wait_s: float, at_s: float, slow: list[str]
) -> None:
    ops = ("0 ok send a t=20", f"1 ok consume a t={at_s}")

    assert keys(check(*ops, timings=Timings(flush_wait_s=flush_wait_s))) == slow


@pytest.mark.parametrize(
    ("mode", "nodes", "at_s", "slow"),
    [
        ("faithful", ("n0", "n1"), 26.9, []),
        ("faithful", ("n0", "n1"), 27.1, ["a"]),
        ("faithful", ("n0",), 26.9, ["a"]),
        ("hardened", ("n0", "n1"), 26.9, ["a"]),
    ],
)
def test_a_slave_of_rocketmq_looks_every_5_s(
    mode: str, nodes: tuple[str, ...], at_s: float, slow: list[str]
) -> None:
    ops = ("0 ok send a t=20", f"1 ok consume a t={at_s}")

    assert keys(check(*ops, mode=mode, replica_sets={"b": nodes})) == slow


@pytest.mark.parametrize(
    ("kind", "node", "bitten", "at_s", "slow"),
    [
        ("kill", "n0", True, 19, False),
        ("kill", "n0", False, 19, True),
        ("kill", "n0", True, 5, True),  # it is long over
        ("kill", "n9", True, 19, True),  # another broker
        ("slow_consumer", "c1", True, 19, False),
        ("slow_consumer", "c2", True, 19, True),  # another member
        ("client_crash", "c2", True, 19, True),
        ("network_latency", "c1", True, 19, False),
        ("clock_skew", "n0", True, 19, True),
        ("network_latency", "ns-1", True, 19, True),  # the owner knows its broker
        ("name_server_freeze", "ns-1", True, 19, True),
    ],
)
def test_a_fault_counts_where_it_holds_something_up(
    kind: str, node: str, bitten: bool, at_s: float, slow: bool
) -> None:
    struck = fault(kind, node, at_s=at_s, healed_s=at_s + 2, bitten=bitten)

    ops = ("0 ok send a t=20", "1 ok consume a t=24")
    verdict = check(*ops, faults=(struck,), coordinators=("ns-1",))

    assert keys(verdict) == (["a"] if slow else [])


def test_the_time_between_two_faults_counts() -> None:
    kills = (
        fault("kill", "n0", at_s=19, healed_s=21),  # until 27 s
        fault("kill", "n0", at_s=30, healed_s=31),
    )

    assert keys(check("0 ok send a t=20", "1 ok consume a t=35", faults=kills)) == ["a"]


def lost(at_s: float) -> FaultFacts:
    return replace(fault("disk_lost", "n0", at_s=at_s, healed_s=at_s + 2), permanent=True)


@pytest.mark.parametrize(
    ("nodes", "struck", "at_s", "slow"),
    [
        (("n0", "n1", "n2"), (lost(20),), 48, []),  # 20 s of silence, then they ask each other
        (("n0", "n1", "n2"), (lost(20),), 51, ["a"]),
        (("n0", "n1"), (lost(20),), 48, ["a"]),  # it has no other slave to ask
        (("n0", "n1", "n2"), (replace(lost(20), permanent=False),), 48, ["a"]),
        (("n0", "n1", "n2"), (fault("kill", "n0", at_s=20, healed_s=22),), 48, ["a"]),
        # the one that had it was away when the other asked
        (("n0", "n1", "n2"), (lost(20), fault("kill", "n2", at_s=38, healed_s=50)), 75, []),
        (("n0", "n1", "n2"), (lost(60), fault("kill", "n2", at_s=19, healed_s=21)), 45, ["a"]),
    ],
)
def test_slaves_without_a_master_ask_each_other(
    nodes: tuple[str, ...], struck: tuple[FaultFacts, ...], at_s: float, slow: list[str]
) -> None:
    ops = ("0 ok send a t=19.9", f"1 ok consume a t={at_s}")

    assert keys(check(*ops, replica_sets={"b": nodes}, faults=struck)) == slow


FROZEN = fault("name_server_freeze", "ns-1", at_s=5, healed_s=40)
DOWN = fault("kill", "ns-2", at_s=6, healed_s=30)
SILENT = fault("name_server_black_hole", "ns-2", at_s=6, healed_s=30)
STARTED = fault("kill", "n1", at_s=8, healed_s=9)


def rolled(node: str, *, at_s: int, until_s: int) -> FaultFacts:
    """A rolling restart from 1 to 40 s, in which the turn of a node came at some time."""
    part = AffectedTarget(node=node, start_ns=at_s * NS_PER_S, end_ns=until_s * NS_PER_S)
    return replace(fault("rolling_restart", "n0", node, at_s=1, healed_s=40), struck=(part,))


def frozen_beside(node: str) -> FaultFacts:
    """A name server that is frozen from 5 to 40 s, while a node that is no follower here restarts."""
    parts = (
        AffectedTarget(node="ns-1", start_ns=5 * NS_PER_S, affects=("stalls",)),
        AffectedTarget(node="n0", start_ns=6 * NS_PER_S, end_ns=7 * NS_PER_S, affects=("stops",)),
    )
    kind = "name_server_freeze_in_rolling_restart"
    return replace(fault(kind, "ns-1", "n0", node, at_s=5, healed_s=40), struck=parts)


@pytest.mark.parametrize(
    ("nodes", "struck", "at_s", "slow"),
    [
        (("n0", "n1"), (FROZEN, DOWN, STARTED), 20, []),
        (("n0", "n1"), (DOWN, STARTED), 20, ["a"]),  # the other one names its master
        (("n0", "n1"), (FROZEN, DOWN), 20, ["a"]),  # it goes on with its master
        (("n0", "n1"), (FROZEN, DOWN, fault("kill", "n1", at_s=2, healed_s=4)), 20, ["a"]),
        # when a name server answered again that knew the master
        (("n0", "n1"), (FROZEN, SILENT, fault("kill", "n1", at_s=29, healed_s=30)), 35, []),
        (("n0", "n1"), (FROZEN, SILENT, fault("kill", "n1", at_s=31, healed_s=32)), 39, ["a"]),
        (("n0", "n1"), (FROZEN, DOWN, fault("kill", "n0", at_s=8, healed_s=9)), 20, ["a"]),
        (("n0", "n1"), (FROZEN, DOWN, fault("pause", "n1", at_s=8, healed_s=9)), 20, ["a"]),
        (("n0",), (FROZEN, DOWN, STARTED), 20, ["a"]),
        (("n0", "n1"), (FROZEN, DOWN, STARTED), 45, []),  # a registration is answered within 9 s
        (("n0", "n1"), (FROZEN, DOWN, STARTED), 47.5, ["a"]),
        # the one that had forgotten the leader had learned of it, and the other one answers
        (("n0", "n1"), (replace(FROZEN, healed_ns=80 * NS_PER_S), DOWN, STARTED), 64, []),
        (("n0", "n1"), (replace(FROZEN, healed_ns=80 * NS_PER_S), DOWN, STARTED), 67.5, ["a"]),
        # each node was struck in its own part of the fault alone
        (("n0", "n1"), (FROZEN, DOWN, rolled("n1", at_s=8, until_s=12)), 20, []),
        (("n0", "n1"), (FROZEN, DOWN, rolled("n1", at_s=2, until_s=4)), 20, ["a"]),
        (("n0", "n1"), (frozen_beside("n1"), DOWN, STARTED), 20, []),
        (("n0", "n1"), (frozen_beside("n1"), DOWN, STARTED), 47.5, ["a"]),  # it forgot nothing
    ],
)
def test_a_slave_that_starts_without_name_servers_lags(
    nodes: tuple[str, ...], struck: tuple[FaultFacts, ...], at_s: float, slow: list[str]
) -> None:
    ops = (f"0 ok send a t={at_s}", f"1 ok consume a t={at_s + 4}")
    known = {"replica_sets": {"b": nodes}, "coordinators": ("ns-1", "ns-2"), "faults": struck}

    assert keys(check(*ops, follower_reads=True, **known)) == slow
    assert keys(check(*ops, **known)) == ["a"]  # it reads from the master


@pytest.mark.parametrize(
    ("policies", "at_s", "slow"),
    [(("registration",), 62, []), (("registration",), 75, ["a"]), (("visible_end",), 62, ["a"])],
)
def test_a_slave_of_rocketmq_waits_for_its_next_registration(
    policies: tuple[str, ...], at_s: int, slow: list[str]
) -> None:
    verdict = check(
        f"0 ok send a t={at_s}",
        f"1 ok consume a t={at_s + 12}",
        mode="faithful",
        policies=policies,
        replica_sets={"b": ("n0", "n1")},
        coordinators=("ns-1", "ns-2"),
        faults=(FROZEN, DOWN, STARTED),
        follower_reads=True,
    )

    assert keys(verdict) == slow


@pytest.mark.parametrize(("opened_s", "slow"), [(4, ["a"]), (7, [])])
def test_a_member_that_starts_then_knows_no_other_replica(opened_s: int, slow: list[str]) -> None:
    ops = history(
        *(f"3 ok open node=c3 t={opened_s}", "3 ok assign 0"),
        *("0 ok send a t=42", "3 ok consume a t=50"),
    )
    known = {"replica_sets": {"b": ("n0", "n1")}, "coordinators": ("ns-1", "ns-2")}

    verdict = judged(ops, faults=(FROZEN, DOWN, STARTED), **known)

    assert keys(verdict) == slow


RESTARTED = fault("name_server_amnesia", "ns-1", at_s=1, healed_s=2)  # it knows no leader for 30 s


@pytest.mark.parametrize(
    ("struck", "slow"),
    [
        ((fault("kill", "n0", at_s=5.5, healed_s=6.5),), []),
        ((fault("kill", "n0", at_s=1, healed_s=2),), []),  # it may not have asked again in 30 s
        ((RESTARTED, fault("kill", "n0", at_s=5.5, healed_s=6.5)), []),
        # the coordinators had named the leader
        ((fault("kill", "n0", at_s=6.5, healed_s=7),), ["a"]),
        ((RESTARTED, fault("kill", "n0", at_s=6.5, healed_s=7)), ["a"]),
        ((fault("pause", "n0", at_s=5.5, healed_s=6.5),), ["a"]),
        ((fault("kill", "n2", at_s=5.5, healed_s=6.5),), ["a"]),  # leads another replica set
    ],
)
def test_a_member_has_no_address_of_a_leader_that_was_away_when_the_coordinators_fell_silent(
    struck: tuple[FaultFacts, ...], slow: list[str]
) -> None:
    sets = {"b": ("n0", "n1"), "c": ("n2",)}
    known = {"replica_sets": sets, "coordinators": ("ns-1", "ns-2")}
    ops = "0 ok send a t=20", "1 ok consume a t=24"

    assert keys(check(*ops, faults=(FROZEN, SILENT, *struck, STARTED), **known)) == slow


def test_a_member_asks_again_for_a_leader_that_is_back() -> None:
    away = fault("kill", "n0", at_s=1, healed_s=2)
    frozen = (
        fault("name_server_freeze", "ns-1", at_s=33, healed_s=60),
        fault("name_server_freeze", "ns-2", at_s=33, healed_s=60),
    )
    known = {"replica_sets": {"b": ("n0", "n1")}, "coordinators": ("ns-1", "ns-2")}
    started = fault("kill", "n1", at_s=35, healed_s=36)

    verdict = check(
        "0 ok send a t=45", "1 ok consume a t=49", faults=(away, *frozen, started), **known
    )

    assert keys(verdict) == ["a"]


LINK = "n0", "n1"
TWICE = (cut(*LINK, at_s=10, healed_s=20), cut(*LINK, at_s=25, healed_s=30))
SWALLOWED = fault("broker_black_hole", "n1", at_s=10, healed_s=30)
STOOD_STILL = fault("pause", "n1", at_s=10, healed_s=30)


@pytest.mark.parametrize(
    ("struck", "at_s", "given_s", "slow"),
    [
        (TWICE, 38, 49, []),  # an attempt at 25 s failed, and the next is due by 50 s
        (TWICE, 38, 53, ["a"]),
        (TWICE[:1], 25, 31, []),
        (TWICE[:1], 25, 33, ["a"]),
        (TWICE[1:], 38, 49, ["a"]),
        ((cut("n0", "c1", at_s=10, healed_s=30),), 38, 49, ["a"]),  # another link
        ((SWALLOWED,), 38, 49, []),
        ((SWALLOWED,), 38, 53, ["a"]),
        ((STOOD_STILL,), 38, 49, ["a"]),  # its kernel acknowledges packets
        # the follower gave the silent connection up
        ((cut(*LINK, at_s=2, healed_s=100),), 127, 136, ["a"]),
    ],
)
def test_tcp_repeats_what_a_broken_link_kept_from_a_follower_that_serves_reads(
    struck: tuple[FaultFacts, ...], at_s: float, given_s: float, slow: list[str]
) -> None:
    ops = (f"0 ok send a t={at_s}", f"1 ok consume a t={given_s}")
    known = {"replica_sets": {"b": LINK}, "faults": struck}

    assert keys(check(*ops, follower_reads=True, **known)) == slow
    assert keys(check(*ops, **known)) == ["a"]


@pytest.mark.parametrize(
    ("packet_s", "at_s", "slow"),
    [
        (0.0, 20.5, []),
        (0.0, 20.6, ["a"]),
        (0.3, 21.1, []),  # a request and its answer
        (0.3, 21.2, ["a"]),
        (3.0, 22.0, []),
        (3.0, 22.1, ["a"]),
    ],
)
def test_the_network_takes_its_time(packet_s: float, at_s: float, slow: list[str]) -> None:
    ops = ("0 ok send a t=20", f"1 ok consume a t={at_s}")

    assert keys(check(*ops, timings=Timings(packet_s=packet_s))) == slow


@pytest.mark.parametrize(("tag", "slow"), [("red", []), ("green", ["a"])])
def test_what_the_filter_before_held_back_is_not_late(tag: str, slow: list[str]) -> None:
    ops = [
        replace(op, value={**op.value, "tag": tag}) if op.f == "send" else op
        for op in history(*OWNED, "0 ok send a t=20", "1 ok consume a t=40")
    ]

    verdict = judged(
        ops,
        groups={GROUP: (TOPIC,)},
        wanted_tags={GROUP: ("red", "green")},
        wanted_before={GROUP: ("green",)},
        filters_changed_ns={GROUP: 30 * NS_PER_S},
    )

    assert keys(verdict) == slow


def test_each_member_of_a_broadcasting_group_counts() -> None:
    ops = ("2 ok assign 0 1", "0 ok send a t=20", "1 ok consume a t=21", "2 ok consume a t=25")

    assert keys(check(*ops)) == []
    assert keys(check(*ops, broadcasting=("g",))) == ["a"]


def test_members_that_do_not_say_what_they_have_are_not_judged() -> None:
    verdict = judged(history("0 ok send a t=20", "1 ok consume a t=50"))

    assert (verdict.valid, verdict.counts) == (True, {"timed": 1})


def kept_back(stored_s: float, given_s: float, **changes: object) -> Verdict:
    """A message whose send no broker answered, and that was delivered with its store time."""
    ops = history(*OWNED, "0 info send a t=20", f"1 ok consume a@0:0 t={given_s}")
    [row] = ops[-1].value["messages"]
    row.append(contents_stored(round(stored_s * 1e9)))
    return judged(ops, **{"wall_epoch_ms": EPOCH_MS, **changes})


def test_what_no_acknowledgement_places_waits_from_its_store_time_on() -> None:
    assert keys(kept_back(25, 27)) == []
    assert keys(kept_back(25, 27.2)) == ["a"]
    assert keys(kept_back(25, 27.2, wall_epoch_ms=None)) == []


@pytest.mark.parametrize(
    ("struck", "slow"),
    [
        (fault("kill", "elsewhere", at_s=24, healed_s=25), ["a"]),
        (fault("kill", "n0", at_s=24, healed_s=25), []),
        (fault("kill", "n0", at_s=15, healed_s=16), ["a"]),
        (fault("slow_consumer", "c1", at_s=24, healed_s=25), []),
        (fault("slow_consumer", "c2", at_s=24, healed_s=25), ["a"]),
        (fault("clock_skew", "n0", at_s=1, healed_s=2), []),
    ],
)
def test_store_times_count_unless_a_fault_holds_something_up(
    struck: FaultFacts, slow: list[str]
) -> None:
    assert keys(kept_back(25, 29, faults=(struck,))) == slow


@pytest.mark.parametrize(
    ("struck", "replication", "slow"),
    [
        # the leader counts on its follower until it has been silent for long enough
        (cut("n0", "n1", at_s=10, healed_s=15), "sync", []),
        (fault("power_cut", "n1", at_s=10, healed_s=15), "sync", []),
        (fault("kill", "n1", at_s=10, healed_s=15), "sync", ["a"]),  # its connection has ended
        (fault("kill", "n1", at_s=10, healed_s=23), "sync", []),
        (fault("kill", "n1", at_s=10, healed_s=23), "async", ["a"]),
        (fault("kill", "n2", at_s=10, healed_s=15), "sync", ["a"]),
    ],
)
def test_a_synchronous_leader_may_wait_for_its_follower(
    struck: FaultFacts, replication: str, slow: list[str]
) -> None:
    known = {"replica_sets": {"b": ("n0", "n1")}, "replication": replication}

    assert keys(kept_back(25, 29, faults=(struck,), **known)) == slow


def test_a_wrong_clock_is_wrong_until_its_node_starts_again() -> None:
    clock = fault("clock_skew", "n0", at_s=1, healed_s=2)
    late = {"stored_s": 200, "given_s": 204}

    assert keys(kept_back(**late)) == ["a"]
    assert keys(kept_back(**late, faults=(replace(clock, targets=("n9",)),))) == ["a"]
    assert keys(kept_back(**late, faults=(clock,))) == []


@pytest.mark.slow
@STEADY
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(5, 50),
    stored=st.booleans(),
    orderly=st.sampled_from([(), ("g",)]),
    held_max=st.sampled_from([0, 1, 1000]),
    span_max=st.sampled_from([-1, 0, 1, 2000]),
)
def test_as_the_plain_reference_says(
    seed: int, steps: int, stored: bool, orderly: tuple[str, ...], held_max: int, span_max: int
) -> None:
    ops = waiting_history(Random(seed), steps)
    limits = {"held_max": held_max, "span_max": span_max}
    expected = slow_deliveries(ops, ("h",), stored=stored, orderly=orderly, **limits)

    known = {"groups": {"g": ("t",), "h": ("t",)}, "broadcasting": ("h",), "orderly": orderly}
    reported = with_store_times(ops) if stored else ops
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery_waits, "HELD_MAX", held_max)
        patch.setattr(delivery_waits, "SPAN_MAX", span_max)
        verdict = judged(reported, wall_epoch_ms=EPOCH_MS, **known)

    assert verdict.counts.get("slow_delivery", 0) == len(expected)
    assert {(one.group, one.key) for one in verdict.findings} <= {one[:2] for one in expected}


def test_slow_deliveries_occur() -> None:
    """Or the histories would prove nothing."""
    seen: Counter[str] = Counter()
    for seed in range(30):
        seen.update(group for group, *_ in slow_deliveries(waiting_history(Random(seed), 40), "h"))

    assert set(seen) == {"g", "h"}
