from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from system_under_test.client.allocation import allocate_averagely
from system_under_test.protocol.bodies import MessageQueue


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue(topic="T", broker_name="b", queue_id=number) for number in range(count)]


# Produced by RocketMQ 4.9.8 (AllocateMessageQueueAveragely).
@pytest.mark.parametrize(
    ("queue_count", "members", "shares"),
    [
        (8, 3, ["0 1 2", "3 4 5", "6 7"]),
        (10, 4, ["0 1 2", "3 4 5", "6 7", "8 9"]),
        (7, 3, ["0 1 2", "3 4", "5 6"]),
        (2, 3, ["0", "1", ""]),
        (4, 1, ["0 1 2 3"]),
    ],
)
def test_shares(queue_count: int, members: int, shares: list[str]) -> None:
    ids = [f"10.0.0.{number}@c" for number in range(members)]
    found = [
        " ".join(str(queue.queue_id) for queue in allocate_averagely(queues(queue_count), ids, own))
        for own in ids
    ]
    assert found == shares


def test_a_client_that_is_no_member_gets_nothing() -> None:
    assert allocate_averagely(queues(4), ["a", "b"], "c") == []


def test_one_client_on_two_connections_counts_once() -> None:
    assert allocate_averagely(queues(4), ["a", "a", "b"], "b") == queues(4)[2:]


@given(
    count=st.integers(0, 40),
    ids=st.lists(st.text(min_size=1), min_size=1, unique=True),
    data=st.data(),
)
def test_every_queue_has_exactly_one_owner_whatever_the_order(
    count: int, ids: list[str], data: st.DataObject
) -> None:
    shares = [
        allocate_averagely(
            data.draw(st.permutations(queues(count))), data.draw(st.permutations(ids)), own
        )
        for own in ids
    ]
    assert sorted(queue for share in shares for queue in share) == queues(count)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
