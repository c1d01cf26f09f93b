"""Moves the offsets of a group (RocketMQ: resetOffsetByTimestamp and its old form, cloneGroupOffset)."""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.admin.groups import progress
from staticfire.system_under_test.admin.messages import max_offset, offset_at
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_queues import ResetOffsetBody
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.headers import UpdateConsumerOffsetHeader
from staticfire.system_under_test.protocol.headers_admin import (
    CloneGroupOffsetHeader,
    ResetOffsetHeader,
)

END_OF_QUEUE_MS = -1  # instead of a time: skip everything


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """The new offset of one queue; `before` is None if only the broker has it."""

    queue: MessageQueue
    after: int
    before: int | None = None


async def reset_offsets(
    admin: AdminClient, topic: str, group: str, time_ms: int, *, is_force: bool = True
) -> list[OffsetChange]:
    """Set a group's offsets to a time, or to the end of the queues.

    The broker notifies online members. If the group is offline, this sets its offsets directly. Without `is_force` no
    offset moves forward.
    """
    changes = []
    for broker_name, address in (await admin.topic_brokers(topic)).items():
        header = ResetOffsetHeader(topic=topic, group=group, timestamp=time_ms, is_force=is_force)
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        try:
            reset = await admin.ask_body(address, code, ResetOffsetBody, header)
        except AdminError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            changes += await _set_offsets(admin, address, broker_name, header)
        else:
            changes += [
                OffsetChange(queue=queue, after=offset)
                for queue, offset in sorted(reset.offset_table.items())
            ]
    return changes


async def _set_offsets(
    admin: AdminClient, address: str, broker_name: str, wanted: ResetOffsetHeader
) -> list[OffsetChange]:
    """Set the offsets of an offline group. Leaves queues for which it has no offset, as in RocketMQ."""
    stats = await progress(admin, wanted.group, wanted.topic)
    changes = []
    for queue, position in stats.offset_table.items():
        if queue.broker_name != broker_name:
            continue
        if wanted.timestamp == END_OF_QUEUE_MS:
            after = await max_offset(admin, address, queue)
        else:
            after = await offset_at(admin, address, queue, wanted.timestamp)
        before = position.consumer_offset
        if not wanted.is_force and after > before:
            after = before
        await commit(admin, address, wanted.group, queue, after)
        changes.append(OffsetChange(queue=queue, before=before, after=after))
    return changes


async def commit(
    admin: AdminClient, address: str, group: str, queue: MessageQueue, offset: int
) -> None:
    """Set the offset of a group in one queue."""
    header = UpdateConsumerOffsetHeader(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
    )
    await admin.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)


async def clone_offsets(
    admin: AdminClient, source: str, target: str, topic: str, *, offline: bool = False
) -> list[str]:
    """Copy the offsets of group `source` in a topic to group `target`; returns the brokers that did so."""
    brokers = await admin.topic_brokers(topic)
    for address in brokers.values():
        header = CloneGroupOffsetHeader(
            src_group=source, dest_group=target, topic=topic, offline=offline
        )
        await admin.ask(address, RequestCode.CLONE_GROUP_OFFSET, header)
    return list(brokers.values())
