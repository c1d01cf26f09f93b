"""Duplicate deliveries, and their explanations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts, OffsetsReset, Timings
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.log import duplication
from staticfire.checkers.model.history import Op, OpType
from staticfire.checkers.verdicts.compose import check_run
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import only


def check_duplication(*ops: str, **changes: object) -> Verdict:
    verdicts = check_run(history(*ops), [], facts(**changes), only("duplication")).verdicts
    return next(verdict for verdict in verdicts if verdict.checker == "duplication")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ops", "why"),
    [
        (["0 info send a", "1 ok consume a"], None),  # a timed-out send that arrives: no duplicate
        (["0 ok send a", "1 ok consume a", "2 ok consume a group=h"], None),
        (["0 info send a", "1 ok consume a@0:0", "1 ok consume a@1:0"], "outcome is unknown"),
        (["0 ok send a attempts=2", "1 ok consume a", "1 ok consume a@1:0"], "with 2 attempts"),
        (
            [
                "0 info send a error=FLUSH_SLAVE_TIMEOUT",
                "1 ok consume a@0:0",
                "1 ok consume a@0:1",
            ],
            "weakly acknowledged",
        ),
        (["0 ok send a", "1 info consume a", "1 ok consume a"], "did not finish"),
        (["0 ok send a", "1 invoke consume a", "2 ok consume a"], "did not finish"),
        (["0 ok send a", "1 ok consume a", "1 ok consume a~1"], "retried by the consumer"),
        (["0 ok send a", "1 ok consume a", "2 ok consume a"], "does not say who owns"),
        (  # 2 may have had the queue in between
            [
                *("1 ok open node=c1 group=g t=1", "2 ok open node=c2 group=g t=1.1"),
                *("0 ok send a", "1 ok consume a", "1 ok consume a"),
            ],
            "a member came or went",
        ),
        (  # 2 ends, at the latest when its node opens again
            [
                *(
                    "1 ok open node=c1 group=g t=1",
                    "2 ok open node=c2 group=g",
                    "0 ok send a t=100",
                ),
                *("1 ok consume a", "3 ok open node=c2 group=h", "1 ok consume a"),
            ],
            "a member came or went",
        ),
        (
            ["1 ok assign 0", "0 ok send a", "1 ok consume a", "2 ok assign 0", "2 ok consume a"],
            "changed its owner",
        ),
        (  # both have it during a rebalance
            [
                "1 ok assign 0 t=1",
                "2 ok assign 0 t=2",
                "0 ok send a",
                "1 ok consume a",
                "2 ok consume a t=31",
            ],
            "during a rebalance",
        ),
        (
            [
                *("1 ok assign 0", "0 ok send a", "1 ok consume a"),
                *("1 ok assign", "1 ok assign 0", "1 ok consume a"),
            ],
            "assigned anew",
        ),
    ],
)
def test_explained(ops: list[str], why: str | None) -> None:
    verdict = check_duplication(*ops)

    assert verdict.valid is True
    assert [finding.anomaly for finding in verdict.findings] == (
        [] if why is None else ["duplicate"]
    )
    assert all(why is not None and why in finding.detail for finding in verdict.findings)


@pytest.mark.parametrize(
    ("ops", "why"),
    [
        (
            ["0 ok send a", "1 ok consume a", "1 ok consume a"],
            "the same owner got it again, with no rebalance",
        ),
        (  # the members of the group are the same for longer than a rebalance takes
            [
                *(
                    "1 ok open node=c1 group=g t=1",
                    "2 ok open node=c2 group=g",
                    "0 ok send a t=100",
                ),
                *("1 ok consume a", "3 ok open node=c3 group=h", "1 ok consume a"),
            ],
            "the same owner got it again, with no rebalance",
        ),
        (["0 ok send a", "1 ok consume a", "1 ok consume a@0:1"], "2 copies of a send with 1"),
        (
            ["0 ok send a attempts=2"] + [f"1 ok consume a@{queue}:0" for queue in range(3)],
            "3 copies of a send with 2",
        ),
        # an assignment that leaves the queue where it was explains nothing
        (
            ["1 ok assign 0", "0 ok send a", "1 ok consume a", "1 ok assign 0 1", "1 ok consume a"],
            "the same owner got it again, with no rebalance",
        ),
        (
            ["1 ok assign 0", "0 ok send a", "1 ok consume a", "2 ok consume a"],
            "process 2 never had the queue",
        ),
        (  # both have it for longer than a rebalance takes
            [
                "1 ok assign 0 t=1",
                "2 ok assign 0 t=2",
                "0 ok send a",
                "1 ok consume a",
                "2 ok consume a t=33",
            ],
            "had the queue together for 31.000s",
        ),
        # one unexplained repeat among explained ones
        (
            ["0 ok send a", "1 info consume a", "1 ok consume a", "1 ok consume a"],
            "the same owner got it again, with no rebalance",
        ),
    ],
)
def test_unexplained(ops: list[str], why: str) -> None:
    verdict = check_duplication(*ops)

    [finding] = verdict.findings
    assert (verdict.valid, finding.anomaly) == (False, "duplicate_unexplained")
    assert why in finding.detail


@pytest.mark.parametrize(
    ("acked_s", "at_s", "valid"),
    [
        (1.0, 2.0, False),  # settled: each replica had it when the master acknowledged it
        (3.5, 2.0, True),  # the slave showed it before
        (3.5, 50.0, False),
    ],
)
def test_a_fault_of_the_master_explains_a_redelivery_to_the_same_owner(
    acked_s: float, at_s: float, valid: bool
) -> None:
    kill = fault("kill", "n0", at_s=at_s, healed_s=at_s + 1)
    ops = [
        "1 ok assign 0 t=0.5",
        "0 invoke send a t=1",
        "1 ok consume a t=1.5",
        "1 ok consume a t=4",
    ]
    ops.insert(2 if acked_s < 1.5 else 3, f"0 ok send a t={acked_s}")

    verdict = check_duplication(
        *ops, faults=(kill,), replica_sets={"b": ("n0", "n1")}, replication="sync"
    )

    assert verdict.valid is valid


@pytest.mark.parametrize(("again_s", "before"), [(12, 1.5), (22, 1.5), (22, 11)])
def test_a_slave_that_lags_sends_no_member_back(again_s: float, before: float) -> None:
    """Its master is away; whichever replica gave the message first, the master has what it acknowledged."""
    kill = fault("kill", "n0", at_s=10, healed_s=20)
    ops = [
        *("1 ok assign 0 t=0.5", "0 ok send a t=1"),
        *(f"1 ok consume a t={before}", f"1 ok consume a t={again_s}"),
    ]
    verdict = check_duplication(
        *ops, faults=(kill,), replica_sets={"b": ("n0", "n1")}, replication="async"
    )
    assert verdict.valid is False
    [finding] = verdict.findings
    assert "the same owner got it again" in finding.detail


def test_a_fault_that_did_not_bite_explains_nothing() -> None:
    blunt = fault("kill", "n0", at_s=2, healed_s=3, bitten=False)

    verdict = check_duplication(
        "0 ok send a t=1", "1 ok consume a", "1 ok consume a t=4", faults=(blunt,)
    )

    assert verdict.valid is False


REWIND = (
    "1 ok assign 0 t=0.5",
    "0 ok send a t=1",
    "1 ok consume a",
    "1 ok commit 0:1 t=5",
    "2 ok assign 0 t=60",
    "2 ok consume a t=61",
)


def test_a_new_owner_that_begins_below_a_safely_persisted_offset_is_unexplained() -> None:
    [finding] = check_duplication(*REWIND).findings

    assert finding.anomaly == "duplicate_unexplained"
    assert "began below offset 1, which was committed before" in finding.detail


def begins(*words: str, taken_s: float = 60) -> tuple[str, ...]:
    """The same, with the answer that the member got when it had taken the queue."""
    taken = (f"2 ok assign 0 t={taken_s}", *words, f"2 ok consume a t={taken_s + 1}")
    return (*REWIND[:-2], *taken)


NEAR_SLAVE = fault("pause", "n1", at_s=8, healed_s=20)
NEAR_MASTER = fault("pause", "n0", at_s=5, healed_s=20)
SOON = fault("kill", "n0", at_s=9, healed_s=10)
LATER = fault("kill", "n0", at_s=12, healed_s=20)  # what was committed at 5 s is written down


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "of", "valid"),
    [
        (REWIND, NEAR_SLAVE, True),  # it may be the slave that answered
        (begins("2 ok begin 0"), NEAR_SLAVE, True),
        (begins("2 ok begin 0 by=0"), NEAR_SLAVE, False),
        (begins("2 ok begin 0 by=1"), NEAR_SLAVE, True),
        (begins("2 ok begin 0 by=0"), NEAR_MASTER, True),
        (begins("2 ok begin 0 by=0"), LATER, False),
        (begins("2 ok begin 0 by=0", taken_s=7), SOON, False),  # what comes later explains nothing
        (begins("2 ok begin 0 by=0", taken_s=13), SOON, True),
        (begins("2 ok begin 0 by=1"), LATER, True),
        # the begin was reported to another member
        (begins("1 ok begin 0 by=0"), NEAR_SLAVE, True),
        # it had lost the queue before
        (
            begins("2 ok assign t=60.2", "2 ok begin 0 by=0", "2 ok assign 0 t=60.4"),
            NEAR_SLAVE,
            True,
        ),
    ],
)
def test_the_master_knows_what_was_committed_whatever_happens_to_a_slave(
    lines: tuple[str, ...], of: FaultFacts, valid: bool
) -> None:
    verdict = check_duplication(*lines, replica_sets={"b": ("n0", "n1")}, faults=(of,))
    assert verdict.valid is valid


@pytest.mark.parametrize(
    ("cut_s", "write_back_s", "valid"),
    [(9, 0.0, True), (12, 0.0, False), (39, 35.0, True), (47, 35.0, False)],
)
def test_a_power_cut_takes_the_offsets_that_the_disk_did_not_have(
    cut_s: float, write_back_s: float, valid: bool
) -> None:
    cut = fault("power_cut", "n0", at_s=cut_s, healed_s=cut_s + 1)
    timings = Timings(write_back_s=write_back_s)
    known = {"replica_sets": {"b": ("n0", "n1")}, "timings": timings, "faults": (cut,)}
    assert check_duplication(*begins("2 ok begin 0 by=0"), **known).valid is valid


def sent(*reported: str, taken_s: float = 60) -> tuple[str, ...]:
    """The same, asked of the master, with what the owner said of its commit's destination at 4.9 s and later."""
    lines = [*begins("2 ok begin 0 by=0", taken_s=taken_s)]
    lines[3:3] = reported[:1]
    lines[-3:-3] = reported[1:]
    return tuple(lines)


