"""`staticfire admin`: finds messages and the groups that consumed them."""

from __future__ import annotations

import click

from staticfire.harness.cli.admin.answers import Answer, Record, Table
from staticfire.harness.cli.admin.command import TOPIC, admin_command, int_option, text_option
from staticfire.harness.cli.admin.shown_messages import message_record, message_table
from staticfire.harness.cli.admin.times import parse_span_ms
from staticfire.harness.cli.status import BadInput
from staticfire.system_under_test.admin import AdminClient, messages, tracking
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import (
    Message,
    offset_message_id,
    parse_offset_message_id,
)

QUEUE_ID = int_option("-i", "--queueId", "queue_id", "Queue id.", required=True, high=(1 << 31) - 1)
BEGIN = text_option(
    "-b", "--beginTimestamp", "begin", "Only messages stored at or after this time."
)
END = text_option("-e", "--endTimestamp", "end", "Only messages stored before this time.")


async def _with_track(admin: AdminClient, message: Message) -> Answer:
    tracks = await tracking.message_track(admin, message)
    rows = [
        {"group": each.group, "trackType": each.track_type.value, "reason": each.reason or None}
        for each in tracks
    ]
    return Record({**message_record(message), "track": rows})


async def _consume(
    admin: AdminClient, message_id: str, group: str | None, client_id: str | None
) -> Answer | None:
    """Let one consumer consume the message now, which -g and -d request together."""
    if (group is None) != (client_id is None):
        raise BadInput("only one of -g and -d is given; allowed: both, or neither")
    if group is None or client_id is None:
        return None
    result = await messages.consume_directly(admin, message_id, group, client_id)
    return Record({"msgId": message_id, "group": group, "clientId": client_id, **result.to_json()})


DIRECT_GROUP = text_option(
    "-g", "--consumerGroup", "group", "With -d: let this group consume it now."
)
DIRECT_CLIENT = text_option(
    "-d", "--clientId", "client_id", "With -g: the member that consumes it."
)


@admin_command(
    "queryMsgById",
    "Show the message with an offset message id, and the groups that consumed it.",
    "-i 7F00000100002A9F0000000000000000",
    text_option("-i", "--msgId", "message_id", "Offset message id.", required=True),
    DIRECT_GROUP,
    DIRECT_CLIENT,
)
async def query_msg_by_id(
    admin: AdminClient, message_id: str, group: str | None, client_id: str | None
) -> Answer:
    _check_offset_id(message_id)
    consumed = await _consume(admin, message_id, group, client_id)
    if consumed is not None:
        return consumed
    return await _with_track(admin, await messages.by_offset_id(admin, message_id))


def _check_offset_id(message_id: str) -> None:
    try:
        parse_offset_message_id(message_id)
    except ValueError as error:
        raise BadInput(f"message id is {message_id!r:.80}; allowed: 32 or 56 hex digits") from error


@admin_command(
    "queryMsgByKey",
    "List the messages that have a key.",
    "-t Orders -k order-17",
    TOPIC,
    text_option("-k", "--msgKey", "key", "Key.", required=True),
    BEGIN,
    END,
    int_option(
        "-m", "--maxNum", "count", "Maximum number of messages.", low=1, high=64, default=64
    ),
)
async def query_msg_by_key(
    admin: AdminClient, topic: str, key: str, begin: str | None, end: str | None, count: int
) -> Answer:
    begin_ms, end_ms = parse_span_ms(begin, end)
    found = await messages.by_key(
        admin, topic, key, count_max=count, begin_ms=begin_ms, end_ms=end_ms
    )
    return message_table(found)


@admin_command(
    "queryMsgByUniqueKey",
    "Show the message with the unique id from its producer, and the groups that consumed it.",
    "-t Orders -i 7F00000100002A9F0000000000000000",
    TOPIC,
    text_option("-i", "--msgId", "message_id", "Unique message id.", required=True),
    DIRECT_GROUP,
    DIRECT_CLIENT,
    click.option(
        "-a",
        "--showAll",
        "show_all",
        is_flag=True,
        help="Show all copies if it was sent more than once.",
    ),
)
async def query_msg_by_unique_key(
    admin: AdminClient,
    topic: str,
    message_id: str,
    group: str | None,
    client_id: str | None,
    show_all: bool,
) -> Answer:
    found = await messages.by_unique_key(admin, topic, message_id)
    if not found:
        raise AdminError(f"no broker of {topic!r} has a message with the id {message_id!r:.80}")
    stored_id = offset_message_id(*found[0].store_host, found[0].physical_offset)
    consumed = await _consume(admin, stored_id, group, client_id)
    if consumed is not None:
        return consumed
    return message_table(found) if show_all else await _with_track(admin, found[0])


@admin_command(
    "queryMsgByOffset",
    "Show the message at an offset of a queue.",
    "-t Orders -b broker-a -i 0 -o 5",
    TOPIC,
    text_option("-b", "--brokerName", "broker_name", "Name of the broker.", required=True),
    QUEUE_ID,
    int_option("-o", "--offset", "offset", "Queue offset.", required=True),
)
async def query_msg_by_offset(
    admin: AdminClient, topic: str, broker_name: str, queue_id: int, offset: int
) -> Answer:
    queue = MessageQueue(topic, broker_name, queue_id)
    return Record(message_record(await messages.by_queue_offset(admin, queue, offset)))


@admin_command(
    "messageTrack",
    "Show what each group did with a message.",
    "-i 7F00000100002A9F0000000000000000",
    text_option("-i", "--msgId", "message_id", "Offset message id.", required=True),
)
async def message_track(admin: AdminClient, message_id: str) -> Answer:
    """One of CONSUMED, CONSUMED_BUT_FILTERED, NOT_CONSUME_YET, NOT_ONLINE, PULL, CONSUME_BROADCASTING or UNKNOWN."""
    _check_offset_id(message_id)
    message = await messages.by_offset_id(admin, message_id)
    tracks = await tracking.message_track(admin, message)
    rows = [(each.group, each.track_type.value, each.reason or None) for each in tracks]
    return Table(("group", "trackType", "reason"), rows)


COMMANDS = (
    query_msg_by_id,
    query_msg_by_key,
    query_msg_by_unique_key,
    query_msg_by_offset,
    message_track,
)
