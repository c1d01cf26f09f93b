"""`staticfire admin`: moves the offsets of groups."""

from __future__ import annotations

from staticfire.harness.cli.admin.acting import Effect
from staticfire.harness.cli.admin.answers import Answer, Table
from staticfire.harness.cli.admin.command import (
    TOPIC,
    admin_command,
    done,
    flag_option,
    ignored_option,
    text_option,
)
from staticfire.harness.cli.admin.times import parse_time_ms
from staticfire.system_under_test.admin import AdminClient, offsets


@admin_command(
    "resetOffsetByTime",
    "Reset the offsets of a group to a point in time.",
    "-g billing -t Orders -s 2026-01-31#23:59:00:000",
    text_option("-g", "--group", "group", "Group.", required=True),
    TOPIC,
    text_option(
        "-s",
        "--timestamp",
        "time",
        "Time in milliseconds, now, or yyyy-MM-dd#HH:mm:ss:SSS.",
        required=True,
    ),
    flag_option("-f", "--force", "force", "Also move offsets forward.", default=True),
    ignored_option("-c", "--cplus", is_flag=True),
    effect=Effect.DESTROYS,
    check=lambda values: parse_time_ms(values["time"]),
)
async def reset_offset_by_time(
    admin: AdminClient, group: str, topic: str, time: str, force: bool
) -> Answer:
    """The broker asks online members to reset their offsets. It resets the offsets of an offline group itself."""
    return await _reset(admin, topic, group, parse_time_ms(time), is_force=force)


@admin_command(
    "skipAccumulatedMessage",
    "Set the offsets of a group to the ends of its queues.",
    "-g billing -t Orders",
    text_option("-g", "--group", "group", "Group.", required=True),
    TOPIC,
    flag_option("-f", "--force", "force", "Also move offsets forward.", default=True),
    effect=Effect.DESTROYS,
)
async def skip_accumulated_message(
    admin: AdminClient, group: str, topic: str, force: bool
) -> Answer:
    return await _reset(admin, topic, group, offsets.END_OF_QUEUE_MS, is_force=force)


async def _reset(
    admin: AdminClient, topic: str, group: str, time_ms: int, *, is_force: bool
) -> Answer:
    changes = await offsets.reset_offsets(admin, topic, group, time_ms, is_force=is_force)
    rows = [
        (each.queue.broker_name, each.queue.queue_id, each.before, each.after) for each in changes
    ]
    return Table(("brokerName", "queueId", "before", "offset"), rows)


@admin_command(
    "cloneGroupOffset",
    "Copy the offsets of a group to another group.",
    "-s billing -d billing-2 -t Orders",
    text_option("-s", "--srcGroup", "source", "Group to copy offsets from.", required=True),
    text_option("-d", "--destGroup", "target", "Group to copy offsets to.", required=True),
    TOPIC,
    flag_option(
        "-o", "--offline", "offline", "Whether the source group has no members.", default=False
    ),
    effect=Effect.DESTROYS,
)
async def clone_group_offset(
    admin: AdminClient, source: str, target: str, topic: str, offline: bool
) -> Answer:
    brokers = await offsets.clone_offsets(admin, source, target, topic, offline=offline)
    return done("offsets are copied", source=source, target=target, topic=topic, brokers=brokers)


COMMANDS = (reset_offset_by_time, skip_accumulated_message, clone_group_offset)
