"""Decisions about admin requests and silent group members in which RocketMQ and the hardened broker differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

MinOffset = Callable[[str, int], int]  # (topic, queue id) -> first offset of the queue


class Offsets(Protocol):
    """The table of consumer offsets."""

    def groups_of(self, topic: str) -> list[str]: ...

    def queues(self, group: str, topic: str) -> dict[int, int]: ...

    def forget_group(self, group: str) -> None: ...


LowestOffsets = Callable[[Offsets, str, Sequence[str], MinOffset], dict[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminPolicy:
    """Decisions of administration; comments say what RocketMQ does."""

    lowest_offsets: LowestOffsets  # code 308 deletes the offsets of the groups it leaves out
    clones_all_topics: bool  # code 314 without a topic clones nothing
    ignores_bad_options: bool  # code 25 keeps the old value and answers success
    notifies_of_expired_members: bool  # sends no code 40: the others notice at their next rebalance


def lowest_offsets(
    offsets: Offsets, topic: str, left_out: Sequence[str], min_offset: MinOffset
) -> dict[int, int]:
    """The lowest offset in each queue of all groups except `left_out`; ignores offsets before the queue's start."""
    lowest: dict[int, int] = {}
    for group in offsets.groups_of(topic):
        if group in left_out:
            continue
        for queue_id, offset in offsets.queues(group, topic).items():
            if offset >= min_offset(topic, queue_id):
                lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
    return lowest


def lowest_offsets_forgetting(
    offsets: Offsets, topic: str, left_out: Sequence[str], min_offset: MinOffset
) -> dict[int, int]:
    """Like `lowest_offsets`, but deletes the offsets of `left_out` (RocketMQ, queryMinOffsetInAllGroup)."""
    for group in left_out:
        offsets.forget_group(group)
    return lowest_offsets(offsets, topic, (), min_offset)