TO_MASTER, TO_SLAVE = "1 ok commit_to 0 t=4.9", "1 ok commit_to 1 t=4.9"
ARRIVED = "1 ok commit_to 0 arrived=1 t=10"
CUT_OFF = replace(fault("partition", "n0", at_s=4, healed_s=8), links=(("c1", "n0"),))
NO_ROUTES = fault("name_server_amnesia", "ns-1", at_s=2, healed_s=3)
AWAY_BEFORE = fault("rolling_restart", "n0", at_s=-90, healed_s=-20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "of", "valid"),
    [
        (sent(), CUT_OFF, True),
        (sent(TO_MASTER), CUT_OFF, True),
        (sent(TO_MASTER, ARRIVED), CUT_OFF, False),
        (sent(TO_MASTER, "1 ok commit_to 0 t=10"), CUT_OFF, True),
        (sent(TO_MASTER, "1 ok commit_to 1 arrived=1 t=10"), CUT_OFF, False),
        (sent(TO_SLAVE, ARRIVED), CUT_OFF, True),  # at the slave
        (sent(TO_MASTER, ARRIVED.replace("1 ok", "3 ok")), CUT_OFF, True),  # of another process
        (sent(TO_MASTER, f"{ARRIVED} broker=c"), CUT_OFF, True),
        (sent(TO_MASTER, ARRIVED, taken_s=9), CUT_OFF, True),  # maybe after the master was asked
        (sent(TO_MASTER, ARRIVED), fault("kill", "n0", at_s=9, healed_s=10), True),
        (sent(), NO_ROUTES, True),
        (sent(TO_MASTER), NO_ROUTES, False),
        (sent(TO_SLAVE), NO_ROUTES, True),
        # the route may have been made while the master was away
        (sent(TO_SLAVE), AWAY_BEFORE, True),
        (sent(), AWAY_BEFORE, False),
        (sent(TO_MASTER), AWAY_BEFORE, False),
        (sent(TO_SLAVE), replace(AWAY_BEFORE, healed_ns=-60_000_000_000), False),
        (sent(TO_SLAVE), replace(AWAY_BEFORE, targets=("n1",)), False),
    ],
)
def test_a_commit_that_arrived_at_the_master_is_known_there(
    lines: tuple[str, ...], of: FaultFacts, valid: bool
) -> None:
    known = {"replica_sets": {"b": ("n0", "n1")}, "coordinators": ("ns-1",)}
    opened = ("1 ok open node=c1 t=0.1", "2 ok open node=c2 t=0.1")
    lines = (*opened, *sorted(lines, key=_time_s))
    assert check_duplication(*lines, faults=(of,), **known).valid is valid


