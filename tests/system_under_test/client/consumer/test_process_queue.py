from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from staticfire.system_under_test.client.consumer.process_queue import ProcessQueue
from staticfire.system_under_test.protocol.message import Message


def messages(*offsets: int) -> list[Message]:
    return [Message(topic="t", body=b"x" * 10, queue_offset=offset) for offset in offsets]


def test_nothing_is_committed_before_it_is_finished() -> None:
    queue = ProcessQueue(5)
    queue.put(messages(5, 6, 7), next_offset=8)
    batch = queue.take(2)
    assert queue.commit_offset == 5
    queue.finish(batch)
    assert queue.commit_offset == 7


def test_a_failed_message_holds_the_offset_and_comes_before_later_ones() -> None:
    queue = ProcessQueue(0)
    queue.put(messages(0, 1, 2, 3), next_offset=4)
    failed = queue.take(2)
    queue.finish(queue.take(1))
    assert queue.commit_offset == 0
    queue.give_back(failed)
    again = queue.take(4)
    assert [message.queue_offset for message in again] == [0, 1, 3]
    queue.finish(again)
    assert queue.commit_offset == 4


def test_filtered_messages_at_the_end_are_covered() -> None:
    queue = ProcessQueue(0)
    queue.put(messages(0), next_offset=9)
    assert queue.commit_offset == 0
    queue.finish(queue.take(1))
    assert queue.commit_offset == 9


def test_an_answer_without_messages_moves_the_offset_on() -> None:
    queue = ProcessQueue(0)
    queue.put([], next_offset=4)
    assert (queue.next_offset, queue.commit_offset) == (4, 4)


def test_messages_that_are_already_here_are_ignored() -> None:
    queue = ProcessQueue(0)
    queue.put(messages(0, 1), next_offset=2)
    queue.put(messages(1, 2), next_offset=3)
    assert [message.queue_offset for message in queue.take(10)] == [0, 1, 2]


def test_sizes_are_of_what_is_unfinished() -> None:
    queue = ProcessQueue(0)
    queue.put(messages(0, 1, 2), next_offset=3)
    assert (len(queue), queue.size_bytes, queue.span) == (3, 30, 2)
    queue.finish(queue.take(3))
    assert (len(queue), queue.size_bytes, queue.span) == (0, 0, 0)


class ProcessQueueMachine(RuleBasedStateMachine):
    """Arrivals, filters, batches, failures and successes in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = ProcessQueue(100)
        self.arrived: list[int] = []
        self.finished: set[int] = set()
        self.taken: list[list[Message]] = []
        self.end = 100

    @rule(wanted=st.lists(st.booleans(), min_size=1, max_size=8))
    def arrive(self, wanted: list[bool]) -> None:
        offsets = [self.end + number for number, is_wanted in enumerate(wanted) if is_wanted]
        self.end += len(wanted)
        self.queue.put(messages(*offsets), next_offset=self.end)
        self.arrived += offsets

    @rule(count=st.integers(1, 5))
    def take(self, count: int) -> None:
        if batch := self.queue.take(count):
            self.taken.append(batch)

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), succeeds=st.booleans())
    def end_batch(self, data: st.DataObject, succeeds: bool) -> None:
        batch = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        if succeeds:
            self.queue.finish(batch)
            self.finished |= {message.queue_offset for message in batch}
        else:
            self.queue.give_back(batch)

    @invariant()
    def never_commits_what_is_not_consumed(self) -> None:
        unfinished = [offset for offset in self.arrived if offset not in self.finished]
        assert self.queue.commit_offset == min(unfinished, default=self.end)
        assert len(self.queue) == len(unfinished)


TestProcessQueueMachine = pytest.mark.slow(ProcessQueueMachine.TestCase)
