"""Finds the groups that consumed a message (RocketMQ: messageTrackDetail).

Brokers keep no record of who consumed a message, so the answer is derived from offsets: a group whose offset in the
message's queue is beyond the message has consumed it or filtered it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.admin.groups import consumer_connections, progress
from staticfire.system_under_test.admin.topics import topic_groups
from staticfire.system_under_test.protocol.bodies import SubscriptionData
from staticfire.system_under_test.protocol.bodies_clients import ConsumerConnections
from staticfire.system_under_test.protocol.bodies_queues import ConsumeStats
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting.address import format_address

TAGS = "TAGS"


class TrackType(StrEnum):
    """RocketMQ: TrackType."""

    CONSUMED = "CONSUMED"
    # the group's offset is beyond the message, but its subscription does not match the tag
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    PULL = "PULL"  # the group is a pull consumer, which may keep its offsets elsewhere
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"  # each member keeps its own offsets
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrack:
    """What one group has done with a message; `reason` says why that is unknown, if it is."""

    group: str
    track_type: TrackType
    reason: str = ""


async def message_track(admin: AdminClient, message: Message) -> list[MessageTrack]:
    """What each group that consumes the topic has done with the message."""
    masters = await admin.masters()
    address = format_address(*message.store_host)
    broker_names = [name for name, master in masters.items() if master == address]
    tracks = []
    for group in await topic_groups(admin, message.topic):
        try:
            members = await consumer_connections(admin, group)
            stats = await progress(admin, group)
        except AdminError as error:
            offline = error.code == ResponseCode.CONSUMER_NOT_ONLINE
            found = TrackType.NOT_ONLINE if offline else TrackType.UNKNOWN
            tracks.append(MessageTrack(group=group, track_type=found, reason=str(error)))
        else:
            found = track_type(message, members, stats, broker_names)
            tracks.append(MessageTrack(group=group, track_type=found))
    return tracks


def track_type(
    message: Message, members: ConsumerConnections, stats: ConsumeStats, broker_names: list[str]
) -> TrackType:
    """What an online group has done with a message that lies on one of `broker_names`."""
    if members.message_model == "BROADCASTING":
        return TrackType.CONSUME_BROADCASTING
    if members.consume_type == "CONSUME_ACTIVELY":
        return TrackType.PULL
    if members.consume_type != "CONSUME_PASSIVELY":
        return TrackType.UNKNOWN
    if not _is_passed(message, stats, broker_names):
        return TrackType.NOT_CONSUME_YET
    subscription = members.subscription_table.get(message.topic)
    if subscription is not None and not _is_wanted(message, subscription):
        return TrackType.CONSUMED_BUT_FILTERED
    return TrackType.CONSUMED


def _is_passed(message: Message, stats: ConsumeStats, broker_names: list[str]) -> bool:
    return any(
        position.consumer_offset > message.queue_offset
        for queue, position in stats.offset_table.items()
        if queue.topic == message.topic
        and queue.queue_id == message.queue_id
        and queue.broker_name in broker_names
    )


def _is_wanted(message: Message, subscription: SubscriptionData) -> bool:
    tags = subscription.tags_set
    return not tags or "*" in tags or message.properties.get(TAGS) in tags