@pytest.mark.parametrize(
    ("faults", "valid"),
    [
        (
            (CUT_OFF, LATER),
            True,
        ),  # the leader had it by 10 s, and may not have written it down by 12 s
        ((LATER,), False),
        ((replace(CUT_OFF, links=(("c9", "n0"),)), LATER), False),
        ((CUT_OFF, replace(LATER, fired_ns=16 * 10**9, bitten_ns=16 * 10**9)), False),
    ],
)
def test_a_commit_that_was_held_up_is_written_down_later(
    faults: tuple[FaultFacts, ...], valid: bool
) -> None:
    opened = ("1 ok open node=c1 t=0.1", "2 ok open node=c2 t=0.1")
    lines = (*opened, *sorted(sent(TO_MASTER, ARRIVED), key=_time_s))
    verdict = check_duplication(*lines, replica_sets={"b": ("n0", "n1")}, faults=faults)
    assert verdict.valid is valid


def _time_s(line: str) -> float:
    """When an op of these histories happens; those without a time follow the one before."""
    untimed = {"1 ok consume a": 1.1, "2 ok begin 0 by=0": 60.1}
    return untimed.get(line) or float(line.partition(" t=")[2].split()[0])


GONE = replace(fault("disk_lost", "n0", at_s=2, healed_s=3), permanent=True)


