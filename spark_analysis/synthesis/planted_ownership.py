"""Messages that are given to the wrong process, or late, planted as stories."""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.spark_analysis.synthesis.shape import BATCH_WAITS_S
from staticfire.spark_analysis.synthesis.story import Story, StoryPlant


def _unowned_delivery(story: Story, _sets: int) -> None:
    """The second message goes to a member that has another queue."""
    keys = [story.send(0.1), story.send(0.2)]
    for member in (0, 1):
        story.to_group(0, "assign", "queues", [[story.broker, member]], member=member)
    for place, key in enumerate(keys):
        story.consume(1 + place, key, place, member=place)
    story.drained(4)
    story.tell("unowned_delivery", keys[1], 1)


def _unowned_commit(story: Story, _sets: int) -> None:
    """A member of another queue commits how far its owner is."""
    key = story.send(0.1)
    for member in (0, 1):
        story.to_group(0, "assign", "queues", [[story.broker, member]], member=member)
    story.consume(1, key, 0)
    story.to_group(2, "commit", "offsets", [[story.broker, 0, 1]], member=1)
    story.drained(4)
    story.tell("unowned_commit")


def _unknown_consumer(story: Story, _sets: int) -> None:
    """One member opens; another one, which never did, is given a message."""
    key = story.send(0.1)
    story.opened(0, 0)
    story.to_group(0.1, "assign", "queues", [[story.broker, 0]])
    story.consume(1, key, 0, member=1)
    story.drained(4)
    story.tell("unknown_consumer", key, 0)


def _delivery_after_exit(story: Story, _sets: int) -> None:
    """A node runs its next process, and the one before is given a message."""
    key = story.send(0.1)
    node = f"{story.group}-0"
    story.opened(0, 0)
    for at_s, queues in ((0.1, [[story.broker, 0]]), (2.5, [])):
        story.to_group(at_s, "assign", "queues", queues)
    value = {"group": story.group, "topic": story.topic, "expression": "*"}
    story.op(2, "ok", "open", value, process=story.consumer + 1, node=node)
    story.to_group(2.5, "assign", "queues", [[story.broker, 0]], member=1)
    story.consume(3, key, 0)
    story.drained(4)
    story.tell("delivery_after_exit", key, 0)


def _slow_delivery(story: Story, _sets: int) -> None:
    """The owner of the queue is idle, and is given the message much later."""
    story.to_group(0, "assign", "queues", [[story.broker, 0]])
    key = story.send(12)
    story.consume(BATCH_WAITS_S + 20, key, 0)
    story.drained(BATCH_WAITS_S + 21)
    story.tell("slow_delivery", key, 0)


OWNERSHIP_PLANTS: Mapping[str, StoryPlant] = {
    "unowned_delivery": _unowned_delivery,
    "unowned_commit": _unowned_commit,
    "unknown_consumer": _unknown_consumer,
    "delivery_after_exit": _delivery_after_exit,
    "slow_delivery": _slow_delivery,
}
