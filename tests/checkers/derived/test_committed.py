"""Offsets that a group had surely committed, by what a member that took a queue over is given again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts, Timings
from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import fault
from tests.support.one_checker import verdict_on


def check_duplication(*ops: str, **changes: object) -> Verdict:
    return verdict_on(ops, "duplication", **changes)


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


@pytest.mark.parametrize(
    ("persist_s", "killed_s", "valid"),
    [(5.0, 20, True), (5.0, 22, False), (20.0, 34, True), (20.0, 36, False)],
)
def test_a_master_that_could_not_write_tries_again_an_interval_later(
    persist_s: float, killed_s: float, valid: bool
) -> None:
    slow = fault("slow_disk", "n0", at_s=6, healed_s=15)
    kill = fault("kill", "n0", at_s=killed_s, healed_s=killed_s + 1)
    timings = Timings(offset_persist_s=persist_s)
    known = {"replica_sets": {"b": ("n0", "n1")}, "timings": timings, "faults": (slow, kill)}
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


@pytest.mark.parametrize(
    ("member", "at_s", "valid"), [(3, 4.9, True), (3, 4.1, True), (3, 3.9, False), (1, 4.9, False)]
)
def test_two_commits_of_two_members_arrive_in_any_order(
    member: int, at_s: float, valid: bool
) -> None:
    """On two connections. Those of one member arrive as it sent them, if no fault is in the way."""
    lines = [*REWIND[:3], f"{member} ok commit 0:0 t={at_s}", *REWIND[3:]]
    assert check_duplication(*lines).valid is valid


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
        ("2 ok begin 0:0 by=1 t=60.05", False),  # the member that is judged
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


@pytest.mark.parametrize(("begun_s", "valid"), [(9.1, True), (60.1, False)])
def test_a_member_that_a_slave_made_begin_below_a_commit_may_have_the_queue_again(
    begun_s: float, valid: bool
) -> None:
    """It had the queue from 9 s to 10 s, and its pulls took the group's offset back to 0 at the leader."""
    lines = [
        *(*REWIND[:4], "2 ok assign 0 t=9", "2 ok assign t=10", f"2 ok begin 0:0 by=1 t={begun_s}"),
        *("2 ok assign 0 t=60", "2 ok begin 0:0 by=0 t=60.2", "2 ok consume a t=61"),
    ]
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


def starts(*lines: str, begun: str = "2 ok begin 0:1 by=0", given: str = "a") -> tuple[str, ...]:
    """A member takes a queue over after another one had consumed two messages and died without a commit."""
    first = ("1 ok assign 0 t=0.5", "0 ok send a t=1", "0 ok send b", "1 ok consume a b")
    return (*first, "2 ok assign 0 t=60", begun, *lines, f"2 ok consume {given} t=61")


@pytest.mark.parametrize(
    ("lines", "anomaly"),
    [
        (starts(), "duplicate_unexplained"),
        (starts(given="b"), "duplicate"),  # that is where it began
        (starts(begun="2 ok begin 0:1"), "duplicate_unexplained"),  # whichever broker it was
        (starts(begun="2 ok begin 0"), "duplicate"),  # that broker knew no offset
        (starts(begun="1 ok begin 0:1"), "duplicate"),  # another member began there
        # it has lost the lock, and asked again
        (starts("2 ok begin 0:0 by=0"), "duplicate"),
        (starts("2 ok begin 0 by=0"), "duplicate"),
        # it has lost the queue, and not asked again
        (starts("2 ok assign t=60.2", "2 ok assign 0 t=60.4"), "duplicate"),
    ],
)
def test_a_new_owner_gets_nothing_below_the_offset_with_which_it_began(
    lines: tuple[str, ...], anomaly: str
) -> None:
    [finding] = check_duplication(*lines).findings

    assert finding.anomaly == anomaly
    assert ("below offset 1, where it began" in finding.detail) is (anomaly != "duplicate")


@pytest.mark.parametrize(
    ("of", "anomaly"),
    [
        (fault("offsets_reset", "n0", at_s=60.3, healed_s=60.4), "duplicate"),
        (fault("offsets_reset", "n0", at_s=30.0, healed_s=30.1), "duplicate_unexplained"),
        (fault("kill", "n1", at_s=60.3, healed_s=60.4), "duplicate_unexplained"),
    ],
)
def test_only_a_fault_that_sets_an_owner_back_lets_it_go_below_where_it_began(
    of: FaultFacts, anomaly: str
) -> None:
    [finding] = check_duplication(*starts(), replica_sets={"b": ("n0",)}, faults=(of,)).findings

    assert finding.anomaly == anomaly