@pytest.mark.parametrize(
    ("reported", "asked", "of", "valid"),
    [
        ((TO_SLAVE,), "2", GONE, True),
        ((TO_SLAVE,), "1", GONE, False),  # it has it
        ((), "2", GONE, False),
        ((TO_MASTER,), "2", GONE, True),  # that was gone, which the member did not know yet
        ((TO_MASTER,), "2", replace(GONE, fired_ns=-70 * 10**9, bitten_ns=-70 * 10**9), False),
        ((TO_MASTER,), "2", replace(GONE, permanent=False), False),
        ((TO_SLAVE,), "2", replace(GONE, targets=("n1",)), False),
        ((TO_SLAVE,), "2", fault("kill", "n0", at_s=-2, healed_s=3), True),
        ((TO_SLAVE,), "2", fault("kill", "n0", at_s=-62, healed_s=-57), False),
    ],
)
def test_slaves_do_not_know_what_another_broker_was_sent(
    reported: tuple[str, ...], asked: str, of: FaultFacts, valid: bool
) -> None:
    lines = [line.replace("by=0", f"by={asked}") for line in sent(*reported)]
    lines = [line.replace("t=4.9", "t=29.9").replace("t=5", "t=30") for line in lines]
    brokers = {"b": ("n0", "n1", "n2")}
    assert check_duplication(*lines, faults=(of,), replica_sets=brokers).valid is valid


@pytest.mark.parametrize(("slaves", "valid"), [(("n1",), False), (("n1", "n2"), True)])
def test_a_slave_that_is_left_alone_knows_what_it_was_sent(
    slaves: tuple[str, ...], valid: bool
) -> None:
    gone = replace(GONE, healed_ns=26 * 10**9)
    lines = [line.replace("by=0", "by=1") for line in sent(TO_SLAVE)]
    lines = [line.replace("t=4.9", "t=29.9").replace("t=5", "t=30") for line in lines]
    found = check_duplication(*lines, faults=(gone,), replica_sets={"b": ("n0", *slaves)})
    assert found.valid is valid


