"""`staticfire admin`: reads queues."""

from __future__ import annotations

from collections import Counter

from staticfire.harness.cli.admin.answers import Answer, Table
from staticfire.harness.cli.admin.command import (
    TOPIC,
    Values,
    admin_command,
    flag_option,
    int_option,
    text_option,
)
from staticfire.harness.cli.admin.shown_messages import message_table
from staticfire.harness.cli.admin.times import parse_span_ms
from staticfire.harness.cli.status import BadInput
from staticfire.system_under_test.admin import AdminClient, messages
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message

NO_LIMIT = 1 << 62
QUEUE_ID = int_option("-i", "--queueId", "queue_id", "Queue id.", required=True, high=(1 << 31) - 1)
BEGIN = text_option(
    "-b", "--beginTimestamp", "begin", "Only messages stored at or after this time."
)
END = text_option("-e", "--endTimestamp", "end", "Only messages stored before this time.")
TAGS = text_option(
    "-s", "--subExpression", "tags", "Tag expression, such as 'A || B'.", default="*"
)
LIMIT = int_option(
    "-m", "--maxMessages", "limit", "Maximum number of messages. 0: all.", default=1000
)
BODIES = flag_option("-d", "--printBody", "with_bodies", "Show the bodies.", default=True)
CHARSET = text_option(
    "-c", "--charsetName", "charset", "Character set of the bodies.", default="UTF-8"
)


def _check_charset(values: Values) -> None:
    try:
        b" ".decode(values["charset"])
    except (LookupError, UnicodeError) as error:
        raise BadInput(
            f"character set is {values['charset']!r:.40}; allowed: one of Python's, such as UTF-8 or GBK"
        ) from error


@admin_command(
    "printMsg",
    "List the messages of a topic.",
    "-t Orders -b 2026-01-31#00:00:00:000",
    TOPIC,
    TAGS,
    BEGIN,
    END,
    LIMIT,
    BODIES,
    CHARSET,
    check=_check_charset,
)
async def print_msg(
    admin: AdminClient,
    topic: str,
    tags: str,
    begin: str | None,
    end: str | None,
    limit: int,
    with_bodies: bool,
    charset: str,
) -> Answer:
    span = parse_span_ms(begin, end)
    queues = await messages.readable_queues(admin, topic)
    found, note = await _read_queues(admin, queues, tags, span, (begin, end), limit)
    return message_table(found, note, with_bodies=with_bodies, charset=charset)


@admin_command(
    "printMsgByQueue",
    "List the messages of one queue.",
    "-t Orders -a broker-a -i 0",
    TOPIC,
    text_option("-a", "--brokerName", "broker_name", "Name of the broker.", required=True),
    QUEUE_ID,
    TAGS,
    BEGIN,
    END,
    LIMIT,
    flag_option("-p", "--print", "is_listed", "List the messages.", default=True),
    BODIES,
    CHARSET,
    flag_option(
        "-f",
        "--calculate",
        "by_tag",
        "Count the messages of each tag, in place of the list.",
        default=False,
    ),
    check=_check_charset,
)
async def print_msg_by_queue(
    admin: AdminClient,
    topic: str,
    broker_name: str,
    queue_id: int,
    tags: str,
    begin: str | None,
    end: str | None,
    limit: int,
    is_listed: bool,
    with_bodies: bool,
    charset: str,
    by_tag: bool,
) -> Answer:
    span = parse_span_ms(begin, end)
    queues = {MessageQueue(topic, broker_name, queue_id): await admin.master(broker_name)}
    found, note = await _read_queues(admin, queues, tags, span, (begin, end), limit)
    if by_tag:
        counted = Counter(message.properties.get("TAGS") for message in found)
        return Table(("tag", "count"), counted.most_common(), note=note)
    shown = found if is_listed else []
    return message_table(shown, note, with_bodies=with_bodies, charset=charset)


@admin_command(
    "consumeMessage",
    "Read messages of a topic from an offset or a time onwards.",
    "-t Orders -b broker-a -i 0 -o 5 -c 10",
    TOPIC,
    text_option("-b", "--brokerName", "broker_name", "Name of the broker."),
    int_option("-i", "--queueId", "queue_id", "Queue id.", high=(1 << 31) - 1),
    int_option("-o", "--offset", "offset", "Queue offset of the first message."),
    text_option(
        "-g",
        "--consumerGroup",
        "group",
        "Group to read as. Its offsets do not move.",
        default=messages.GROUP,
    ),
    text_option("-s", "--beginTimestamp", "begin", "Only messages stored at or after this time."),
    text_option("-e", "--endTimestamp", "end", "Only messages stored before this time."),
    int_option(
        "-c",
        "--MessageNumber",
        "limit",
        "Maximum number of messages.",
        low=1,
        high=100_000,
        default=128,
    ),
)
async def consume_message(
    admin: AdminClient,
    topic: str,
    broker_name: str | None,
    queue_id: int | None,
    offset: int | None,
    group: str,
    begin: str | None,
    end: str | None,
    limit: int,
) -> Answer:
    span = parse_span_ms(begin, end)
    if (queue_id is None) != (broker_name is None):
        raise BadInput("only one of -b and -i is given; allowed: both for one queue, or neither")
    if offset is not None and queue_id is None:
        raise BadInput("an offset needs its queue; allowed: -o with -b and -i")
    if broker_name is not None and queue_id is not None:
        queues = {MessageQueue(topic, broker_name, queue_id): await admin.master(broker_name)}
    else:
        queues = await messages.readable_queues(admin, topic)
    return message_table(
        *await _read_queues(
            admin, queues, "*", span, (begin, end), limit, offset=offset, group=group
        )
    )


async def _read_queues(
    admin: AdminClient,
    queues: dict[MessageQueue, str],
    tags: str,
    span: tuple[int, int],
    given: tuple[str | None, str | None],
    limit: int,
    *,
    offset: int | None = None,
    group: str = messages.GROUP,
) -> tuple[list[Message], str]:
    """Return at most `limit` messages, and how many these are in words."""
    limit = limit or NO_LIMIT
    found: list[Message] = []
    for queue, address in queues.items():
        first = await messages.min_offset(admin, address, queue)
        last = await messages.max_offset(admin, address, queue)
        if given[0] is not None:
            first = max(first, await messages.offset_at(admin, address, queue, span[0]))
        found += await messages.read_queue(
            admin,
            address,
            queue,
            max(first, 0 if offset is None else offset),
            last,
            count_max=limit + 1 - len(found),
            is_wanted=lambda message: span[0] <= message.store_timestamp_ms < span[1],
            expression=tags,
            group=group,
        )
        if len(found) > limit:
            return found[:limit], f"the first {limit}; there are more"
    return found, f"{len(found)} messages"


COMMANDS = (print_msg, print_msg_by_queue, consume_message)
