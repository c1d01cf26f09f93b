from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.system_under_test.client.consumer.rebalance.allocation import (
    Allocate,
    allocate_averagely,
    allocate_by_consistent_hash,
    allocate_in_circle,
    room_of_broker,
    strategy,
)
from staticfire.system_under_test.protocol.bodies import MessageQueue


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue(topic="T", broker_name="b", queue_id=number) for number in range(count)]


def shares(allocate: Allocate, queues: list[MessageQueue], members: int) -> list[str]:
    """What each member gets, as queue numbers."""
    ids = [f"10.0.0.{number}@c" for number in range(members)]
    return [" ".join(str(queue.queue_id) for queue in allocate(queues, ids, own)) for own in ids]


# Produced by RocketMQ 4.9.8.
@pytest.mark.parametrize(
    ("name", "queue_count", "members", "expected"),
    [
        ("AVG", 8, 3, ["0 1 2", "3 4 5", "6 7"]),
        ("AVG", 10, 4, ["0 1 2", "3 4 5", "6 7", "8 9"]),
        ("AVG", 7, 3, ["0 1 2", "3 4", "5 6"]),
        ("AVG", 2, 3, ["0", "1", ""]),
        ("AVG", 4, 1, ["0 1 2 3"]),
        ("AVG_BY_CIRCLE", 10, 4, ["0 4 8", "1 5 9", "2 6", "3 7"]),
    ],
)
def test_shares(name: str, queue_count: int, members: int, expected: list[str]) -> None:
    assert shares(strategy(name), queues(queue_count), members) == expected


def test_shares_by_consistent_hash() -> None:
    """Produced by RocketMQ 4.9.8 (AllocateMessageQueueConsistentHash)."""
    of_topic = [MessageQueue("TopicTest", "broker-a", number) for number in range(8)]
    ids = [f"10.0.0.{number}@{number}" for number in (1, 2, 3)]
    found = [
        [queue.queue_id for queue in allocate_by_consistent_hash(of_topic, ids, own)] for own in ids
    ]
    assert found == [[1, 2, 4, 5, 7], [], [0, 3, 6]]


def test_shares_by_machine_room() -> None:
    """Produced by RocketMQ 4.9.8 (AllocateMessageQueueByMachineRoom)."""
    of_topic = [
        MessageQueue("T", broker, number)
        for broker in ("IDC1@b1", "IDC2@b2", "IDC3@b3")
        for number in range(4)
    ]
    ids = ["a", "b", "c"]
    allocate = strategy("MACHINE_ROOM", ("IDC1", "IDC2"))
    found = [
        [f"{queue.broker_name[-2:]}/{queue.queue_id}" for queue in allocate(of_topic, ids, own)]
        for own in ids
    ]
    assert found == [["b1/0", "b1/1", "b2/2"], ["b1/2", "b1/3", "b2/3"], ["b2/0", "b2/1"]]


@pytest.mark.parametrize(("name", "room"), [("r@b", "r"), ("b", None), ("r@b@c", None), ("@b", "")])
def test_the_room_of_a_broker(name: str, room: str | None) -> None:
    assert room_of_broker(name) == room


def test_a_strategy_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="'FAIR'; allowed are AVG, AVG_BY_CIRCLE, CONSISTENT_HASH"):
        strategy("FAIR")


@pytest.mark.parametrize(
    "allocate", [allocate_averagely, allocate_in_circle, allocate_by_consistent_hash]
)
@pytest.mark.parametrize("own", ["a", "c"])
def test_no_members_and_no_queues(allocate: Allocate, own: str) -> None:
    assert allocate([], ["a"], own) == []
    assert own == "a" or allocate(queues(4), ["a"], own) == []


def test_a_client_that_is_no_member_gets_nothing() -> None:
    assert allocate_averagely(queues(4), ["a", "b"], "c") == []


def test_one_client_on_two_connections_counts_once() -> None:
    assert allocate_averagely(queues(4), ["a", "a", "b"], "b") == queues(4)[2:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_even"), [("AVG", True), ("AVG_BY_CIRCLE", True), ("CONSISTENT_HASH", False)]
)
@given(
    count=st.integers(0, 40),
    ids=st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True),
    data=st.data(),
)
def test_every_queue_has_exactly_one_owner_whatever_the_order(
    name: str, is_even: bool, count: int, ids: list[str], data: st.DataObject
) -> None:
    found = [
        strategy(name)(
            data.draw(st.permutations(queues(count))), data.draw(st.permutations(ids)), own
        )
        for own in ids
    ]
    assert sorted(queue for share in found for queue in share) == queues(count)
    assert not is_even or max(map(len, found)) - min(map(len, found)) <= 1