@pytest.mark.parametrize(("sent_to", "valid"), [(0, True), (1, False)])
def test_a_commit_that_a_follower_was_sent_does_not_reach_the_leader_later(
    sent_to: int, valid: bool
) -> None:
    """Of two commits the second one counts, unless the first one was held up and came behind it."""
    lines = (
        *REWIND[:3],
        f"1 ok commit_to {sent_to} t=4.9",
        "1 ok commit 0:0 t=5",
        "1 ok commit_to 0 t=29.9",
        "1 ok commit 0:1 t=30",
        "1 ok commit_to 0 arrived=1 t=35",
        "2 ok assign 0 t=60",
        "2 ok begin 0 by=0",
        "2 ok consume a t=61",
    )
    opened = ("1 ok open node=c1 t=0.1", "2 ok open node=c2 t=0.1")
    known = {"replica_sets": {"b": ("n0", "n1")}, "faults": (CUT_OFF,)}
    assert check_duplication(*opened, *lines, **known).valid is valid


@pytest.mark.parametrize(("struck_s", "valid"), [(29.8, False), (30.2, True)])
def test_a_leader_serves_alone_until_the_fault_that_takes_its_disk_strikes(
    struck_s: float, valid: bool
) -> None:
    """What was committed before the strike was with the leader, and died with it."""
    gone = replace(GONE, bitten_ns=int(struck_s * 1e9), healed_ns=33 * 10**9)
    lines = [line.replace("by=0", "by=1") for line in sent(TO_SLAVE)]
    lines = [line.replace("t=4.9", "t=29.9").replace("t=5", "t=30") for line in lines]
    found = check_duplication(*lines, faults=(gone,), replica_sets={"b": ("n0", "n1")})
    assert found.valid is valid


@pytest.mark.parametrize(("taken_s", "valid"), [(20, True), (22, False)])
def test_a_slave_copies_offsets_now_and_then(taken_s: float, valid: bool) -> None:
    lines = begins("2 ok begin 0 by=1", taken_s=taken_s)  # 10 s, and two requests
    assert check_duplication(*lines, replica_sets={"b": ("n0", "n1")}).valid is valid


GONE_LATE = replace(fault("disk_lost", "n0", at_s=25, healed_s=26), permanent=True)


@pytest.mark.parametrize(
    ("answer", "of", "valid"),
    [
        ("2 ok begin 0 by=1", GONE_LATE, False),
        ("2 ok begin 0 by=2", GONE_LATE, False),
        ("2 ok begin 0", GONE_LATE, True),  # a client that does not say who answered
        ("2 ok begin 0 by=1", replace(GONE_LATE, targets=("n1",)), True),
        ("2 ok begin 0 by=2", replace(GONE_LATE, targets=("n1",)), False),
        ("2 ok begin 0 by=7", GONE_LATE, True),  # not a replica
        ("2 ok begin 0 by=1", replace(GONE_LATE, permanent=False), True),  # a new one came up
        # it had not copied the commit yet
        ("2 ok begin 0 by=1", replace(GONE_LATE, fired_ns=14 * 10**9), True),
        ("2 ok begin 0 by=1", fault("offsets_reset", at_s=25, healed_s=26), True),
    ],
)
def test_a_slave_keeps_its_offsets_when_the_disk_of_another_replica_is_gone_for_good(
    answer: str, of: FaultFacts, valid: bool
) -> None:
    brokers = {"b": ("n0", "n1", "n2")}
    assert check_duplication(*begins(answer), faults=(of,), replica_sets=brokers).valid is valid


@pytest.mark.parametrize(("wiped_s", "valid"), [(50.0, True), (62.0, True), (72.0, False)])
def test_a_slave_that_was_wiped_before_it_was_asked_knows_no_offsets(
    wiped_s: float, valid: bool
) -> None:
    """The member had the queue from 60 s on, and asked at 70 s."""
    wiped = fault("wiped_slave", "n1", at_s=wiped_s, healed_s=wiped_s + 1)
    lines = (*REWIND[:-2], "2 ok assign 0 t=60", "2 ok begin 0 by=1 t=70", "2 ok consume a t=71")
    known = {"replica_sets": {"b": ("n0", "n1")}, "faults": (wiped,)}
    assert check_duplication(*lines, **known).valid is valid


