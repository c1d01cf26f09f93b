"""`staticfire admin`: the members of consumer and producer groups."""

from __future__ import annotations

from staticfire.harness.cli.admin.answers import Answer, Record, Table, time_text
from staticfire.harness.cli.admin.command import (
    address_option,
    admin_command,
    ignored_option,
    text_option,
)
from staticfire.system_under_test.admin import AdminClient, groups
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.protocol.bodies_clients import ClientConnection
from staticfire.system_under_test.protocol.versions import version_name

CONNECTION_COLUMNS = ("clientId", "clientAddr", "language", "version")


@admin_command(
    "consumerConnection",
    "Show the members of a consumer group and their subscriptions.",
    "-g billing",
    text_option("-g", "--consumerGroup", "group", "Group.", required=True),
    address_option("Ask this broker."),
)
async def consumer_connection(admin: AdminClient, group: str, broker: str | None) -> Answer:
    found = await groups.consumer_connections(admin, group, broker)
    subscriptions = ", ".join(
        f"{topic} {data.sub_string}" for topic, data in sorted(found.subscription_table.items())
    )
    note = (
        f"{found.consume_type}, {found.message_model}, {found.consume_from_where};"
        f" subscriptions: {subscriptions or 'none'}"
    )
    return _connections(found.connection_set, found.to_json(), note)


def _connections(members: list[ClientConnection], document: object, note: str = "") -> Answer:
    """Return the members as a table; in JSON, the whole answer of the broker."""
    rows = [
        (each.client_id, each.client_addr, each.language, version_name(each.version))
        for each in members
    ]
    return Table(CONNECTION_COLUMNS, rows, note=note, document=document)


@admin_command(
    "producerConnection",
    "Show the members of a producer group.",
    "-g shop",
    text_option("-g", "--producerGroup", "group", "Group.", required=True),
    ignored_option("-t", "--topic"),
)
async def producer_connection(admin: AdminClient, group: str) -> Answer:
    found = await groups.producer_connections(admin, group)
    return _connections(found.connection_set, found.to_json())


@admin_command(
    "producer",
    "List the producers that are connected to a broker.",
    "-b 127.0.0.1:10911",
    address_option("Address of the broker.", required=True, long="--broker"),
)
async def producer(admin: AdminClient, broker: str) -> Answer:
    rows = [
        (
            group,
            each.client_id,
            each.remote_ip,
            each.language,
            version_name(each.version),
            time_text(each.last_update_timestamp),
        )
        for group, members in sorted((await groups.all_producers(admin, broker)).data.items())
        for each in members
    ]
    return Table(("group", "clientId", "remoteIP", "language", "version", "lastUpdated"), rows)


@admin_command(
    "consumerStatus",
    "Show the state that the members of a consumer group report.",
    "-g billing",
    text_option("-g", "--consumerGroup", "group", "Group.", required=True),
    text_option("-i", "--clientId", "client_id", "Only this member, with its queues."),
    address_option("Ask this broker."),
    ignored_option("-s", "--jstack", is_flag=True),
)
async def consumer_status(
    admin: AdminClient, group: str, client_id: str | None, broker: str | None
) -> Answer:
    if client_id is not None:
        info = await groups.running_info(admin, group, client_id, broker)
        return _running_record(client_id, info.to_json())
    rows: list[tuple[object, ...]] = []
    for member in (await groups.consumer_connections(admin, group, broker)).connection_set:
        version = version_name(member.version)
        try:
            info = await groups.running_info(admin, group, member.client_id, broker)
        except AdminError as error:
            rows.append((member.client_id, member.language, version, None, str(error)))
        else:
            queues = len(info.mq_table)
            rows.append((member.client_id, member.language, version, queues, None))
    return Table(("clientId", "language", "version", "queues", "error"), rows)


def _running_record(client_id: str, document: dict[str, object]) -> Answer:
    queues = document.pop("mqTable", {})
    assert isinstance(queues, dict)
    table = [
        {**queue.to_json(), **state}
        if hasattr(queue, "to_json")
        else {"queue": str(queue), **state}
        for queue, state in queues.items()
    ]
    return Record({"clientId": client_id, **document, "mqTable": table})


COMMANDS = (consumer_connection, producer_connection, producer, consumer_status)
