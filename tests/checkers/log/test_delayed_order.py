"""Order of delayed messages: overtaking, and near misses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.checkers.guarantees.facts import RottenRecord
from tests.checkers.stories import Story
from tests.support.history_language import BROKER, GROUP, NODE, TOPIC, fault


def sent(*, queue: int = 0, delay_ms: int = 5000) -> Story:
    """Message a, and after its acknowledgement b: with the same delay, in the same queue, unless changed."""
    story = Story().send(0.0, "a", delay_ms=5000)
    return story.send(1.0, "b", process=1, queue=queue, delay_ms=delay_ms)


def test_messages_of_one_delay_are_in_the_order_of_their_sends() -> None:
    assert sent().consume(7, "a", 3).consume(8, "b", 4).counts("delayed_order") == set()
    overtaken = sent().consume(7, "b", 3).consume(8, "a", 4)
    (finding,) = overtaken.verdict("delayed_order").findings
    assert (finding.anomaly, finding.key, finding.queue_offset) == ("delayed_out_of_order", "b", 3)
    assert finding.detail == (
        "key a, with the same delay, was acknowledged before this message was sent, and lies behind it, at offset 4"
    )


@pytest.mark.parametrize(("queue", "delay_ms"), [(1, 5000), (0, 4000)])
def test_other_queues_and_other_delays_have_no_common_order(queue: int, delay_ms: int) -> None:
    story = sent(queue=queue, delay_ms=delay_ms).consume(7, "b", 3, queue=queue)
    assert story.consume(8, "a", 4).counts("delayed_order") == set()


def test_sends_that_overlap_have_no_order() -> None:
    story = Story()
    for key, process in (("a", 0), ("b", 1)):
        value = {"key": key, "topic": TOPIC, "size": 100, "attempts": 1, "delay_ms": 5000}
        story.op(0.0, "invoke", "send", value, process=process)
    place = {"broker": BROKER, "queue": 0, "queue_offset": -1, "status": "SEND_OK"}
    for key, process in (("a", 0), ("b", 1)):
        value = {"key": key, "topic": TOPIC, "size": 100, "attempts": 1, "delay_ms": 5000}
        story.op(0.1, "ok", "send", value | place, process=process)
    assert story.consume(7, "b", 3).consume(8, "a", 4).counts("delayed_order") == set()


def test_a_send_without_an_answer_has_no_order() -> None:
    story = Story().send(0.0, "a", "info", delay_ms=5000).send(1.0, "b", process=1, delay_ms=5000)
    assert story.consume(7, "b", 3).consume(8, "a", 4).counts("delayed_order") == set()


def test_a_message_that_is_moved_once_more_keeps_its_first_place() -> None:
    again = sent().consume(7, "a", 3).consume(8, "b", 4).consume(9, "a", 5).consume(10, "b", 6)
    assert again.counts("delayed_order") == set()
    by_another = sent().consume(7, "a", 3, group="h", process=101).consume(8, "b", 4)
    assert by_another.consume(9, "a", 5).counts("delayed_order") == set()


def test_a_message_that_no_group_was_given_has_no_place() -> None:
    assert sent().consume(7, "b", 3).counts("delayed_order") == set()


@pytest.mark.parametrize(
    ("at_s", "found"), [(7.5, "delayed_out_of_order_allowed"), (20, "delayed_out_of_order")]
)
def test_a_power_cut_that_may_cost_the_first_place_excuses(at_s: float, found: str) -> None:
    cut = fault("power_cut", NODE, at_s=at_s, healed_s=at_s + 1)
    story = sent().consume(7, "b", 3, group=GROUP).consume(9, "a", 4)
    assert story.counts("delayed_order", flush="async", faults=(cut,)) == {found}
    assert story.counts("delayed_order", faults=(cut,)) == {"delayed_out_of_order"}


@pytest.mark.parametrize(
    ("key", "found"), [("a", "delayed_out_of_order_allowed"), ("b", "delayed_out_of_order")]
)
def test_a_message_whose_record_the_disk_changed_is_delivered_once_more(
    key: str, found: str
) -> None:
    rot = replace(
        fault("bit_rot", NODE, at_s=6.5, healed_s=6.6),
        records=(RottenRecord(key=key, start=0, end=100),),
    )
    story = sent().consume(7, "b", 3).consume(9, "a", 4)
    assert story.counts("delayed_order", faults=(rot,)) == {found}