@pytest.mark.parametrize(("gained_s", "valid"), [(4.8, True), (5.9, True), (6.1, False)])
def test_a_member_that_began_before_the_commit_arrived_pulls_with_a_lower_offset(
    gained_s: float, valid: bool
) -> None:
    ops = [*REWIND[:4], f"3 ok assign 0 t={gained_s}", "3 ok assign t=50", *REWIND[4:]]
    ops = sorted(ops, key=lambda op: float(op.rpartition("t=")[2]) if "t=" in op else 1.0)

    assert check_duplication(*ops).valid is valid


@pytest.mark.parametrize(
    ("reported", "valid"),
    [
        ("3 ok begin 0:0 by=1 t=9.1", True),
        ("3 ok begin 0 by=1 t=9.1", True),  # the slave knew of no commit
        ("3 ok begin 0:1 by=1 t=9.1", False),
        ("3 ok begin 0 t=9.1", False),  # a client that does not say who answered
        ("2 ok begin 0:0 by=1 t=9.1", False),  # the member itself
        ("3 ok begin 0:0 by=1 t=62", False),  # later
    ],
)
def test_a_member_that_a_slave_made_begin_below_a_commit_pulls_with_that(
    reported: str, valid: bool
) -> None:
    between = ("3 ok assign 0 t=9", reported, "3 ok assign t=10")
    after = ("2 ok assign 0 t=60", "2 ok begin 0:0 by=0 t=60.1", "2 ok consume a t=61")
    lines = [*REWIND[:4], *between, *after]
    lines.sort(key=lambda line: float(line.partition(" t=")[2] or 1.1))

    assert check_duplication(*lines, replica_sets={"b": ("n0", "n1")}).valid is valid


@pytest.mark.parametrize(("crashed_s", "valid"), [(2.0, False), (30.0, True)])
def test_a_member_that_has_ended_pulls_no_more(crashed_s: float, valid: bool) -> None:
    crash = fault("client_crash", "c3", at_s=crashed_s, healed_s=crashed_s + 1)
    ops = ["3 ok open node=c3 t=0.1", "3 ok assign 0 t=0.2", *REWIND]

    assert check_duplication(*ops, faults=(crash,)).valid is valid


@pytest.mark.parametrize(
    "disturbance",
    [
        fault("partition", "n0", at_s=6, healed_s=12),  # the commit may never have arrived
        fault("disk_lost", "n0", at_s=50, healed_s=55),  # and this takes the broker's offsets
    ],
)
def test_an_offset_that_may_not_have_been_kept_explains_a_rewind(disturbance: object) -> None:
    assert check_duplication(*REWIND, faults=(disturbance,)).valid is True


@pytest.mark.parametrize(
    "elsewhere",
    [
        fault("kill", "n1", at_s=6, healed_s=12),  # of no replica
        fault("kill", "n0", at_s=6, healed_s=12, bitten=False),
        fault("clock_skew", "n0", at_s=6, healed_s=12),
        fault("slow_consumer", "c1", at_s=6, healed_s=12),
        replace(fault("partition", "n0", at_s=6, healed_s=12), links=(("n0", "n1"),)),
    ],
)
def test_a_fault_that_cannot_have_taken_an_offset_explains_no_rewind(elsewhere: FaultFacts) -> None:
    assert check_duplication(*REWIND, faults=(elsewhere,)).valid is False


def test_a_later_fault_does_not_excuse_forgetting_a_persisted_offset() -> None:
    late = fault("kill", "n0", at_s=50, healed_s=55)

    assert check_duplication(*REWIND, faults=(late,)).valid is False


@pytest.mark.parametrize(
    ("at_s", "valid"), [(3.0, False), (50.0, True), (60.5, True), (70.0, False)]
)
def test_an_operator_who_sends_the_group_back_explains_a_rewind(at_s: float, valid: bool) -> None:
    reset = fault("offsets_reset", at_s=at_s, healed_s=at_s + 1, bitten=False)  # no broker answered

    assert check_duplication(*REWIND, faults=(reset,)).valid is valid


GIVEN = ("1 ok assign 0 t=0.5", "0 ok send a t=1", "1 ok consume a t=2")


def sends_back(at_s: float, *answers: OffsetsReset, fault_id: str = "f") -> FaultFacts:
    reset = fault("offsets_reset", at_s=at_s, healed_s=at_s + 1)
    return replace(reset, fault_id=fault_id, resets=answers)


