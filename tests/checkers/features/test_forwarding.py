"""Forwarding: not_forwarded and phantom_copy, and legal histories that look like them."""

from __future__ import annotations

import re

import pytest

from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import HistoryError
from tests.checkers.stories import Story
from tests.support.history_language import BROKER, GROUP, TOPIC

FORWARDER, COPIES = 7, "p7-"


class Forwarding(Story):
    """A member that forwards, and another one. Copies are in queue 1."""

    def __init__(self) -> None:
        super().__init__()
        self.opened("c1", FORWARDER).opened("c2", 8)
        self.send(0.1, "a").send(0.2, "b")

    def reported(
        self, at_s: float, *originals: list[int], copy: int = 0, queue: int = 0
    ) -> Forwarding:
        value = {"group": GROUP, "topic": TOPIC, "broker": BROKER, "queue": queue}
        value |= {"originals": list(originals), "key": f"{COPIES}{copy}"}
        self.op(at_s, "ok", "forward", value, process=FORWARDER)
        return self

    def copied(self, at_s: float, copy: int = 0) -> Forwarding:
        self.send(at_s, f"{COPIES}{copy}", queue=1, process=FORWARDER)
        return self

    def given(self, at_s: float, end_s: float | None = None, process: int = FORWARDER) -> None:
        """a, and then its acknowledgement or nothing."""
        value = {"group": GROUP, "topic": TOPIC, "broker": BROKER, "queue": 0}
        value |= {"messages": [["a", 0, 0, True, 0]]}
        self.op(at_s, "invoke" if end_s is None else "ok", "consume", value, process=process)

    def judged(self) -> Verdict:
        return self.verdict("forwarding", forwarders=("c1",))


def test_a_copy_that_is_stored_before_the_original_is_acknowledged() -> None:
    story = Forwarding()
    story.given(1)
    story.copied(1.1).reported(1.2, [0, 1]).given(2, 2)

    verdict = story.judged()
    assert verdict.valid is True
    assert verdict.counts == {"consumed": 1, "originals": 1, "copies": 1}


@pytest.mark.parametrize("too_late", [False, True])
def test_an_acknowledgement_before_the_copy_is_stored(too_late: bool) -> None:
    story = Forwarding()
    story.given(1)
    story.given(2, 2)
    if too_late:
        story.copied(3).reported(4, [0, 1])

    verdict = story.judged()
    assert verdict.valid is False
    [finding] = verdict.findings
    assert (finding.anomaly, finding.key, finding.queue_offset) == ("not_forwarded", "a", 0)


def test_who_does_not_forward_may_acknowledge() -> None:
    story = Forwarding()
    story.given(1, process=8)
    story.given(2, 2, process=8)
    assert story.judged().valid is True


def test_a_copy_of_an_earlier_call_will_do_and_so_will_two() -> None:
    story = Forwarding()
    story.given(1)
    story.copied(1.1).reported(1.2, [0, 1])
    story.given(2)
    story.copied(2.1, 1).reported(2.2, [0, 1], copy=1).given(3, 3)
    story.given(4)
    story.given(5, 5)
    assert story.judged().valid is True


@pytest.mark.parametrize(
    ("originals", "offset"),
    [([1, 1], 1), ([0, 2], 1), ([5, 1], 5)],
)
def test_a_copy_of_what_the_member_was_not_given(originals: list[int], offset: int) -> None:
    story = Forwarding()
    story.given(1)
    story.copied(1.1).copied(1.2, 1).reported(1.3, [0, 1]).reported(1.4, originals, copy=1)
    for copy in range(2, originals[1] + 1):
        story.copied(1.5, copy)

    verdict = story.judged()
    [finding] = verdict.findings
    assert (finding.anomaly, finding.queue_offset) == ("phantom_copy", offset)


def test_a_copy_of_what_the_member_was_given_only_later() -> None:
    story = Forwarding()
    story.copied(0.5).reported(0.6, [0, 1]).given(1)
    assert [of.anomaly for of in story.judged().findings] == ["phantom_copy"]


def test_copies_that_were_not_stored_and_unknown_queues() -> None:
    story = Forwarding()
    story.given(1)
    story.reported(1.2, [0, 1])
    assert [of.detail for of in story.judged().findings] == ["1 copies were never acknowledged"]
    story.copied(1.3).copied(1.4, 1).reported(1.5, [0, 1], copy=1, queue=9)
    details = [of.detail for of in story.judged().findings]
    assert details == ["1 originals lie in no queue that is known"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"originals": [[0, 0]]}, "[0, 0] is no offset and how many follow"),
        ({"originals": [[-1, 1]]}, "[-1, 1] is no offset"),
        ({"originals": [[0]]}, "not enough values"),
        ({"key": "x"}, "key 'x' of a copy; expected the form p<process>-<n>"),
        ({"queue": "0"}, "'0' is not an integer"),
    ],
)
def test_what_breaks_the_conventions_is_refused(change: dict[str, object], message: str) -> None:
    story = Forwarding().reported(1, [0, 1])
    story.ops[-1].value.update(change)
    with pytest.raises(HistoryError, match=re.escape(message)):
        build_columns(story.ops)
