"""Divides queues among members: each computes its own share, and the shares fit if all use the same two lists.

RocketMQ: AllocateMessageQueueStrategy. All members of a group must use the same one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import partial
from hashlib import md5

from staticfire.system_under_test.protocol.bodies import MessageQueue

VIRTUAL_NODES = 10  # RocketMQ: AllocateMessageQueueConsistentHash.virtualNodeCnt
ROOM_END = "@"  # ends the room in a broker name `room@name`

# (queues of one topic, client ids of the group, own client id) -> this member's queues, sorted.
Allocate = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]


def sorted_members(client_ids: Sequence[str]) -> list[str]:
    """The members in the order that all of them use; a client id that is connected twice is one member."""
    return sorted(dict.fromkeys(client_ids))


def allocate_averagely(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
) -> list[MessageQueue]:
    """AVG: neighbouring queues stay together; the first members get one more each if there is a remainder."""
    members = sorted_members(client_ids)
    if client_id not in members:
        return []
    index = members.index(client_id)
    size, extra = divmod(len(queues), len(members))
    start = index * size + min(index, extra)
    return sorted(queues)[start : start + size + (1 if index < extra else 0)]


def allocate_in_circle(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: one queue to each member in turn, as cards are dealt."""
    members = sorted_members(client_ids)
    if client_id not in members:
        return []
    return sorted(queues)[members.index(client_id) :: len(members)]


def allocate_by_consistent_hash(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
) -> list[MessageQueue]:
    """CONSISTENT_HASH: a member that joins or leaves moves few queues; shares may differ much in size, or be empty."""
    members = sorted_members(client_ids)
    if client_id not in members:
        return []
    ring = {
        ring_hash(f"{member}-{number}"): member
        for member in members
        for number in range(VIRTUAL_NODES)
    }
    hashes = sorted(ring)

    def owner(queue: MessageQueue) -> str:
        index = bisect_left(hashes, ring_hash(queue_text(queue)))
        return ring[hashes[index % len(hashes)]]

    return [queue for queue in sorted(queues) if owner(queue) == client_id]


def ring_hash(text: str) -> int:
    """RocketMQ: ConsistentHashRouter.MD5Hash."""
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def queue_text(queue: MessageQueue) -> str:
    """RocketMQ: MessageQueue.toString, the text that it hashes."""
    topic, broker_name, queue_id = queue
    return f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]"


def allocate_in_machine_rooms(
    rooms: Collection[str],
    queues: Sequence[MessageQueue],
    client_ids: Sequence[str],
    client_id: str,
) -> list[MessageQueue]:
    """MACHINE_ROOM: only queues of brokers `room@name` in these rooms; the first members get the remainder."""
    members = sorted_members(client_ids)
    if client_id not in members:
        return []
    index = members.index(client_id)
    kept = [queue for queue in sorted(queues) if room_of_broker(queue.broker_name) in rooms]
    size, extra = divmod(len(kept), len(members))
    part = kept[size * index : size * (index + 1)]
    return part + ([kept[size * len(members) + index]] if index < extra else [])


def room_of_broker(broker_name: str) -> str | None:
    """The room of a broker `room@name`; None for any other name."""
    room, end, name = broker_name.partition(ROOM_END)
    return room if end and ROOM_END not in name else None


STRATEGIES: dict[str, Allocate] = {
    "AVG": allocate_averagely,
    "AVG_BY_CIRCLE": allocate_in_circle,
    "CONSISTENT_HASH": allocate_by_consistent_hash,
}
MACHINE_ROOM = "MACHINE_ROOM"


def strategy(name: str, rooms: Sequence[str] = ()) -> Allocate:
    """The strategy with this name. `rooms` is for MACHINE_ROOM. Raises ValueError for an unknown name."""
    if name == MACHINE_ROOM:
        return partial(allocate_in_machine_rooms, tuple(rooms))
    if name not in STRATEGIES:
        allowed = ", ".join((*STRATEGIES, MACHINE_ROOM))
        raise ValueError(f"the allocation strategy is {name!r:.80}; allowed are {allowed}")
    return STRATEGIES[name]