def answer(group: str = "g", offset: int = 0) -> OffsetsReset:
    at_ns = 5 * 10**9
    return OffsetsReset(
        group=group,
        topic="t",
        stream="b",
        asked_ns=at_ns,
        answered_ns=at_ns,
        offsets=((0, offset),),
    )


@pytest.mark.parametrize(
    ("faults", "valid"),
    [
        ((sends_back(5, answer()),), False),
        ((sends_back(5),), False),  # no answer of a leader is known
        ((sends_back(5, answer(), fault_id="f1"), sends_back(5.5, answer(), fault_id="f2")), True),
        ((sends_back(5, answer(), fault_id="f1"), sends_back(20, answer(), fault_id="f2")), False),
        ((sends_back(5, answer(), answer()),), True),
    ],
)
def test_a_reset_sends_an_owner_back_once(faults: tuple[FaultFacts, ...], valid: bool) -> None:
    once, twice = (*GIVEN, "1 ok consume a t=6"), ("1 ok consume a t=7",)
    assert check_duplication(*once, faults=faults).valid is True
    assert check_duplication(*once, *twice, faults=faults).valid is valid


def test_a_reset_is_left_for_what_nothing_else_explains() -> None:
    """A member that takes the queue over is given it once more: before or after the reset is carried out."""
    moved = ("1 ok assign t=6", "2 ok assign 0 t=6.1", "2 ok consume a t=6.2")
    known = {"faults": (sends_back(5, answer()),)}
    assert check_duplication(*GIVEN, *moved, "2 ok consume a t=7", **known).valid is True
    assert check_duplication(*GIVEN, "1 ok consume a t=5.5", *moved, **known).valid is True


@pytest.mark.parametrize("of", [answer(group="h"), answer(offset=1)])
def test_a_reset_of_another_group_or_to_a_later_offset_sends_none_back(of: OffsetsReset) -> None:
    again = (*GIVEN, "1 ok consume a t=6")
    mine = replace(answer(), offsets=((0, 1),))
    assert check_duplication(*again, faults=(sends_back(5, of, mine),)).valid is False


def test_who_never_had_the_queue_was_not_sent_back() -> None:
    lines = (*GIVEN, "2 ok consume a t=6")
    assert check_duplication(*lines, faults=(sends_back(5, answer()),)).valid is False


def test_bodies_without_a_key_are_not_one_message() -> None:
    assert check_duplication("1 ok consume ?@0:0", "1 ok consume ?@0:1").findings == ()


# Copies of a committed transaction: (broker, how many), with the attempts of its send; broker b started again.
@pytest.mark.parametrize(
    ("kind", "replication"), [("kill", "async"), ("kill", "sync"), ("split_name_servers", "sync")]
)
@pytest.mark.parametrize(
    ("copies", "attempts", "anomaly"),
    [
        ((("b", 2),), 1, "duplicate"),  # moved twice: it died before it had written that down
        ((("b", 2), ("c", 1)), 2, "duplicate"),  # and another attempt went to c
        ((("b", 2), ("c", 1)), 1, "duplicate_unexplained"),  # no attempt went to c
        ((("b", 1), ("c", 2)), 2, "duplicate_unexplained"),  # nothing happened to c
        ((("c", 2),), 1, "duplicate_unexplained"),
        ((("c", 2),), 2, "duplicate"),
    ],
)
def test_a_broker_that_died_may_have_moved_a_message_twice_and_no_other(
    copies: tuple[tuple[str, int], ...], attempts: int, anomaly: str, kind: str, replication: str
) -> None:
    assert anomalies_of_copies(copies, attempts, kind, replication) == [anomaly]


@pytest.mark.parametrize("replication", ["none", "async"])
def test_a_broker_that_stopped_gracefully_has_written_down_what_it_moved(replication: str) -> None:
    """With sync replication its copies may still wait for a follower."""
    found = anomalies_of_copies((("b", 2),), 1, "split_name_servers", replication)
    assert found == ["duplicate_unexplained"]


