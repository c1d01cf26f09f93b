"""`staticfire admin`: shows entries of consume queues."""

from __future__ import annotations

from staticfire.harness.cli.admin.answers import Answer, Table
from staticfire.harness.cli.admin.command import (
    TOPIC,
    address_option,
    admin_command,
    int_option,
    text_option,
)
from staticfire.system_under_test.admin import AdminClient, brokers
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.protocol.headers_admin import QueryConsumeQueueHeader


@admin_command(
    "queryCq",
    "Show entries of a consume queue.",
    "-t Orders -q 0 -i 0 -c 10",
    TOPIC,
    int_option("-q", "--queue", "queue_id", "Queue id.", required=True, high=(1 << 31) - 1),
    int_option("-i", "--index", "index", "Offset of the first entry.", required=True),
    int_option("-c", "--count", "count", "Number of entries.", low=1, high=1000, default=10),
    address_option(
        "Address of the broker. Default: the first broker that has the topic.", long="--broker"
    ),
    text_option("-g", "--consumer", "group", "Group whose filter is applied to each entry."),
)
async def query_cq(
    admin: AdminClient,
    topic: str,
    queue_id: int,
    index: int,
    count: int,
    broker: str | None,
    group: str | None,
) -> Answer:
    if broker is None:
        found = await admin.topic_brokers(topic)
        if not found:
            raise AdminError(f"no broker has the topic {topic!r} now")
        broker = next(iter(found.values()))
    header = QueryConsumeQueueHeader(
        topic=topic, queue_id=queue_id, index=index, count=count, consumer_group=group
    )
    page = await brokers.consume_queue(admin, broker, header)
    rows = [
        (index + at, each.physic_offset, each.physic_size, each.tags_code, each.eval, each.msg)
        for at, each in enumerate(page.queue_data)
    ]
    columns = ("index", "physicOffset", "physicSize", "tagsCode", "eval", "msg")
    note = f"the queue on {broker} has {page.min_queue_index} to {page.max_queue_index - 1}"
    return Table(columns, rows, note=note)


COMMANDS = (query_cq,)
