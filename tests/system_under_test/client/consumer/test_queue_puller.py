"""How much a queue may hold before its consumer stops pulling."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.client.consumer.process_queue import ProcessQueue
from staticfire.system_under_test.client.consumer.queue_puller import FlowLimits
from staticfire.system_under_test.protocol.message import Message


@pytest.fixture
def queue() -> ProcessQueue:
    """Three messages of 100 bytes, of which the last one lies five offsets behind the first."""
    queue = ProcessQueue(0)
    messages = [Message(topic="t", body=bytes(100), queue_offset=offset) for offset in (0, 1, 5)]
    queue.put(messages, next_offset=6)
    return queue


@pytest.mark.parametrize(
    ("limits", "owned", "allowed"),
    [
        (FlowLimits(count_max=3), 1, True),
        (FlowLimits(count_max=2), 1, False),
        (FlowLimits(size_bytes_max=300), 1, True),
        (FlowLimits(size_bytes_max=299), 1, False),
        (FlowLimits(span_max=5), 1, True),
        (FlowLimits(span_max=4), 1, False),
        (FlowLimits(span_max=None), 1, True),
        (FlowLimits(topic_count_max=6), 2, True),
        (FlowLimits(topic_count_max=5), 2, False),
        (FlowLimits(topic_size_bytes_max=4 << 20), 4, True),
    ],
)
def test_what_is_here_may_reach_a_limit_and_not_pass_it(
    queue: ProcessQueue, limits: FlowLimits, owned: int, allowed: bool
) -> None:
    assert limits.allow(queue, owned) is allowed
