"""`staticfire admin`: consumer and producer groups."""

from __future__ import annotations

from staticfire.harness.cli.admin.acting import Effect, changes_in_words
from staticfire.harness.cli.admin.answers import Answer, Table, time_text
from staticfire.harness.cli.admin.command import (
    BROKER,
    CLUSTER,
    GROUP,
    Values,
    admin_command,
    check_target,
    done,
    flag_option,
    int_option,
    named_targets,
    targets,
    text_option,
)
from staticfire.system_under_test.admin import AdminClient, groups
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.headers import TopicHeader


def _wanted(values: Values) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(
        group_name=values["group"],
        consume_enable=values["consume_enable"],
        consume_from_min_enable=values["from_min"],
        consume_broadcast_enable=values["broadcast"],
        retry_queue_nums=values["retry_queues"],
        retry_max_times=values["retries"],
        broker_id=values["broker_id"],
        which_broker_when_consume_slowly=values["slow_broker_id"],
        notify_consumer_ids_changed_enable=values["notify"],
    )


async def _overwritten(admin: AdminClient, values: Values) -> list[str]:
    """Raises AdminError."""
    group, there = values["group"], {}
    addresses = await named_targets(admin, values["broker"], values["cluster"])
    for name, address in addresses.items():
        if (found := (await groups.group_configs(admin, address)).get(group)) is not None:
            there[name] = found.to_json()
    return changes_in_words(f"group {group!r}", there, _wanted(values).to_json())


@admin_command(
    "updateSubGroup",
    "Create or change a consumer group.",
    "-c DefaultCluster -g billing -r 3",
    BROKER,
    CLUSTER,
    GROUP,
    flag_option(
        "-s", "--consumeEnable", "consume_enable", "Whether the group may consume.", default=True
    ),
    flag_option(
        "-m",
        "--consumeFromMinEnable",
        "from_min",
        "Whether the group may start at the minimum offset.",
        default=False,
    ),
    flag_option(
        "-d",
        "--consumeBroadcastEnable",
        "broadcast",
        "Whether the group may consume in broadcasting mode.",
        default=False,
    ),
    int_option(
        "-q", "--retryQueueNums", "retry_queues", "Number of retry queues.", high=1 << 15, default=1
    ),
    int_option(
        "-r",
        "--retryMaxTimes",
        "retries",
        "Maximum number of retries before a message becomes a dead letter.",
        high=1 << 30,
        default=16,
    ),
    int_option("-i", "--brokerId", "broker_id", "Id of the broker to read from.", default=0),
    int_option(
        "-w",
        "--whichBrokerWhenConsumeSlowly",
        "slow_broker_id",
        "Id of the broker for slow consumers.",
        default=1,
    ),
    flag_option(
        "-a",
        "--notifyConsumerIdsChanged",
        "notify",
        "Notify members when membership changes.",
        default=True,
    ),
    effect=Effect.CHANGES,
    check=check_target,
    overwrites=_overwritten,
)
async def update_sub_group(
    admin: AdminClient, broker: str | None, cluster: str | None, **settings: object
) -> Answer:
    """Act on one broker with -b, or all masters of a cluster with -c. An existing group gets all of these settings."""
    config = _wanted(settings)
    addresses = await targets(admin, broker, cluster)
    for address in addresses:
        await groups.update_group(admin, address, config)
    return done("group is set", group=config.group_name, brokers=addresses)


@admin_command(
    "deleteSubGroup",
    "Delete a consumer group.",
    "-c DefaultCluster -g billing -r true",
    BROKER,
    CLUSTER,
    GROUP,
    flag_option("-r", "--removeOffset", "remove_offset", "Also delete its offsets.", default=False),
    effect=Effect.DESTROYS,
    check=check_target,
)
async def delete_sub_group(
    admin: AdminClient, broker: str | None, cluster: str | None, group: str, remove_offset: bool
) -> Answer:
    """With -c, also delete its retry topic and its dead letter topic."""
    addresses = await targets(admin, broker, cluster)
    for address in addresses:
        await groups.delete_group(admin, address, group, remove_offset=remove_offset)
    if cluster is not None:
        for prefix in (groups.RETRY_PREFIX, groups.DEAD_LETTER_PREFIX):
            await _delete_topic(admin, addresses, prefix + group, cluster)
    return done("group is deleted", group=group, brokers=addresses)


async def _delete_topic(admin: AdminClient, masters: list[str], topic: str, cluster: str) -> None:
    for address in masters:
        header = TopicHeader(topic=topic)
        await admin.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, header)
    where = {"topic": topic, "clusterName": cluster}
    await admin.ask_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, where)


@admin_command(
    "getConsumerConfig", "Show the configuration of a consumer group.", "-g billing", GROUP
)
async def get_consumer_config(admin: AdminClient, group: str) -> Answer:
    rows = []
    columns: tuple[str, ...] = ("brokerName",)
    for name, address in (await admin.masters()).items():
        config = (await groups.group_configs(admin, address)).get(group)
        if config is not None:
            document = config.to_json()
            columns = ("brokerName", *document)
            rows.append((name, *document.values()))
    if not rows:
        raise AdminError(f"no master has a group {group!r}")
    return Table(columns, rows)


@admin_command(
    "consumerProgress",
    "Show the progress of one group in each queue, or of all groups.",
    "-g billing",
    text_option("-g", "--groupName", "group", "Group. Default: all groups."),
    text_option("-t", "--topicName", "topic", "Only this topic."),
    flag_option(
        "-s", "--showClientIP", "show_clients", "Show the owner of each queue.", default=False
    ),
)
async def consumer_progress(
    admin: AdminClient, group: str | None, topic: str | None, show_clients: bool
) -> Answer:
    if group is None:
        return await _all_progress(admin)
    stats = await groups.progress(admin, group, topic)
    if not stats.offset_table and group not in await groups.all_groups(admin):
        raise AdminError(f"no master has a group {group!r}")
    owners = await _owners(admin, group) if show_clients else {}
    rows = [
        (
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            position.broker_offset,
            position.consumer_offset,
            *((owners.get(queue),) if show_clients else ()),
            position.lag,
            time_text(position.last_timestamp),
        )
        for queue, position in stats.offset_table.items()
    ]
    client = ("clientId",) if show_clients else ()
    columns = ("topic", "brokerName", "queueId", "brokerOffset", "consumerOffset", *client)
    note = f"{stats.consume_tps:.2f} messages a second; {stats.total_lag} behind"
    return Table((*columns, "lag", "lastTime"), rows, note=note)


async def _owners(admin: AdminClient, group: str) -> dict[object, str]:
    """Return the owning client id by queue, as far as members answer."""
    owners: dict[object, str] = {}
    for member in (await groups.consumer_connections(admin, group)).connection_set:
        try:
            info = await groups.running_info(admin, group, member.client_id)
        except AdminError:
            continue  # the member has ended, or does not support the request
        owners.update(dict.fromkeys(info.mq_table, member.client_id))
    return owners


async def _all_progress(admin: AdminClient) -> Answer:
    rows = []
    for group in await groups.all_groups(admin):
        stats = await groups.progress(admin, group)
        members, kind, model = 0, None, None
        try:
            online = await groups.consumer_connections(admin, group)
        except AdminError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
        else:
            members, kind, model = (
                len(online.connection_set),
                online.consume_type,
                online.message_model,
            )
        rows.append((group, members, kind, model, stats.consume_tps, stats.total_lag))
    return Table(("group", "members", "type", "model", "tps", "lag"), rows)


COMMANDS = (
    update_sub_group,
    delete_sub_group,
    get_consumer_config,
    consumer_progress,
)
