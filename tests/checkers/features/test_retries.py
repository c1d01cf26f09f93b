"""Retries and dead letters: each anomaly, and its near miss."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import OpType
from tests.checkers.stories import DEAD_TOPIC, RETRY_TOPIC, Story
from tests.support.history_language import GROUP, NODE, fault

LADDER = {"retries_max": {GROUP: 2}, "delay_levels_ms": (1000, 2000, 3000, 4000, 5000)}


def retried(at_s: float, tries: int = 1) -> Story:
    story = Story().send(0.0, "a").consume(1.0, "a", 0, "info")
    return story.consume(at_s, "a", 0, topic=RETRY_TOPIC, tries=tries)


@pytest.mark.parametrize(
    ("story", "found"),
    [
        (retried(4.02), set()),
        (retried(3.9), {"retry_early"}),
        (retried(9.0, tries=2), {"retry_unprovoked"}),
        (
            Story().send(0.0, "a").consume(1.0, "a", 0, topic=RETRY_TOPIC, tries=1),
            {"retry_unprovoked"},
        ),
        (
            Story()
            .send(0.0, "a")
            .consume(1.0, "a", 0)
            .consume(5.0, "a", 0, topic=RETRY_TOPIC, tries=1),
            {"retry_unprovoked"},
        ),
    ],
)
def test_each_retry_has_its_reason_and_its_time(story: Story, found: set[str]) -> None:
    assert story.counts("retries", **LADDER) == found


@pytest.mark.parametrize(("at_s", "found"), [(3.92, set()), (3.8, {"retry_early"})])
def test_outside_the_simulation_an_end_may_be_written_down_late(
    at_s: float, found: set[str]
) -> None:
    assert retried(at_s).counts("retries", **LADDER, disks_observed=False) == found


def test_a_client_that_cannot_send_back_tries_again_when_it_likes() -> None:
    story = Story().send(0.0, "a").consume(1.0, "a", 0, "info")
    story.consume(4.5, "a", 0, "info", topic=RETRY_TOPIC, tries=1)
    story.consume(5.0, "a", 0, topic=RETRY_TOPIC, tries=2)
    assert story.counts("retries", **LADDER) == set()
    elsewhere = Story().send(0.0, "a").consume(1.0, "a", 0, "info")
    elsewhere.consume(4.5, "a", 0, "info", topic=RETRY_TOPIC, tries=1)
    elsewhere.consume(5.0, "a", 1, topic=RETRY_TOPIC, tries=2)
    assert elsewhere.counts("retries", **LADDER) == {"retry_early"}


def test_a_listener_that_takes_a_quarter_of_an_hour_is_reported_in_words() -> None:
    story = Story().send(0.0, "a").consume(1.0, "a", 0, takes_s=2000.0)
    story.consume(2100.0, "a", 0, topic=RETRY_TOPIC, tries=1)
    verdict = story.verdict("retries", **LADDER)
    assert verdict.valid is True
    [finding] = verdict.findings
    assert (finding.anomaly, finding.judgement) == ("consumed_too_long", "informational")
    assert "the listener took 2000 s for key a" in finding.detail


def died(retries: int) -> Story:
    story = Story().send(0.0, "a").consume(1.0, "a", 0, "info")
    for tries in range(1, retries + 1):
        story.consume(10.0 * tries, "a", tries, "info", topic=RETRY_TOPIC, tries=tries)
    return story.consume(100.0, "a", 0, topic=DEAD_TOPIC, tries=retries + 1)


def test_a_dead_letter_has_used_up_its_retries_and_no_more() -> None:
    assert died(2).counts("retries", **LADDER) == set()
    assert died(1).counts("retries", **LADDER) == {"premature_dead_letter"}
    assert died(3).counts("retries", **LADDER) == {"retried_too_often"}
    assert died(2).verdict("retries", **LADDER).counts["dead_letters"] == 1
    assert died(2).drained(110.0).verdict("loss", **LADDER).valid is True  # conservation


@pytest.mark.parametrize(
    ("failures", "places", "copied", "found"),
    [
        (1, (0,), False, set()),
        (1, (0, 1), False, {"retry_unprovoked"}),
        (1, (0, 0), False, set()),  # the same one again
        (2, (0, 1), False, set()),
        (1, (0, 1), True, {"retry_unprovoked_allowed"}),  # a client made a copy of its own
    ],
)
def test_one_failure_makes_one_retry(
    failures: int, places: tuple[int, ...], copied: bool, found: set[str]
) -> None:
    story = Story().send(0.0, "a")
    for at_s in range(failures):
        story.consume(1.0 + at_s, "a", 0, "info")
    value = {"group": GROUP, "topic": "t", "broker": "b", "queue": 0}
    value |= {"messages": [["a", 0, 0]], "copied": copied}
    story.op(5.0, "ok", "send_back", value, process=100)
    for number, offset in enumerate(places):
        story.consume(9.0 + number, "a", offset, topic=RETRY_TOPIC, tries=1)
    assert story.counts("retries", **LADDER) == found
    elsewhere = (fault("kill", "n9", at_s=8, healed_s=9),)
    assert story.counts("retries", **LADDER, faults=elsewhere) == found


@pytest.mark.parametrize(
    ("end", "copies", "found"),
    [
        ("info", 5, {"retry_unprovoked_allowed"}),
        ("info", 6, {"retry_unprovoked"}),
        ("ok", 5, {"retry_unprovoked"}),  # the listener had not failed again
    ],
)
def test_a_message_that_a_client_kept_is_sent_back_again_with_the_count_of_the_broker(
    end: OpType, copies: int, found: set[str]
) -> None:
    """The broker may have made a copy without an answer, and so may three attempts of the client; then it makes one."""
    story = Story().send(0.0, "a").consume(1.0, "a", 0, "info")
    value = {"group": GROUP, "topic": "t", "broker": "b", "queue": 0}
    kept = {**value, "messages": [["a", 0, 0]], "copied": True}
    story.op(4.0, "info", "send_back", kept, process=100, error="no broker took it")
    story.consume(9.0, "a", 0, end, tries=1)
    if end == "info":
        taken = {**value, "messages": [["a", 0, 1]], "copied": False}
        story.op(9.1, "ok", "send_back", taken, process=100)
    for number in range(copies):
        story.consume(20.0 + number, "a", number, topic=RETRY_TOPIC, tries=1)
    assert story.counts("retries", **LADDER) == found


@pytest.mark.parametrize(
    ("struck", "healed_s", "again_s", "found"),
    [
        (
            "n0",
            10.0,
            12.0,
            {"retry_unprovoked_allowed"},
        ),  # it had not recorded that it had moved the retry
        ("n0", 10.0, 25.0, {"retry_unprovoked"}),  # it would have moved it again at once
        ("n1", 10.0, 12.0, {"retry_unprovoked"}),  # a follower moves nothing
        ("c1", 10.0, 12.0, {"retry_unprovoked"}),
    ],
)
def test_a_broker_that_dies_may_move_a_retry_twice(
    struck: str, healed_s: float, again_s: float, found: set[str]
) -> None:
    story = Story().send(0.0, "a").consume(1.0, "a", 0, "info")
    value = {"group": GROUP, "topic": "t", "broker": "b", "queue": 0, "messages": [["a", 0, 0]]}
    story.op(1.1, "ok", "send_back", {**value, "copied": False}, process=100)
    place = {"group": GROUP, "topic": RETRY_TOPIC, "broker": "b", "queue": 0}
    for offset, at_s in enumerate((8.0, again_s)):
        contents = [None, None, None, None, round(1000 * at_s), None, None]
        row = ["a", offset, offset, True, 1, contents]
        story.op(at_s, "ok", "consume", {**place, "messages": [row]}, process=100)
    known = {"replica_sets": {"b": ("n0", "n1")}, "wall_epoch_ms": 0, "replication": "sync"}
    faults = (fault("kill", struck, at_s=9.0, healed_s=healed_s),)
    assert story.counts("retries", **LADDER, **known, faults=faults) == found


@pytest.mark.parametrize(
    ("ended_s", "found"), [(2.0, {"retry_unprovoked_allowed"}), (40.0, {"retry_unprovoked"})]
)
def test_a_member_that_ended_may_have_sent_back_more_often_than_it_could_report(
    ended_s: float, found: set[str]
) -> None:
    story = Story().send(0.0, "a").consume(1.0, "a", 0, "info", process=7)
    value = {"group": GROUP, "topic": "t", "broker": "b", "queue": 0, "copied": False}
    story.op(1.1, "ok", "send_back", {**value, "messages": [["z", 0, 0]]}, process=100)
    if ended_s > 31.0:
        story.op(1.2, "ok", "send_back", {**value, "messages": [["a", 0, 0]]}, process=7)
    for offset in range(2):
        story.consume(9.0 + offset, "a", offset, topic=RETRY_TOPIC, tries=1)
    story.op(ended_s, "ok", "send_back", {**value, "messages": [["z", 0, 0]]}, process=7)
    assert story.counts("retries", **LADDER) == found


@pytest.mark.parametrize(
    ("retries", "read", "broker", "valid"),
    [
        (2, "info", "b", "unknown"),
        (2, "ok", "b", False),
        (2, "info", "elsewhere", False),
        (1, "info", "b", False),  # it cannot be a dead letter
    ],
)
def test_what_may_be_a_dead_letter_that_was_not_read_is_unknown(
    retries: int, read: OpType, broker: str, valid: object
) -> None:
    story = Story().send(0.0, "a").consume(1.0, "a", 0, "info")
    for tries in range(1, retries + 1):
        story.consume(10.0 * tries, "a", tries, "info", topic=RETRY_TOPIC, tries=tries)
    place = {"group": GROUP, "topic": DEAD_TOPIC, "broker": broker, "queue": 0}
    story.op(100.0, read, "try_read", place, process=99, error=None if read == "ok" else "not all")
    verdict = story.drained(110.0).verdict("loss", **LADDER)

    assert verdict.valid == valid
    assert ("1 messages may be dead letters" in str(verdict.reason)) == (valid == "unknown")


@pytest.mark.parametrize(
    ("end", "copied", "letters", "is_found"),
    [
        ("ok", False, 2, True),
        ("info", False, 2, False),  # the broker may have stored it, and did not say so
        ("info", False, 3, True),
        ("ok", True, 4, False),  # so it may, and so may each attempt of the client
        ("ok", True, 5, True),
    ],
)
def test_a_send_back_without_an_answer_may_leave_several_dead_letters(
    end: OpType, copied: bool, letters: int, is_found: bool
) -> None:
    story = died(2)
    value = {"group": GROUP, "topic": RETRY_TOPIC, "broker": "b", "queue": 0, "copied": copied}
    value |= {"messages": [["a", 1, 2]]}
    story.op(25.0, end, "send_back", value, process=100, error=None if end == "ok" else "lost")
    for number in range(1, letters):
        story.consume(101.0 + number, "a", number, topic=DEAD_TOPIC, tries=3)
    found = story.counts("retries", **LADDER)
    assert ("duplicate_dead_letter" in found) == is_found
    assert ("duplicate_dead_letter_allowed" in found) != is_found


def test_one_message_becomes_one_dead_letter() -> None:
    twice = died(2).consume(101.0, "a", 1, topic=DEAD_TOPIC, tries=3)
    assert twice.counts("retries", **LADDER) == {"duplicate_dead_letter"}
    # read twice from one place, or two deliveries have used up the retries
    again = died(2).consume(101.0, "a", 0, topic=DEAD_TOPIC, tries=3)
    assert again.counts("retries", **LADDER) == set()
    both = died(2).consume(30.0, "a", 2, "info", topic=RETRY_TOPIC, tries=2)
    both.consume(101.0, "a", 1, topic=DEAD_TOPIC, tries=3)
    assert both.counts("retries", **LADDER) == set()


@pytest.mark.parametrize(
    ("end", "copied", "allowed"),
    [("ok", False, False), ("ok", True, True), ("info", False, True), ("ok", None, True)],
)
def test_a_send_back_without_a_clear_answer_may_make_two_dead_letters(
    end: OpType, copied: bool | None, allowed: bool
) -> None:
    story = died(2)
    value: dict[str, Any] = {"group": GROUP, "topic": RETRY_TOPIC, "broker": "b", "queue": 0}
    value |= {"messages": [["a", 2, 2]]} | ({} if copied is None else {"copied": copied})
    story.op(20.5, end, "send_back", value, process=100)
    story.consume(101.0, "a", 1, topic=DEAD_TOPIC, tries=3)
    assert story.verdict("retries", **LADDER).valid is allowed


@pytest.mark.parametrize("group", [GROUP, "h"])
def test_reconsume_times_of_a_first_delivery_have_a_reason(group: str) -> None:
    """A client that tries again by itself counts them; a message that comes for the first time has none."""
    first = Story().send(0.0, "a").consume(1.0, "a", 0, tries=7, group=group)
    assert first.counts("retries", **LADDER) == {"retry_unprovoked"}
    after_success = Story().send(0.0, "a").consume(0.5, "a", 0, group=group)
    after_success.consume(1.0, "a", 0, tries=1, group=group)
    assert after_success.counts("retries", **LADDER) == {"retry_unprovoked"}
    other = Story().send(0.0, "a").consume(0.5, "a", 0, "info", group="other")
    other.consume(1.0, "a", 0, tries=1, group=group)
    assert other.counts("retries", **LADDER) == {"retry_unprovoked"}
    in_place = Story().send(0.0, "a").consume(0.5, "a", 0, "info", group=group)
    in_place.consume(1.0, "a", 0, tries=1, group=group)
    assert in_place.counts("retries", **LADDER) == set()


def test_what_failed_and_never_came_again_is_lost_to_the_group() -> None:
    story = Story().send(0.0, "a").consume(1.0, "a", 0, "info").drained(100.0)
    assert story.counts("loss", **LADDER) == {"unseen"}


def correction(*, tries: int = 0, **reported: Any) -> Story:
    """What the listener failed for at 1 s is taken back at 1.2 s; a copy of it never comes, the original stays."""
    story = Story().send(0.0, "a").consume(1.0, "a", 0, "info")
    place = {"group": GROUP, "topic": "t", "broker": "b", "queue": 0}
    value = {**place, "messages": [["a", 0, tries]], "copied": False, **reported}
    story.op(1.2, "ok", "send_back", value, process=100)
    rows = [["a", 0, 0, True, True, True]]
    story.drained(100.0)
    look_up = {"topic": "t", "broker": "b", "node": NODE, "indexed": True, "messages": rows}
    return story.op(101.0, "ok", "look_up", look_up, process=999)


POWER = fault("power_cut", NODE, at_s=2.0, healed_s=4.0)


@pytest.mark.parametrize(
    ("story", "faults", "flush", "valid"),
    [
        (correction(), [POWER], "async", True),
        (correction(), [POWER], "sync", False),
        (correction(), [], "async", False),
        (correction(), [fault("kill", NODE, at_s=2.0, healed_s=4.0)], "async", False),
        (
            correction(),
            [fault("power_cut", NODE, at_s=0.5, healed_s=0.9)],
            "async",
            False,
        ),  # before
        (correction(), [fault("power_cut", "n7", at_s=2.0, healed_s=4.0)], "async", False),
        (
            correction(copied=True),
            [POWER],
            "async",
            False,
        ),  # on which broker, the client does not say
        (correction(group="h"), [POWER], "async", False),
        (correction(tries=1), [POWER], "async", False),  # of another step
    ],
)
def test_the_copy_for_a_retry_may_be_lost_as_any_message_that_was_stored_then(
    story: Story, faults: list[FaultFacts], flush: str, valid: bool
) -> None:
    verdict = story.verdict("loss", **LADDER, flush=flush, faults=tuple(faults))
    assert (verdict.valid, [finding.anomaly for finding in verdict.findings]) == (valid, ["unseen"])


def reported(
    story: Story, at_s: float, f: str, tries: int, *, group: str = GROUP, process: int = 100
) -> Story:
    """A member says that it has sent the message back, or that it has committed an offset."""
    value: dict[str, Any] = {"group": group, "topic": "t", "broker": "b", "queue": 0}
    if f == "send_back":
        return story.op(at_s, "ok", f, {**value, "messages": [["a", 0, tries]]}, process=process)
    return story.op(at_s, "ok", f, {**value, "offsets": [["b", 0, tries]]}, process=process)


@pytest.mark.parametrize(
    ("story", "found"),
    [
        (reported(reported(retried(4.02), 4.5, "send_back", 0), 50, "commit", 1), set()),
        # of another step, or another group
        (
            reported(reported(retried(4.02), 4.5, "send_back", 1), 50, "commit", 1),
            {"retry_unprovoked"},
        ),
        (
            reported(
                reported(
                    reported(retried(4.02), 4.5, "send_back", 1), 4.5, "send_back", 0, group="h"
                ),
                50,
                "commit",
                1,
            ),
            {"retry_unprovoked"},
        ),
        # by then it may have ended before it could say so
        (reported(reported(retried(4.02), 4.5, "send_back", 1), 34.0, "commit", 1), set()),
        (
            reported(reported(retried(4.02), 4.5, "send_back", 1), 50, "commit", 1, process=101),
            set(),
        ),
        # a group that never says what it sends back
        (reported(retried(4.02), 50, "commit", 1), set()),
        (reported(reported(retried(4.02), 4.5, "send_back", 0, group="h"), 50, "commit", 1), set()),
    ],
)
def test_a_retry_was_sent_back_by_a_member_that_says_so(story: Story, found: set[str]) -> None:
    assert story.counts("retries", **LADDER) == found


def test_a_dead_letter_was_sent_back_by_a_member_that_says_so() -> None:
    story = reported(
        reported(reported(died(2), 150, "commit", 1), 150, "send_back", 0), 150, "send_back", 1
    )
    assert story.counts("retries", **LADDER) == {"retry_unprovoked"}
    assert reported(story, 150, "send_back", 2).counts("retries", **LADDER) == set()


def elsewhere(topic: str, *copied: bool | None, heard_s: float = 200.0) -> Story:
    """A copy from broker d, after failures that members sent back to broker b, or with a copy of their own."""
    dead = topic == DEAD_TOPIC
    story, tries = Story().send(0.0, "a"), 2 if dead else 0
    for number in range(tries):
        story.consume(number, "a", number, "info", topic=RETRY_TOPIC, tries=number)
    members = range(100, 102)
    for process in members:
        story.consume(10.0, "a", 0, "info", topic=RETRY_TOPIC, tries=tries, process=process)
    value: dict[str, Any] = {"group": GROUP, "topic": "t", "broker": "b", "queue": 0}
    for process, by_itself in zip(members, copied, strict=False):
        reported = {} if by_itself is None else {"copied": by_itself}
        sent_back = {**value, "messages": [["a", 0, tries]], **reported}
        story.op(10.1, "ok", "send_back", sent_back, process=process)
    story.consume(100.0, "a", 0, topic=topic, broker="d", tries=tries + 1)
    for process in members:
        offsets = {"group": GROUP, "topic": "t", "offsets": [["b", 0, 1]]}
        story.op(heard_s, "ok", "commit", offsets, process=process)
    return story


@pytest.mark.parametrize("topic", [RETRY_TOPIC, DEAD_TOPIC])
@pytest.mark.parametrize(
    ("copied", "heard_s", "found"),
    [
        ([False, False], 200.0, True),
        ([False, False], 20.0, True),  # both have said what they did
        ([False], 200.0, True),
        ([False], 129.0, False),  # the other one may have ended before it could report its copy
        ([False, True], 200.0, False),  # a copy may go to any broker
        ([False, None], 200.0, False),
    ],
)
def test_a_copy_comes_from_the_broker_that_the_message_was_sent_back_to(
    topic: str, copied: list[bool | None], heard_s: float, found: bool
) -> None:
    story = elsewhere(topic, *copied, heard_s=heard_s)
    verdict = story.verdict("retries", **LADDER)
    details = [of.detail for of in verdict.findings if of.anomaly == "retry_unprovoked"]
    copy = "a dead letter" if topic == DEAD_TOPIC else "retry 1"
    expected = f"{copy} of what was sent back to b alone, and it came from d"
    assert (expected in details) is found


def test_a_group_that_was_to_tell_what_it_sends_back_and_tells_nothing_is_unknown() -> None:
    silent = reported(retried(4.02), 50, "commit", 1)
    verdict = silent.verdict("retries", **LADDER, due=("send_back",))
    assert (verdict.valid, verdict.reason) == (
        "unknown",
        "1 retries and dead letters are of groups whose members report no send_back",
    )
    # by then its member may have ended before it could say so
    ended = reported(retried(4.02), 34.0, "commit", 1)
    assert ended.verdict("retries", **LADDER, due=("send_back",)).valid is True
