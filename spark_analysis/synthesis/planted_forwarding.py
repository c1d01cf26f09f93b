"""A member that forwards and leaves something out, or tells of too much, planted as stories."""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.spark_analysis.synthesis.story import Story, StoryPlant


def _forwarded(story: Story, given: int, told: int) -> list[str]:
    """Of two messages a member that forwards is given so many, and tells of so many copies, which lie in queue 1."""
    for member in (0, 1):
        story.opened(0, member)
    story.facts["forwarders"] = (f"{story.group}-0",)
    keys = [story.send(0.1), story.send(0.2)]
    for place, key in enumerate(keys[given:], given):
        story.consume(0.5, key, place, member=1)
    also = tuple((key, place) for place, key in enumerate(keys[:given]))
    story.consume(1, *also[0], takes_s=1, also=also[1:])
    copies = [story.send(1.1 + place / 10, queue=1, process=8) for place in range(told)]
    value = {"group": story.group, "topic": story.topic, "broker": story.broker, "queue": 0}
    value |= {"originals": [[0, told]], "key": copies[0]}
    story.op(1.5, "ok", "forward", value, process=story.consumer)
    for place, key in enumerate(copies):
        story.consume(3 + place, key, place, queue=1, member=1)
    story.drained(6)
    return keys


def _not_forwarded(story: Story, _sets: int) -> None:
    keys = _forwarded(story, given=2, told=1)
    story.tell("not_forwarded", keys[1], 1)


def _made_up_copy(story: Story, _sets: int) -> None:
    _forwarded(story, given=1, told=2)
    story.tell("made_up_copy", None, 1, in_log=False)


FORWARDING_PLANTS: Mapping[str, StoryPlant] = {
    "not_forwarded": _not_forwarded,
    "made_up_copy": _made_up_copy,
}
