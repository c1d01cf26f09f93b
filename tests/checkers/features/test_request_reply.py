"""Requests and their answers."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.model.history import OpType
from tests.checkers.stories import Story
from tests.support.history_language import GROUP, fault

ANSWER: dict[str, Any] = {"topic": "t", "key": "a", "reply": "a"}


def answered(*answers: tuple[str, str], given: bool = True) -> Story:
    story = Story().send(0.0, "a").send(0.1, "b")
    if given:
        story.consume(0.5, "a", 0).consume(0.6, "b", 1)
    for key, reply in answers:
        story.op(0.9, "ok", "answer", {"topic": "t", "key": key, "reply": reply})
    return story


def test_answers_that_must_be_there_are_missed() -> None:
    """Replies without any answer, or a request that ended as answered without one."""
    reply = {"topic": "t", "group": GROUP, "key": "a"}
    none = answered().op(1.5, "ok", "reply", reply)
    assert none.verdict("requests").valid == "unknown"
    assert "1 replies were written" in str(none.verdict("requests").reason)
    other = answered(("b", "b")).op(2.5, "ok", "reply", reply)
    assert "1 requests ended as answered without an answer, first key a" in str(
        other.verdict("requests").reason
    )
    both = answered(("a", "a"), ("b", "b")).op(2.5, "ok", "reply", reply)
    assert both.verdict("requests").valid is True


@pytest.mark.parametrize(
    ("story", "found"),
    [
        (answered(("a", "a"), ("b", "b")), set()),
        (answered(("a", "b")), {"wrong_answer"}),
        (answered(("a", "a"), ("a", "a")), {"duplicate_reply"}),
        (answered(("a", "a"), given=False), {"phantom_reply"}),
        (
            answered().op(0.9, "ok", "answer", ANSWER, process=5),
            {"wrong_answer"},
        ),  # who never asked
        (
            answered().op(1.02, "ok", "answer", ANSWER),
            {"duplicate_reply"},
        ),  # it had ended so at 0.01 s
    ],
)
def test_each_answer_belongs_to_its_request(story: Story, found: set[str]) -> None:
    assert story.counts("requests") == found


@pytest.mark.parametrize(
    ("got", "were_set", "found"),
    [
        (77, (77,), set()),
        (0, (77,), {"wrong_answer"}),
        (0, (77, 77), {"wrong_answer"}),
        (0, (77, 0), set()),  # the other listener's reply arrived
        (0, (77, None), set()),  # it may be the reply of the client that does not report them
        (None, (77,), set()),
        (0, (), set()),  # the listener died before it had reported its reply
    ],
)
def test_a_reply_keeps_its_properties(
    got: int | None, were_set: tuple[int | None, ...], found: set[str]
) -> None:
    story = answered(("b", "b"))
    for properties in were_set:
        story.op(0.8, "ok", "reply", {"topic": "t", "group": GROUP, "key": "a"} | known(properties))
    assert story.op(0.9, "ok", "answer", ANSWER | known(got)).counts("requests") == found


def known(properties: int | None) -> dict[str, Any]:
    """The field with the digest of properties; none if it is not reported."""
    return {} if properties is None else {"properties": properties}


def test_another_request_explains_no_properties() -> None:
    """The reply to another request is judged by the properties of that reply."""
    story = answered()
    for key, properties in (("a", 77), ("b", 78)):
        value = {"topic": "t", "group": GROUP, "key": key, "properties": properties}
        story.op(0.8, "ok", "reply", value)
    answer = {"topic": "t", "key": "a", "reply": "b", "properties": 78}
    verdict = story.op(0.9, "ok", "answer", answer).verdict("requests")
    assert verdict.counts["wrong_answer"] == 1


def requested(*, reply_s: float, replied: OpType = "ok", is_placed: bool = False) -> Story:
    story = Story().op(0, "invoke", "send", {"topic": "t", "key": "a", "size": 9}, process=0)
    story.consume(0.5, "a", 0)
    story.op(reply_s, replied, "reply", {"topic": "t", "group": GROUP, "key": "a"})
    value = {"topic": "t", "key": "a", "size": 9}
    if is_placed:
        value |= {"broker": "a", "queue": 0, "queue_offset": 0, "status": "SEND_OK"}
    return story.op(5.0, "info", "send", value, process=0)


def test_a_reply_in_time_reaches_its_requester() -> None:
    assert requested(reply_s=1.0).counts("requests") == {"lost_reply"}
    assert requested(reply_s=4.5).counts("requests") == set()  # written down when it had given up
    answer = {"topic": "t", "key": "a", "reply": "a"}
    assert requested(reply_s=1.0).op(1.5, "ok", "answer", answer).counts("requests") == set()


def test_a_fault_that_harms_no_server_loses_no_reply() -> None:
    harmless = (
        fault("topic_anew", at_s=2, healed_s=3),
        fault("slow_consumer", "c1", at_s=2, healed_s=3),
    )
    assert requested(reply_s=1.0).counts("requests", faults=harmless) == {"lost_reply"}


def test_a_reply_that_was_taken_is_not_lost_on_its_way() -> None:
    """Near a fault a reply may be lost, unless its broker says that the requester has taken it."""
    near = (fault("kill", "n9", at_s=2, healed_s=3),)
    assert requested(reply_s=1.0).counts("requests", faults=near) == set()
    taken = requested(reply_s=1.0, is_placed=True)
    assert taken.counts("requests", faults=near) == {"lost_reply"}
    unsure = requested(reply_s=1.0, replied="info", is_placed=True)
    assert unsure.counts("requests", faults=near) == set()
    late = requested(reply_s=4.5, is_placed=True)
    assert late.counts("requests", faults=near) == set()
    gone = requested(reply_s=1.0, is_placed=True).op(1.2, "ok", "answer", ANSWER)
    assert gone.counts("requests", faults=near) == set()