def anomalies_of_copies(
    copies: tuple[tuple[str, int], ...], attempts: int, kind: str, replication: str
) -> list[str]:
    half: dict[str, Any] = {
        "key": "a",
        "topic": "t",
        "transaction": "commit",
        "queue_offset": -1,
        "stored_at": 0,
    }
    half |= {"broker": "b", "queue": 0, "attempts": attempts}
    asked = {"key": "a", "topic": "t", "transaction": "commit"}
    values: list[tuple[str, OpType, int, dict[str, Any]]] = [
        ("send", "invoke", 1, asked),
        ("send", "ok", 1, half),
    ]
    for broker, times in copies:
        for offset in range(times):
            value: dict[str, Any] = {"group": "g", "topic": "t", "broker": broker, "queue": 0}
            value["messages"] = [["a", offset, offset, True, 0]]
            values.append(("consume", "ok", 9, value))
    ops = [
        Op(index=at, time_ns=at * 10**9, process=process, type=type_, f=f, value=value)
        for at, (f, type_, process, value) in enumerate(values)
    ]
    restarts = (fault(kind, "n0", at_s=1.5, healed_s=3.0),)
    replica_sets = {"b": ("n0",), "c": ("n1",)}
    known = facts(faults=restarts, replica_sets=replica_sets, replication=replication)
    verdict = next(
        of
        for of in check_run(ops, [], known, only("duplication")).verdicts
        if of.checker == "duplication"
    )
    return [finding.anomaly for finding in verdict.findings]


def test_copies_of_a_send_whose_attempts_are_not_known_make_the_answer_unknown() -> None:
    ops = history("0 ok send a", "1 ok consume a@0:0", "1 ok consume a@1:0")
    for op in ops:
        op.value.pop("attempts", None)
    verdict = next(of for of in check_run(ops, [], facts()).verdicts if of.checker == "duplication")
    assert (verdict.valid, verdict.counts["attempts_unknown"]) == ("unknown", 1)
    assert "nothing says how often their sends were tried" in str(verdict.reason)


def test_a_large_table_of_readers_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are numbered anew then; what is found stays the same, messages without a key included."""
    ops = ["0 ok send a", "1 ok consume a", "1 ok consume a@1:0", "2 ok consume a group=h"]
    with_table = check_duplication(*ops)
    monkeypatch.setattr(duplication, "CELLS_A_ROW", 0)
    assert check_duplication(*ops) == with_table
    assert len(with_table.findings) == 1


MEMBER_RETURNS = (
    *("1 ok open node=c1 group=g t=0.4", "1 ok assign 0 t=0.5"),
    *("0 ok send a t=1", "1 ok consume a", "1 ok commit 0:1 t=5"),
    *("3 ok open node=c1 group=g t=20", "3 ok assign 0 t=20.5", "3 ok consume a t=21"),
)


def test_a_broadcast_member_that_begins_below_what_it_has_saved_is_unexplained() -> None:
    # No broker has that offset, so no fault of one explains it.
    faults = (fault("kill", "n0", at_s=4.9, healed_s=19.0),)
    [finding] = check_duplication(*MEMBER_RETURNS, broadcasting=("g",), faults=faults).findings

    assert finding.anomaly == "duplicate_unexplained"
    assert "began below offset 1, which was committed before" in finding.detail


@pytest.mark.parametrize(
    "ops",
    [
        [op for op in MEMBER_RETURNS if "commit" not in op],
        [op.replace("1 ok commit", "2 ok commit") for op in MEMBER_RETURNS],
        [op.replace("0:1", "0:0") for op in MEMBER_RETURNS],
    ],
    ids=["saved nothing", "another member has saved it", "saved before"],
)
def test_a_broadcast_member_gets_again_what_it_has_not_saved(ops: list[str]) -> None:
    other = ("2 ok open node=c2 group=g t=0.1", "2 ok assign 0 t=0.2")
    [finding] = check_duplication(*other, *ops, broadcasting=("g",)).findings

    assert finding.anomaly == "duplicate"


@pytest.mark.parametrize(
    ("target", "anomaly"), [("c1", "duplicate"), ("n0", "duplicate_unexplained")]
)
def test_only_damage_to_its_own_disk_lets_a_broadcast_member_begin_anew(
    target: str, anomaly: str
) -> None:
    faults = (fault("power_cut", target, at_s=10.0, healed_s=19.0),)
    [finding] = check_duplication(*MEMBER_RETURNS, broadcasting=("g",), faults=faults).findings

    assert finding.anomaly == anomaly
