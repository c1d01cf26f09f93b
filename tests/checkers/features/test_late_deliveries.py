"""Delayed messages that come too late: what excuses it, and what shows that a fault excuses nothing any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.features.late_deliveries import check_late_deliveries, late_rows
from staticfire.checkers.guarantees.facts import FaultFacts, Timings
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import OpType
from tests.checkers.stories import Story
from tests.support.history_language import BROKER, GROUP, NODE, TOPIC, facts, fault

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


def test_what_may_stand_behind_a_message_of_the_wrong_time_may_be_late() -> None:
    def delayed(sent_s: float) -> Story:
        story = Story().send(sent_s, "a", delay_level=5, delay_ms=60_000)
        return story.consume(200.0, "a", 0)

    assert found(delayed(61.0), SKEW) == {"late_delivery_allowed"}
    assert found(delayed(62.0), SKEW) == LATE


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
LADDER = {"retries_max": {GROUP: 2}, "delay_levels_ms": (1000, 2000, 5000, 10_000)}


def retried(at_s: float, *, end: OpType = "ok", **told: Any) -> Story:
    """The listener fails at 1 s, the broker has the message back at 1.5 s, and the first retry is due at 6.5 s."""
    story = reporting().send(0.5, "a").consume(1.0, "a", 0, "info")
    place = {"group": GROUP, "topic": TOPIC, "broker": BROKER, "queue": 0}
    value = {**place, "messages": [["a", 0, 0]], "copied": False, **told}
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


@pytest.mark.parametrize("every_s", [0.5, 2.0, 4.0])
def test_few_retries_say_the_same_as_all(every_s: float) -> None:
    columns, timeline = build_columns(other_retries(every_s).drained(90.0).ops)
    known = facts(faults=(fault("kill", NODE, at_s=5.0, healed_s=52.0),), **LADDER)
    context = Context(facts=known, timeline=timeline, promises=LossPromises(known))
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


@pytest.mark.parametrize("every_s", [0.5, 3.4, 3.6, 8.0])
def test_few_rows_say_the_same_as_all(every_s: float) -> None:
    columns, timeline = build_columns(passing(every_s).drained(60.0).ops)
    known = facts(faults=(AWAY,))
    context = Context(facts=known, timeline=timeline, promises=LossPromises(known))
    few = late_rows(columns, context)

    assert check_late_deliveries(few, context) == check_late_deliveries(columns, context)
    assert len(few.sends) <= 1 + 40 / 1.5
