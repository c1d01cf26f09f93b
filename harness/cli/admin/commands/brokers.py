"""`staticfire admin`: brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import click

from staticfire.harness.cli.admin.acting import Effect
from staticfire.harness.cli.admin.answers import Answer, Table, time_text
from staticfire.harness.cli.admin.command import (
    BROKER,
    CLUSTER,
    Values,
    address_option,
    admin_command,
    check_target,
    done,
    flag_option,
    ignored_option,
    int_option,
    one_target,
    targets,
    text_option,
)
from staticfire.harness.cli.admin.commands.name_servers import check_property
from staticfire.system_under_test.admin import AdminClient, brokers
from staticfire.system_under_test.admin.errors import AdminError

# Statistics that are columns of clusterList
IN_TPS, OUT_TPS = "putTps", "getTransferedTps"  # each "t10 t60 t600", messages a second
COLUMNS = (
    "cluster",
    "brokerName",
    "brokerId",
    "address",
    "version",
    "inTps",
    "outTps",
    "diskRatio",
    "oldest",
    "error",
)
TOTALS = (
    "cluster",
    "brokerName",
    "brokerId",
    "inTotalYesterday",
    "outTotalYesterday",
    "inTotalToday",
    "outTotalToday",
    "error",
)


@admin_command(
    "clusterList",
    "List the brokers of all clusters.",
    "",
    click.option(
        "-m",
        "--moreStats",
        "is_totals",
        is_flag=True,
        help="Show the numbers of messages in and out of yesterday and today.",
    ),
)
async def cluster_list(admin: AdminClient, is_totals: bool) -> Answer:
    columns, figures = (TOTALS, _totals) if is_totals else (COLUMNS, _figures)
    rows: list[tuple[object, ...]] = []
    for broker in await admin.brokers():
        for broker_id in sorted(broker.broker_addrs):
            address = broker.broker_addrs[broker_id]
            head = (
                broker.cluster,
                broker.broker_name,
                broker_id,
                *(() if is_totals else (address,)),
            )
            try:
                info = await brokers.runtime_info(admin, address)
            except AdminError as error:
                unknown = [None] * (len(columns) - len(head) - 1)
                rows.append((*head, *unknown, str(error)))
            else:
                rows.append((*head, *figures(info), None))
    if all(row[-1] is None for row in rows):
        return Table(columns[:-1], [row[:-1] for row in rows])
    return Table(columns, rows)


def _totals(info: dict[str, str]) -> tuple[object, ...]:
    """Return the messages in and out of yesterday, then of today, from the counts at three moments."""
    yesterday, today, now = (
        [_count(info, f"msg{way}Total{moment}") for way in ("Put", "Get")]
        for moment in ("YesterdayMorning", "TodayMorning", "TodayNow")
    )
    return (*_differences(yesterday, today), *_differences(today, now))


def _count(info: dict[str, str], name: str) -> int | None:
    text = info.get(name, "")
    return int(text) if text.isdigit() else None


def _differences(before: list[int | None], after: list[int | None]) -> list[int | None]:
    return [
        None if early is None or late is None else late - early
        for early, late in zip(before, after, strict=True)
    ]


def _figures(info: dict[str, str]) -> tuple[object, ...]:
    earliest = info.get("earliestMessageTimeStamp", "")
    return (
        info.get("brokerVersionDesc"),
        first_rate(info.get(IN_TPS, "")),
        first_rate(info.get(OUT_TPS, "")),
        first_rate(info.get("commitLogDiskRatio", "")),
        time_text(int(earliest)) if earliest.isdigit() else None,
    )


def first_rate(text: str) -> float | None:
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return None


@admin_command(
    "brokerStatus", "Show the statistics of brokers.", "-b 127.0.0.1:10911", BROKER, CLUSTER
)
async def broker_status(admin: AdminClient, broker: str | None, cluster: str | None) -> Answer:
    one_target(broker, cluster)
    rows = [
        (address, name, value)
        for address in await targets(admin, broker, cluster)
        for name, value in sorted((await brokers.runtime_info(admin, address)).items())
    ]
    return Table(("broker", "key", "value"), rows)


@admin_command(
    "brokerConsumeStats",
    "Show the progress of all groups on one broker.",
    "-b 127.0.0.1:10911",
    address_option("Address of the broker.", required=True),
    flag_option("-o", "--order", "order", "Only ordered topics.", default=False),
    int_option("-l", "--level", "level", "Only queues with at least this lag.", default=0),
    ignored_option("-t", "--timeoutMillis"),
)
async def broker_consume_stats(admin: AdminClient, broker: str, order: bool, level: int) -> Answer:
    found = await brokers.consume_stats(admin, broker, is_order=order)
    rows = [
        (
            queue.topic,
            group,
            queue.broker_name,
            queue.queue_id,
            position.broker_offset,
            position.consumer_offset,
            position.lag,
            time_text(position.last_timestamp),
        )
        for entry in found.consume_stats_list
        for group, stats in sorted(entry.items())
        for one in stats
        for queue, position in sorted(one.offset_table.items(), key=lambda item: item[0])
        if position.lag >= level
    ]
    columns = (
        "topic",
        "group",
        "brokerName",
        "queueId",
        "brokerOffset",
        "consumerOffset",
        "lag",
        "lastTime",
    )
    return Table(columns, rows, note=f"{found.total_diff} behind")


@admin_command(
    "getBrokerConfig",
    "Show the configuration of brokers.",
    "-b 127.0.0.1:10911",
    BROKER,
    CLUSTER,
)
async def get_broker_config(admin: AdminClient, broker: str | None, cluster: str | None) -> Answer:
    one_target(broker, cluster)
    rows = []
    for address in await targets(admin, broker, cluster):
        for line in sorted((await brokers.broker_config(admin, address)).splitlines()):
            if line and not line.startswith("#"):
                name, _, value = line.partition("=")
                rows.append((address, name, value))
    return Table(("address", "key", "value"), rows)


def _check_change(values: Values) -> None:
    check_target(values)
    check_property(values["key"], values["value"])


@admin_command(
    "updateBrokerConfig",
    "Change one property of brokers while they run.",
    "-b 127.0.0.1:10911 -k brokerPermission -v 4",
    BROKER,
    CLUSTER,
    text_option("-k", "--key", "key", "Key.", required=True),
    text_option("-v", "--value", "value", "Value.", required=True),
    effect=Effect.DESTROYS,
    check=_check_change,
)
async def update_broker_config(
    admin: AdminClient, broker: str | None, cluster: str | None, key: str, value: str
) -> Answer:
    addresses = await targets(admin, broker, cluster)
    for address in addresses:
        await brokers.update_broker_config(admin, address, key, value)
    return done("configuration is changed", key=key, value=value, brokers=addresses)


Job = Callable[[AdminClient, str], Awaitable[None]]


def _check_cleaning(values: Values) -> None:
    if values["broker"] is not None:
        check_target(values)


def _cleaning(name: str, summary: str, job: Job) -> click.Command:
    @admin_command(
        name,
        summary,
        "-b 127.0.0.1:10911",
        BROKER,
        text_option("-c", "--cluster", "cluster", "All masters of this cluster."),
        effect=Effect.DESTROYS,
        check=_check_cleaning,
    )
    async def clean(admin: AdminClient, broker: str | None, cluster: str | None) -> Answer:
        """Clean one broker with -b, the masters of one cluster with -c, or otherwise all masters."""
        addresses = await targets(admin, broker, cluster)
        for address in addresses:
            await job(admin, address)
        return done("requests are sent", brokers=addresses)

    return clean


@admin_command(
    "liftCatchUp",
    "Let a master accept sends before it has heard from all its slaves.",
    "-b 127.0.0.1:10911",
    address_option("Address of the master.", required=True),
    effect=Effect.DESTROYS,
)
async def lift_catch_up(admin: AdminClient, broker: str) -> Answer:
    """Messages that only the missing slaves have are lost. RocketMQ has no such command."""
    await brokers.lift_catch_up(admin, broker)
    return done("catch-up is lifted", broker=broker)


COMMANDS = (
    cluster_list,
    broker_status,
    broker_consume_stats,
    get_broker_config,
    update_broker_config,
    _cleaning(
        "cleanExpiredCQ",
        "Delete consume queues without messages.",
        brokers.clean_expired_consume_queues,
    ),
    _cleaning(
        "cleanUnusedTopic", "Delete the queues of deleted topics.", brokers.clean_unused_topics
    ),
    _cleaning(
        "deleteExpiredCommitLog",
        "Delete expired commit log files now.",
        brokers.delete_expired_commit_log,
    ),
    lift_catch_up,
)
