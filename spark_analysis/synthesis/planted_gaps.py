"""Gaps of clients, planted as stories: a producer, a consumer and a message that wait longer than is promised.

Only clients that the campaign names can have gaps, and only until the last send of its producers began; so these
stories come first, and nothing after them counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.spark_analysis.synthesis.story import Story, StoryPlant

GAP_MAX_S = 5.0
WAITED_S = 12.0


def _producer(story: Story) -> None:
    node = f"{story.name}-producer"
    story.op(0, "ok", "open", {}, node=node)
    story.facts["producers"] = (node,)


def _send_gap(story: Story, _sets: int) -> None:
    """The first send fails, and the next one comes late."""
    _producer(story)
    failed = story.send(0.1, "fail")
    key = story.send(WAITED_S)
    story.consume(WAITED_S + 1, key, 1)
    story.drained(WAITED_S + 2)
    story.tell_of_run("send_gap", key=failed, topic=story.topic)


def _producer_stuck(story: Story, _sets: int) -> None:
    """Every send of a producer fails, and no fault is in its way."""
    _producer(story)
    first, *_ = [story.send(number * WAITED_S, "fail") for number in range(1, 6)]
    key = story.send(6 * WAITED_S)
    story.consume(6 * WAITED_S + 1, key, 5)
    story.drained(6 * WAITED_S + 2)
    story.tell_of_run("producer_stuck", key=first, topic=story.topic)
    story.tell_of_run("send_gap", key=first, topic=story.topic)


def _refused_at_rest(story: Story, _sets: int) -> None:
    """Every other send of a producer is refused, second after second."""
    _producer(story)
    sent = [
        (story.send(second, "fail", attempts=1), story.send(second + 0.5, queue=1))
        for second in range(1, 11)
    ]
    first = sent[0][0]
    for place, (_, key) in enumerate(sent):
        story.consume(place + 1.8, key, place, queue=1)
    story.drained(13)
    story.tell_of_run("refused_at_rest", key=first, topic=story.topic)


def _start_gap(story: Story, _sets: int) -> None:
    """A consumer starts, and is given its queue late."""
    story.opened(0, 0)
    story.facts["consumers"] = (f"{story.group}-0",)
    story.to_group(WAITED_S, "assign", "queues", [[story.broker, 0]])
    key = story.send(WAITED_S)
    story.consume(WAITED_S + 1, key, 0)
    story.drained(WAITED_S + 2)
    story.tell_of_run("start_gap")


def _delivery_gap(story: Story, _sets: int) -> None:
    """The first of two messages is delivered late, and the producer is still at work then."""
    _producer(story)
    first = story.send(0.1)
    second = story.send(WAITED_S)
    story.consume(WAITED_S - 1, first, 0)
    story.consume(WAITED_S + 1, second, 1)
    story.drained(WAITED_S + 2)
    story.tell("delivery_gap", first, 0)


GAP_PLANTS: Mapping[str, StoryPlant] = {
    "send_gap": _send_gap,
    "producer_stuck": _producer_stuck,
    "refused_at_rest": _refused_at_rest,
    "start_gap": _start_gap,
    "delivery_gap": _delivery_gap,
}
