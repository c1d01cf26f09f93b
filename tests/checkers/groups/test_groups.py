"""Ownership of queues: planted gaps and overlaps, and the near misses that a rebalance explains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.checkers.groups.groups import GROUPS
from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import fault, history, queues_confirmed
from tests.support.one_checker import read_ops

SENT = ("0 ok send a", "0 ok send b queue=1")


def check(*lines: str, **changes: object) -> Verdict:
    columns, context = read_ops(history(*lines), **changes)
    assert GROUPS.applies(context)
    return GROUPS.check(columns, context)


def found(verdict: Verdict) -> list[str]:
    return [
        name
        for name, count in verdict.counts.items()
        if name != "queues_owned"
        for _ in range(count)
    ]


STEADY = (*SENT, "1 ok assign 0 t=1", "2 ok assign 1 t=1")


def test_everything_is_owned_once() -> None:
    verdict = check(*STEADY, "9 ok drain t=200")

    assert verdict.valid is True
    assert verdict.counts == {"queues_owned": 2}


@pytest.mark.parametrize(
    ("lines", "anomalies"),
    [
        # queue 1 was given up, and no member took it
        (("2 ok assign t=50", "9 ok drain t=90"), ["queue_unowned"]),
        (("2 ok assign t=50", "1 ok assign 0 1 t=79", "9 ok drain t=200"), []),
        (("2 ok assign t=50", "1 ok assign 0 1 t=81", "9 ok drain t=200"), ["queue_unowned"]),
        # two members own queue 1
        (("1 ok assign 0 1 t=50", "9 ok drain t=90"), ["double_ownership"]),
        (("1 ok assign 0 1 t=50", "2 ok assign t=79", "9 ok drain t=200"), []),
        # the member was started again: its earlier life owns nothing more
        (
            (
                "2 ok open node=c2 t=2",
                "3 ok open node=c2 t=50",
                "1 ok assign 0 1 t=51",
                "9 ok drain t=200",
            ),
            [],
        ),
    ],
)
def test_a_change_has_its_time(lines: tuple[str, ...], anomalies: list[str]) -> None:
    assert found(check(*STEADY, *lines)) == anomalies


def test_a_queue_that_never_had_an_owner() -> None:
    lines = (*SENT, "1 ok assign 0 t=1")

    assert found(check(*lines, "9 ok drain t=59")) == []
    verdict = check(*lines, "9 ok drain t=61")
    assert found(verdict) == ["queue_unowned"]
    [finding] = verdict.findings
    assert (finding.group, finding.broker, finding.queue) == ("g", "b", 1)


@pytest.mark.parametrize(
    ("end_s", "more", "anomalies"),
    [
        # 6 s to register them, 30 s until clients ask for the route, 30 s until all members have looked
        (116, (), []),
        (117, (), ["queue_unowned"] * 2),
        (190, ("2 ok assign 1 2 3 t=110",), []),
        (190, ("2 ok assign 1 2 t=110",), ["queue_unowned"]),
    ],
)
def test_a_queue_that_its_leader_has_confirmed_gets_an_owner(
    end_s: int, more: tuple[str, ...], anomalies: list[str]
) -> None:
    lines = (*STEADY, *more, f"9 ok drain t={end_s}")
    confirmed = queues_confirmed(4, at_s=50)

    assert found(check(*lines, faults=(confirmed,))) == anomalies
    assert found(check(*lines, faults=(replace(confirmed, confirmed=()),))) == []


@pytest.mark.parametrize(
    ("struck", "end_s", "is_found"),
    [
        # the leader or a coordinator is cut off: 30 s more until it registers
        (fault("partition", "n0", at_s=52, healed_s=60), 156, False),
        (fault("partition", "n0", at_s=52, healed_s=60), 157, True),
        (fault("partition", "n0", at_s=57, healed_s=60), 157, True),
        (fault("pause", "n1", at_s=52, healed_s=60), 157, True),
        (fault("name_server_freeze", "ns-1", at_s=52, healed_s=60), 156, False),
        (fault("name_server_freeze", "ns-1", at_s=52, healed_s=60), 157, True),
        # the leader has forgotten the queues before clients had to know them
        (fault("disk_lost", "n0", at_s=80, healed_s=82), 190, False),
        (fault("disk_lost", "n1", at_s=80, healed_s=82), 190, True),
    ],
)
def test_a_fault_of_its_leader_or_of_coordinators_gives_a_confirmed_queue_time(
    struck: FaultFacts, end_s: int, is_found: bool
) -> None:
    faults = (queues_confirmed(3, at_s=50), struck)
    known = {"replica_sets": {"b": ("n0", "n1")}, "coordinators": ("ns-1",), "faults": faults}
    verdict = check(*STEADY, f"9 ok drain t={end_s}", **known)

    assert found(verdict) == ["queue_unowned"] * is_found


def test_the_time_in_which_members_are_cut_off_does_not_count() -> None:
    members = ("1 ok open node=c1 t=1", "2 ok open node=c2 t=1")
    lines = (*SENT, *members, *STEADY[2:], "2 ok assign t=50")
    links = (("c1", "n0"), ("c2", "n0"))
    partition = replace(fault("partition", "n0", at_s=55, healed_s=69), links=links)
    faults = (fault("topic_change", at_s=45, healed_s=46), partition)

    assert found(check(*lines, "9 ok drain t=100", faults=faults[:1])) == ["queue_unowned"]
    # 20 s: the partition, and two requests that wait for an answer
    assert found(check(*lines, "9 ok drain t=100", faults=faults)) == []
    assert found(check(*lines, "9 ok drain t=101", faults=faults)) == ["queue_unowned"]
    # nothing had to be shared out anew
    assert found(check(*lines, "9 ok drain t=100", faults=faults[1:])) == ["queue_unowned"]


@pytest.mark.parametrize(
    ("link", "anomalies"),
    [
        (("c2", "n0"), []),
        (("n0", "c1"), []),
        (("c3", "n0"), ["queue_unowned"]),  # of another group
        (("n0", "n1"), ["queue_unowned"]),
    ],
)
def test_a_partition_counts_where_it_cut_a_member_off(
    link: tuple[str, str], anomalies: list[str]
) -> None:
    members = ("1 ok open node=c1 t=1", "2 ok open node=c2 t=1")
    lines = (*SENT, *members, *STEADY[2:], "2 ok assign t=50", "9 ok drain t=100")
    partition = replace(fault("partition", "n0", at_s=55, healed_s=69), links=(link,))

    faults = (fault("topic_change", at_s=45, healed_s=46), partition)
    brokers = {"b": ("n0",), "other": ("n1",)}
    assert found(check(*lines, replica_sets=brokers, faults=faults)) == anomalies


def test_a_fault_that_did_not_bite_excuses_nothing() -> None:
    lines = (*STEADY, "2 ok assign t=50", "9 ok drain t=100")
    kill = fault("kill", "n0", at_s=51, healed_s=90)

    assert found(check(*lines, faults=(kill,))) == []
    assert found(check(*lines, faults=(replace(kill, bitten_ns=None),))) == ["queue_unowned"]
    elsewhere = replace(kill, targets=("n1",))
    assert found(check(*lines, faults=(elsewhere,))) == ["queue_unowned"]


@pytest.mark.parametrize(
    ("faults", "anomalies"),
    [
        ((fault("client_crash", "c2", at_s=50, healed_s=90),), ["queue_unowned"]),  # c1 lives
        ((fault("pause", "c2", at_s=50, healed_s=90),), ["queue_unowned"]),  # it owned nothing
        ((fault("pause", "c1", at_s=50, healed_s=90),), ["queue_unowned"]),
        (tuple(fault("client_crash", node, at_s=50, healed_s=90) for node in ("c1", "c2")), []),
        (
            (
                fault("client_crash", "c1", at_s=50, healed_s=90),
                fault("pause", "c2", at_s=50, healed_s=90),
            ),
            [],
        ),
        # ... and c1 hears nothing of it
        (
            (
                fault("client_crash", "c2", at_s=50, healed_s=90),
                fault("pause", "n0", at_s=50, healed_s=90),
            ),
            [],
        ),
        (
            (
                fault("client_crash", "c2", at_s=50, healed_s=90),
                fault("pause", "n0", at_s=50, healed_s=56),
            ),
            ["queue_unowned"],
        ),
    ],
)
def test_while_a_member_is_away_another_one_takes_its_queues(
    faults: tuple[FaultFacts, ...], anomalies: list[str]
) -> None:
    members = ("1 ok open node=c1 t=1", "2 ok open node=c2 t=1")
    lines = (*SENT, *members, *STEADY[2:], "2 ok assign t=49", "9 ok drain t=92")
    known = {"replica_sets": {"b": ("n0", "n1")}, "faults": faults}
    assert found(check(*lines, **known)) == anomalies


def test_a_crashed_member_owns_nothing() -> None:
    crash = fault("client_crash", "c2", at_s=50, healed_s=52)
    lines = (*STEADY, "2 ok open node=c2 t=2", "9 ok drain t=120")

    assert found(check(*lines, faults=(crash,))) == ["queue_unowned"]
    assert found(check(*lines, faults=(fault("client_crash", "c1", at_s=50, healed_s=52),))) == []


def test_what_a_member_gains_while_it_is_being_killed_ends_with_it() -> None:
    """A real kill takes a moment, in which another member that is gone already leaves a queue to this one."""
    crash = fault("client_crash", "c2", at_s=50, healed_s=190)
    crash = replace(crash, bitten_ns=50_400_000_000)
    changes = ("2 ok open node=c2 t=2", "2 ok assign 0 1 t=50.2", "1 ok assign 0 1 t=60")
    lines = (*STEADY, *changes, "9 ok drain t=200")

    assert found(check(*lines, faults=(crash,))) == []
    late = replace(crash, bitten_ns=100_000_000_000)
    assert found(check(*lines, faults=(late,))) == ["double_ownership"]  # of queue 0


def test_a_member_that_a_fault_has_started_owns_what_it_gets_before_the_fault_is_reported() -> None:
    """A change of filters starts members one by one, and strikes when the last of them runs."""
    crash = fault("client_crash", "c1", at_s=50, healed_s=52)
    crash = replace(crash, bitten_ns=50_400_000_000)
    before = (*SENT, "1 ok open node=c1 t=0.5", "1 ok assign 0 t=1", "2 ok assign 1 t=1")
    after = ("3 ok assign 0 t=50.2", "9 ok drain t=200")

    assert found(check(*before, "3 ok open node=c1 t=50.1", *after, faults=(crash,))) == []
    killed = check(*before, "3 ok open node=c1 t=49.9", *after, faults=(crash,))
    assert found(killed) == ["queue_unowned"]


def test_members_of_a_broadcasting_group_own_everything() -> None:
    lines = (*SENT, "1 ok assign 0 1 t=1", "2 ok assign 0 1 t=1", "9 ok drain t=200")

    assert found(check(*lines)) == ["double_ownership", "double_ownership"]
    assert found(check(*lines, broadcasting=("g",))) == []


def test_a_queue_without_messages_may_vanish_with_the_disk_of_its_master() -> None:
    lines = ("0 ok send a", "1 ok assign 0 1 t=1", "1 ok assign 0 t=50", "9 ok drain t=200")
    lost = (replace(fault("disk_lost", "n0", at_s=45, healed_s=46), permanent=True),)

    assert found(check(*lines)) == ["queue_unowned"]
    assert found(check(*lines, faults=lost)) == []
    assert found(check("0 ok send b queue=1", *lines, faults=lost)) == ["queue_unowned"]


@pytest.mark.parametrize(("end", "expected"), [("1:0:0", []), ("1:1:1", ["queue_unowned"])])
def test_a_queue_for_which_a_delayed_message_waits_may_vanish_too(
    end: str, expected: list[str]
) -> None:
    """What the master had not moved to the queue yet is lost with it, and the slave never knew the queue."""
    lines = ("0 ok send b queue=1", "1 ok assign 0 1 t=1", "1 ok assign 0 t=50")
    lost = (replace(fault("disk_lost", "n0", at_s=45, healed_s=46), permanent=True),)

    assert found(check(*lines, f"9 ok drain {end} t=200", faults=lost)) == expected


OPENED = ("1 ok open node=c1 t=0.1", "2 ok open node=c2 t=0.1")
CRASHED = fault("client_crash", "c2", at_s=48, healed_s=49)


@pytest.mark.parametrize(
    ("taken_s", "of", "valid"),
    [
        (70, None, True),
        (75, None, False),
        (75, CRASHED, True),  # its lock expires after a minute
        (137, CRASHED, True),
        (142, CRASHED, False),
        (75, fault("client_crash", "c9", at_s=48, healed_s=49), False),
        (85, fault("pause", "c2", at_s=30, healed_s=40), False),  # it unlocks at 50 s
        (85, fault("client_crash", "c1", at_s=48, healed_s=49), False),  # it did not have the lock
        (85, fault("pause", "n0", at_s=48, healed_s=49), True),
        (85, fault("pause", "n1", at_s=48, healed_s=49), False),  # slaves know of no locks
        (85, fault("pause", "m0", at_s=48, healed_s=49), False),  # of another broker
        (85, fault("name_server_freeze", "ns-1", at_s=48, healed_s=49), True),
    ],
)
def test_only_a_member_that_had_no_chance_to_unlock_leaves_its_lock_behind(
    taken_s: float, of: FaultFacts | None, valid: bool
) -> None:
    lines = (
        *OPENED,
        *STEADY,
        "2 ok assign t=50",
        f"1 ok assign 0 1 t={taken_s}",
        "9 ok drain t=200",
    )
    faults = () if of is None else (of,)
    nodes = {"replica_sets": {"b": ("n0", "n1"), "c": ("m0",)}, "coordinators": ("ns-1",)}
    assert check(*lines, orderly=("g",), faults=faults, **nodes).valid is valid
