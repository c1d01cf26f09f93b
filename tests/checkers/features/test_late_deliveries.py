"""Late delayed messages: the excuses, and the evidence that ends an excuse."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.features.late_deliveries import check_late_deliveries, late_rows
from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit, Timings
from staticfire.checkers.model.history import OpType
from tests.checkers.legal_histories import cut
from tests.checkers.stories import Story
from tests.support import reference_semantics
from tests.support.history_language import BROKER, GROUP, NODE, TOPIC, fault
from tests.support.one_checker import read_ops

SKEW = fault("clock_skew", NODE, at_s=0.5, healed_s=1.5)
AWAY = fault("kill", NODE, at_s=5.0, healed_s=30.0)
LATE = {"late_delivery"}


def reporting() -> Story:
    """A story whose group says which queues it has: another one here."""
    assigned = {"group": GROUP, "topic": TOPIC, "queues": [[BROKER, 9]]}
    return Story().op(0.1, "ok", "assign", assigned, process=100)


def late(at_s: float, attempts: int = 1) -> Story:
    """Sent at 1 s, due at 6 s."""
    story = reporting().send(1.0, "a", delay_level=2, delay_ms=5000, attempts=attempts)
    return story.consume(at_s, "a", 0)


def found(story: Story, *faults: FaultFacts) -> set[str]:
    return story.counts("late_deliveries", faults=faults)


@pytest.mark.parametrize(("at_s", "expected"), [(15.9, set()), (16.1, LATE)])
def test_a_delayed_message_comes_in_its_time(at_s: float, expected: set[str]) -> None:
    assert found(late(at_s)) == expected


@pytest.mark.parametrize(("at_s", "expected"), [(23.9, set()), (24.1, LATE)])
def test_it_is_stored_and_flushed_twice(at_s: float, expected: set[str]) -> None:
    """10 s, and twice the time until a message is flushed."""
    timings = Timings(flush_wait_s=4.0)
    assert late(at_s).counts("late_deliveries", timings=timings) == expected


@pytest.mark.parametrize(
    ("slaves", "permanent", "at_s", "expected"),
    [
        (2, True, 40.0, set()),  # 20 s of silence, then they ask each other
        (2, True, 60.0, LATE),
        (1, True, 45.0, LATE),  # it has no other slave to ask
        (2, False, 45.0, LATE),
    ],
)
def test_slaves_without_a_master_may_ask_each_other_first(
    slaves: int, permanent: bool, at_s: float, expected: set[str]
) -> None:
    nodes = (NODE, *(f"slave-{number}" for number in range(slaves)))
    lost = replace(fault("disk_lost", NODE, at_s=5.0, healed_s=7.0), permanent=permanent)
    judged = late(at_s).counts("late_deliveries", replica_sets={BROKER: nodes}, faults=(lost,))
    assert judged == expected


@pytest.mark.parametrize(
    ("known", "at_s", "expected"),
    [
        (
            {"replication": "sync"},
            48.9,
            set(),
        ),  # the link was broken for 17 s, and TCP may wait as long again
        ({"replication": "sync"}, 49.1, LATE),
        ({"replication": "async"}, 48.9, LATE),
        ({"replication": "sync", "mode": "faithful"}, 48.9, LATE),
        ({"replication": "async", "follower_reads": True}, 48.9, set()),
    ],
)
def test_a_synchronous_master_shows_a_message_once_its_slave_has_it(
    known: dict[str, Any], at_s: float, expected: set[str]
) -> None:
    broken = cut(NODE, "slave", at_s=5.0, healed_s=22.0)
    known = {"replica_sets": {BROKER: (NODE, "slave")}, "faults": (broken,), **known}
    assert late(at_s).counts("late_deliveries", **known) == expected


@pytest.mark.parametrize(("at_s", "expected"), [(45.9, set()), (46.1, LATE)])
def test_a_group_that_reports_no_assignments_may_have_been_in_a_rebalance(
    at_s: float, expected: set[str]
) -> None:
    story = Story().send(1.0, "a", delay_level=2, delay_ms=5000)
    assert found(story.consume(at_s, "a", 0)) == expected


def test_the_time_of_a_fault_of_its_broker_does_not_count() -> None:
    assert found(late(42.0), AWAY) == set()
    assert found(late(47.0), replace(AWAY, targets=("elsewhere",))) == LATE
    assert found(late(60.0), AWAY) == LATE


@pytest.mark.parametrize(
    ("gained_s", "at_s", "expected"),
    [(20.5, 20.6, set()), (20.5, 30.4, set()), (20.5, 30.6, LATE), (2.5, 20.6, LATE)],
)
def test_the_time_in_which_no_member_has_the_queue_does_not_count(
    gained_s: float, at_s: float, expected: set[str]
) -> None:
    """Brokers need not tell members of each other: then these share the queues out every 20 s."""
    story = Story()
    for time_s, queues in ((0.5, [[BROKER, 0]]), (0.6, []), (gained_s, [[BROKER, 0]])):
        assigned = {"group": GROUP, "topic": TOPIC, "queues": queues}
        story.op(time_s, "ok", "assign", assigned, process=100)
        if not queues:
            story.send(1.0, "a", delay_level=1, delay_ms=1000)
    assert found(story.consume(at_s, "a", 0, process=100)) == expected


def waiting(sent_s: float, given_s: float = 200.0) -> Story:
    """Sent with a delay of 60 s."""
    story = reporting().send(sent_s, "a", delay_level=5, delay_ms=60_000)
    return story.consume(given_s, "a", 0)


STARTED_ANEW = fault("kill", NODE, at_s=149.0, healed_s=150.0)


def test_what_may_stand_behind_a_message_of_the_wrong_time_waits_again_after_a_start() -> None:
    assert found(waiting(61.0), SKEW, STARTED_ANEW) == {"late_delivery_allowed"}
    assert found(waiting(62.0), SKEW, STARTED_ANEW) == LATE


@pytest.mark.parametrize(
    ("given_s", "expected"), [(219.9, {"late_delivery_allowed"}), (220.1, LATE)]
)
def test_it_waits_its_delay_again_and_no_longer(given_s: float, expected: set[str]) -> None:
    assert found(waiting(61.0, given_s), SKEW, STARTED_ANEW) == expected


@pytest.mark.parametrize(
    "started",
    [
        (),
        (fault("kill", NODE, at_s=0.2, healed_s=0.9),),  # before a message that it waits behind
        (fault("kill", "n9", at_s=149.0, healed_s=150.0),),
    ],
)
def test_a_broker_that_runs_notices_a_step(started: tuple[FaultFacts, ...]) -> None:
    assert found(waiting(61.0), SKEW, *started) == LATE


def test_as_rocketmq_does_it_a_broker_believes_its_clock() -> None:
    story, known = waiting(61.0), {"faults": (SKEW,), "mode": "faithful"}
    assert story.counts("late_deliveries", **known) == {"late_delivery_allowed"}
    hardened = {**known, "policies": ("visible_end",)}
    assert "late_delivery_allowed" not in story.counts("late_deliveries", **hardened)


def test_a_leader_that_ended_by_itself_starts_anew() -> None:
    ended = NodeExit(node=NODE, time_ns=140 * 10**9, error="")
    counted = waiting(61.0).counts("late_deliveries", faults=(SKEW,), exits=(ended,))
    assert counted == {"late_delivery_allowed"}


@pytest.mark.parametrize(
    ("stored_s", "started_s", "expected"),
    [
        (900.0, 140.0, {"late_delivery_allowed"}),  # 60 s of delay begin again then
        (900.0, 138.0, LATE),
        (900.0, 99.0, LATE),  # before it was sent
        (208.0, 140.0, LATE),  # the clock had caught up
        (None, 140.0, LATE),
    ],
)
def test_a_log_that_is_ahead_of_its_clock_makes_messages_wait_again(
    stored_s: float | None, started_s: float, expected: set[str]
) -> None:
    story = reporting().send(100.0, "a", delay_level=5, delay_ms=60_000)
    stored_ms = None if stored_s is None else int(stored_s * 1000)
    story.consume(209.0, "a", 0, stored_ms=stored_ms)
    restart = fault("kill", NODE, at_s=started_s - 1.0, healed_s=started_s)
    set_back = fault("clock_skew", NODE, at_s=0.1, healed_s=1.5)
    known = {"faults": (set_back, restart), "wall_epoch_ms": 0}
    assert story.counts("late_deliveries", **known) == expected


def test_what_a_group_got_again_is_not_late() -> None:
    story = Story().send(1.0, "a", delay_level=1, delay_ms=1000)
    assert found(story.consume(2.1, "a", 0).consume(60.0, "a", 0, process=101)) == set()


def test_an_unanswered_send_may_have_begun_its_delay_at_any_time() -> None:
    story = Story().send(1.0, "a", "info", delay_level=2, delay_ms=5000)
    assert found(story.consume(60.0, "a", 0)) == set()


def test_an_earlier_attempt_may_have_begun_its_delay_at_any_time() -> None:
    assert found(late(60.0, attempts=2)) == set()


def passing(every_s: float, *, took_s: float = 0.5, queue: int = 0, end: OpType = "ok") -> Story:
    """A delayed message that is due at 6 s and comes at 47 s, and others that pass meanwhile."""
    story = reporting().send(1.0, "a", delay_level=2, delay_ms=5000)
    for number in range(round(40 / every_s)):
        key, at_s = f"p0-{number}", 6 + number * every_s
        story.send(at_s, key, end, queue=queue).consume(at_s + took_s, key, number, queue=queue)
    return story.consume(47.0, "a", 100)


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (passing(2.0), LATE),
        (passing(3.4), LATE),  # less than a request from one to the next
        (passing(3.6), set()),
        (passing(5.0, took_s=2.9), LATE),
        (passing(5.0, took_s=3.1), set()),  # they are late themselves
        (passing(2.0, queue=1), set()),  # they say nothing of this queue
        (passing(2.0, end="fail"), set()),  # by its send it was never stored
    ],
)
def test_a_fault_is_in_no_way_while_others_pass(story: Story, expected: set[str]) -> None:
    assert found(story, fault("kill", NODE, at_s=5.0, healed_s=40.0)) == expected


RETRY_TOPIC = "%RETRY%g"
LEVELS_MS = (1000, 2000, 5000, 10_000)
LADDER = {"retries_max": {GROUP: 2}, "delay_levels_ms": LEVELS_MS}


def retried(at_s: float, *, end: OpType = "ok", **reported: Any) -> Story:
    """The listener fails at 1 s, the broker has the message back at 1.5 s, and the first retry is due at 6.5 s."""
    story = reporting().send(0.5, "a").consume(1.0, "a", 0, "info")
    place = {"group": GROUP, "topic": TOPIC, "broker": BROKER, "queue": 0}
    value = {**place, "messages": [["a", 0, 0]], "copied": False, **reported}
    story.op(1.5, end, "send_back", value, process=100)
    return story.consume(at_s, "a", 0, topic=RETRY_TOPIC, tries=1)


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (retried(6.6), set()),
        (retried(16.4), set()),
        (retried(16.6), LATE),
        (retried(60.0, end="info"), set()),  # the client had no answer: the broker may not have it
        (
            retried(60.0, copied=True),
            set(),
        ),  # the client made a copy, and the broker may have one, too
        (retried(60.0, messages=[["a", 0, 1]]), set()),  # that of the next step
        (retried(60.0, group="h"), set()),
        (retried(6.6).consume(60.0, "a", 0, topic=RETRY_TOPIC, tries=1), set()),  # given out again
    ],
)
def test_a_retry_comes_soon_after_its_step_of_the_ladder(story: Story, expected: set[str]) -> None:
    assert story.counts("late_deliveries", **LADDER) == expected


EPOCH_MS = 1_700_000_000_000
SET = {BROKER: (NODE, "s0")}


def moved(
    stored_s: float, at_s: float = 9.0, *, level: int | None = None, took_s: float = 0.01
) -> Story:
    """As `retried`, or a delayed message of 5 s that was sent at 1 s; with a store time."""
    topic, tries = (RETRY_TOPIC, 1) if level is None else (TOPIC, 0)
    story = reporting()
    if level is None:
        story.send(0.5, "a").consume(1.0, "a", 0, "info")
        place = {"group": GROUP, "topic": TOPIC, "broker": BROKER, "queue": 0, "copied": False}
        story.op(1.5, "ok", "send_back", {**place, "messages": [["a", 0, 0]]}, process=100)
    else:
        story.send(1.0, "a", took_s=took_s, delay_level=level, delay_ms=5000)
    contents = [None, None, None, None, EPOCH_MS + round(1000 * stored_s), None, None]
    messages = [["a", 0, 0, True, tries, contents]]
    given = {"group": GROUP, "topic": topic, "broker": BROKER, "queue": 0, "messages": messages}
    story.op(at_s, "invoke", "consume", given, process=100)
    return story.op(at_s + 0.1, "ok", "consume", given, process=100)


def moved_late(story: Story, *faults: FaultFacts, **known: Any) -> set[str]:
    return story.counts(
        "late_deliveries",
        **{**LADDER, "wall_epoch_ms": EPOCH_MS, "replica_sets": SET, **known},
        faults=faults,
    )


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (moved(6.99), set()),  # due at 6.5 s
        (moved(7.01), LATE),
        (moved(6.5), set()),  # it waits for its member
        (moved(6.5, at_s=1.6), set()),
        (moved(6.4, level=2), set()),  # due at 6 s, answered at 1.01 s
        (moved(6.6, level=2), LATE),
        (moved(7.4, level=2, took_s=1.0), set()),  # the broker may have taken it at 2 s
        (moved(7.6, level=2, took_s=1.0), LATE),
    ],
)
def test_a_broker_that_nothing_hinders_moves_what_is_due(story: Story, expected: set[str]) -> None:
    """A step of the ladder may be a second longer than the one before it."""
    assert moved_late(story) == expected


def test_outside_of_the_simulation_it_may_take_longer() -> None:
    assert moved_late(moved(8.4), disks_observed=False) == set()
    assert moved_late(moved(8.6), disks_observed=False) == LATE


def test_a_slow_disk_may_have_made_it_take_longer() -> None:
    assert moved_late(moved(7.9), timings=Timings(flush_wait_s=0.5)) == set()
    assert moved_late(moved(8.1), timings=Timings(flush_wait_s=0.5)) == LATE


def test_a_fault_of_its_broker_may_have_made_it_late_and_that_of_its_member_may_not() -> None:
    def killed(node: str, at_s: float, healed_s: float) -> set[str]:
        return moved_late(moved(7.5), fault("kill", node, at_s=at_s, healed_s=healed_s))

    assert killed(NODE, 2.0, 3.0) == set()
    assert killed("c0", 2.0, 3.0) == LATE
    assert killed("elsewhere", 2.0, 3.0) == LATE
    assert killed(NODE, 9.0, 10.0) == LATE  # after it was moved


def test_what_a_clock_that_was_stepped_says_is_not_judged() -> None:
    assert moved_late(moved(7.5), SKEW) == set()
    assert moved_late(moved(7.5), replace(SKEW, targets=("c0",))) == LATE


def random_moves(random: Random) -> Story:
    """Delayed messages and retries, moved at any time, some of them delivered twice, all within 10 s of their time."""
    story = reporting()
    tries_of = {f"p0-{number}": random.randrange(3) for number in range(random.randrange(1, 8))}
    place = {"group": GROUP, "topic": TOPIC, "broker": BROKER, "queue": 0}
    for key, tries in tries_of.items():
        delay_ms = random.choice([1000, 5000])
        story.send(
            story.ops[-1].time_ns / 10**9 + 0.2,
            key,
            random.choice(["ok", "ok", "info", "fail"]),
            attempts=random.choice([1, 1, 2]),
            **({} if tries else {"delay_level": 1, "delay_ms": delay_ms}),
        )
    for key in random.choices(list(tries_of), k=2 * len(tries_of)):
        reported = {"copied": random.random() < 0.2, "messages": [[key, 0, tries_of[key] - 1]]}
        at_s = story.ops[-1].time_ns / 10**9 + 0.05
        if tries_of[key]:
            story.op(at_s, random.choice(["ok", "info"]), "send_back", {**place, **reported})
    for number, key in enumerate(random.choices(list(tries_of), k=2 * len(tries_of))):
        stored_ms = EPOCH_MS + random.randrange(4000, 10_000)
        known = random.choice([stored_ms, stored_ms, stored_ms, None])
        contents = [None, None, None, None, known, None, None]
        messages = [[key, number, 0, True, tries_of[key], contents]]
        topic = RETRY_TOPIC if tries_of[key] else TOPIC
        value = {**place, "topic": topic, "messages": messages}
        story.op(10 + number / 50, "invoke", "consume", value, process=100)
        story.op(10.01 + number / 50, "ok", "consume", value, process=100)
    return story


@given(seed=st.integers(0, 2**32))
def test_what_brokers_move_late_is_what_a_plain_reference_finds(seed: int) -> None:
    story = random_moves(Random(seed))
    expected = reference_semantics.moved_late(story.ops, LEVELS_MS, EPOCH_MS)
    assert bool(moved_late(story)) == bool(expected)


def test_both_occur_in_random_histories() -> None:
    found = {bool(moved_late(random_moves(Random(seed)))) for seed in range(20)}
    assert found == {False, True}


def test_without_store_times_that_belong_to_the_run_nothing_is_known_of_a_broker() -> None:
    assert moved_late(moved(7.5), wall_epoch_ms=None) == set()
    assert moved_late(retried(9.0)) == set()


def other_retries(every_s: float, *, late_s: float = 0.5) -> Story:
    """A retry that is due at 6.5 s and comes at 47 s, and others of its queue that come meanwhile."""
    story = reporting().send(0.5, "a").consume(1.0, "a", 0, "info")
    place = {"group": GROUP, "topic": TOPIC, "broker": BROKER, "queue": 0, "copied": False}
    story.op(1.5, "ok", "send_back", {**place, "messages": [["a", 0, 0]]}, process=100)
    for number in range(round(45 / every_s)):
        sent_back = {**place, "messages": [[f"p0-{number}", number, 0]]}
        at_s = 2 + number * every_s
        story.op(at_s, "ok", "send_back", sent_back, process=100)
    for number in range(round(45 / every_s)):
        due_s = 2 + number * every_s + 5
        story.consume(due_s + late_s, f"p0-{number}", 1 + number, topic=RETRY_TOPIC, tries=1)
    return story.consume(56.0, "a", 0, topic=RETRY_TOPIC, tries=1)


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (other_retries(2.0), LATE),
        (other_retries(4.0), set()),  # further apart than a request waits
        (other_retries(2.0, late_s=3.1), set()),  # they are late themselves
    ],
)
def test_a_fault_is_in_no_way_while_other_retries_come_in_time(
    story: Story, expected: set[str]
) -> None:
    pause = fault("kill", NODE, at_s=5.0, healed_s=52.0)
    assert story.counts("late_deliveries", **LADDER, faults=(pause,)) == expected


def test_rows_that_are_kept_hold_what_was_moved_late() -> None:
    columns, context = read_ops(
        moved(7.5).drained(90.0).ops, **LADDER, wall_epoch_ms=EPOCH_MS, replica_sets=SET
    )
    few = late_rows(columns, context)

    assert check_late_deliveries(few, context) == check_late_deliveries(columns, context)
    assert not check_late_deliveries(few, context).valid


@pytest.mark.parametrize("every_s", [0.5, 2.0, 4.0])
def test_few_retries_say_the_same_as_all(every_s: float) -> None:
    columns, context = read_ops(
        other_retries(every_s).drained(90.0).ops,
        faults=(fault("kill", NODE, at_s=5.0, healed_s=52.0),),
        **LADDER,
    )
    few = late_rows(columns, context)

    assert check_late_deliveries(few, context) == check_late_deliveries(columns, context)
    assert len(few.deliveries) <= 2 + 45 / 1.5


def owned(*changes: tuple[float, int, bool]) -> Story:
    """A delayed message that comes at 47 s; at each time a process (100 on c0, 101 on c1) gets or loses the queue."""
    story = Story().opened("c0", 100).opened("c1", 101)
    for at_s, process, has_it in changes:
        queues = [["b", 0]] if has_it else []
        assigned = {"group": GROUP, "topic": TOPIC, "queues": queues}
        story.op(at_s, "ok", "assign", assigned, process=process)
    return story.send(5.0, "a", delay_level=1, delay_ms=1000).consume(47.0, "a", 0)


def test_a_fault_of_a_member_counts_while_it_has_the_queue_or_none_has() -> None:
    pause = fault("pause", "c1", at_s=5.5, healed_s=46)
    handed_over = (1, 101, True), (2, 101, False), (3, 100, True)
    assert found(owned(handed_over[0]), pause) == set()
    assert found(owned(*handed_over), pause) == LATE
    assert found(owned(*handed_over, (4, 100, False)), pause) == set()


def unanswered(
    *, until_s: float = 40.0, process: int = 100, group: str = GROUP, code: int | None = None
) -> Story:
    """A member sends one message back every 3 s, from 9 s on; the delayed one comes at 47 s."""
    story = owned((1, 100, True))
    value = {"group": group, "topic": TOPIC, "broker": BROKER, "queue": 0, "copied": True}
    value |= {"messages": [["z", 7, 0]], "code": code, "attempts": 0}
    for at_s in range(9, round(until_s), 3):
        story.op(at_s, "info", "send_back", value, process=process)
    ops = sorted(story.ops, key=lambda op: op.time_ns)
    story.ops[:] = [replace(op, index=index) for index, op in enumerate(ops)]
    return story


def test_a_member_that_waits_for_brokers_takes_no_messages() -> None:
    assert found(unanswered()) == set()
    assert found(unanswered(until_s=35)) == LATE  # 13 s before the message came
    assert found(unanswered(process=101)) == LATE  # it does not have the queue
    assert found(unanswered(group="h")) == LATE
    assert found(unanswered(code=1)) == LATE  # the broker answers at once


@pytest.mark.parametrize("every_s", [0.5, 3.4, 3.6, 8.0])
def test_few_rows_say_the_same_as_all(every_s: float) -> None:
    columns, context = read_ops(passing(every_s).drained(60.0).ops, faults=(AWAY,))
    few = late_rows(columns, context)

    assert check_late_deliveries(few, context) == check_late_deliveries(columns, context)
    assert len(few.sends) <= 1 + 40 / 1.5
