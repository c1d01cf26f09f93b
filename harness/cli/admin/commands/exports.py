"""`staticfire admin`: exports configurations, metadata and metrics of a cluster as files in mqadmin's form."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from staticfire.harness.cli.admin.answers import Answer, Record
from staticfire.harness.cli.admin.command import (
    Values,
    address_option,
    admin_command,
    text_option,
)
from staticfire.harness.cli.admin.commands.brokers import first_rate
from staticfire.harness.cli.status import BadInput, HarnessError
from staticfire.system_under_test.admin import AdminClient, brokers, groups
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.admin.user_tables import user_groups, user_topics
from staticfire.system_under_test.configuration.java_properties import parse_properties
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from staticfire.system_under_test.protocol.bodies_clients import BrokerStats
from staticfire.system_under_test.protocol.json_pretty import dumps_pretty
from staticfire.system_under_test.protocol.versions import version_name

FOLDER = "/tmp/rocketmq/export"
ONE_CLUSTER = text_option("-c", "--clusterName", "cluster", "Cluster.", required=True)
FILE_PATH = text_option("-f", "--filePath", "folder", "Folder for the file.", default=FOLDER)
MASTER_ID = 0

# The options of a master that exportConfigs writes.
OPTIONS = (
    "autoCreateSubscriptionGroup",
    "autoCreateTopicEnable",
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
)
PUT_NUMBERS = "TOPIC_PUT_NUMS"
HALF_TOPIC, SCHEDULE_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"


def _write(folder: str, name: str, document: dict[str, object]) -> Answer:
    """Raises HarnessError if the file cannot be written."""
    path = Path(folder, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dumps_pretty(document))
    except OSError as error:
        raise HarnessError(f"{path} cannot be written: {error.strerror}") from error
    return Record({"export": str(path)})


async def _options(admin: AdminClient, address: str) -> dict[str, str]:
    return parse_properties(await brokers.broker_config(admin, address))


@admin_command(
    "exportConfigs",
    "Write the size of a cluster and the main options of its masters to configs.json.",
    "-c DefaultCluster -f /tmp/export",
    ONE_CLUSTER,
    FILE_PATH,
)
async def export_configs(admin: AdminClient, cluster: str, folder: str) -> Answer:
    of_brokers, slaves = {}, 0
    for broker in await admin.brokers(cluster):
        slaves += sum(number != MASTER_ID for number in broker.broker_addrs)
        if MASTER_ID in broker.broker_addrs:
            found = await _options(admin, broker.broker_addrs[MASTER_ID])
            of_brokers[broker.broker_name] = {
                name: found[name] for name in OPTIONS if name in found
            }
    scale = {
        "masterBrokerSize": len(of_brokers),
        "namesrvSize": len(admin.name_servers),
        "slaveBrokerSize": slaves,
    }
    return _write(folder, "configs.json", {"brokerConfigs": of_brokers, "clusterScale": scale})


def _check_metadata(values: Values) -> None:
    if (values["broker"] is None) == (values["cluster"] is None):
        given = "neither is" if values["broker"] is None else "both are"
        raise BadInput(f"{given} given; allowed: either -b ADDRESS or -c CLUSTER")
    if values["only_topics"] and values["only_groups"]:
        raise BadInput("both -t and -g are given; allowed: one of them, or with -c neither")
    if values["broker"] is not None and not (values["only_topics"] or values["only_groups"]):
        raise BadInput("-b is given without -t and -g; allowed: one of them")


@admin_command(
    "exportMetadata",
    "Write topics and consumer groups to metadata.json, topic.json or subscriptionGroup.json.",
    "-c DefaultCluster -f /tmp/export",
    text_option("-c", "--clusterName", "cluster", "The sum over all masters of this cluster."),
    address_option("One broker, with -t or -g."),
    FILE_PATH,
    click.option("-t", "--topic", "only_topics", is_flag=True, help="Export only topics."),
    click.option(
        "-g", "--subscriptionGroup", "only_groups", is_flag=True, help="Export only groups."
    ),
    click.option(
        "-s",
        "--specialTopic",
        "special",
        is_flag=True,
        help="Include retry and dead letter topics.",
    ),
    check=_check_metadata,
)
async def export_metadata(
    admin: AdminClient,
    cluster: str | None,
    broker: str | None,
    folder: str,
    only_topics: bool,
    only_groups: bool,
    special: bool,
) -> Answer:
    if broker is not None:
        if only_topics:
            topics = await user_topics(admin, broker, with_special=special)
            return _write(folder, "topic.json", topics.to_json())
        return _write(
            folder, "subscriptionGroup.json", (await user_groups(admin, broker)).to_json()
        )
    document: dict[str, object] = {"exportTime": time.time_ns() // 1_000_000}
    masters = (await admin.masters(cluster)).values()
    if not only_topics:
        document["subscriptionGroupTable"] = await _groups(admin, masters)
    if not only_groups:
        document["topicConfigTable"] = await _topics(admin, masters, special=special)
    name = (
        "topic.json"
        if only_topics
        else "subscriptionGroup.json"
        if only_groups
        else "metadata.json"
    )
    return _write(folder, name, document)


async def _topics(admin: AdminClient, masters: Any, *, special: bool) -> dict[str, Any]:
    """Return the topics of all masters, with the sums of their queues."""
    found: dict[str, TopicConfig] = {}
    for address in masters:
        table = await user_topics(admin, address, with_special=special)
        for name, topic in table.topics.items():
            before = found.get(name)
            if before is not None:
                topic = replace(
                    topic,
                    read_queue_nums=before.read_queue_nums + topic.read_queue_nums,
                    write_queue_nums=before.write_queue_nums + topic.write_queue_nums,
                )
            found[name] = topic
    return {name: topic.to_json() for name, topic in sorted(found.items())}


async def _groups(admin: AdminClient, masters: Any) -> dict[str, Any]:
    """Return the groups of all masters, with the sums of their retry queues."""
    found: dict[str, SubscriptionGroupConfig] = {}
    for address in masters:
        for name, group in (await user_groups(admin, address)).groups.items():
            before = found.get(name)
            if before is not None:
                queues = before.retry_queue_nums + group.retry_queue_nums
                group = replace(group, retry_queue_nums=queues)
            found[name] = group
    return {name: group.to_json() for name, group in sorted(found.items())}


@admin_command(
    "exportMetrics",
    "Write the rates, message counts and disk usage of a cluster's masters to metrics.json.",
    "-c DefaultCluster -f /tmp/export",
    ONE_CLUSTER,
    FILE_PATH,
)
async def export_metrics(admin: AdminClient, cluster: str, folder: str) -> Answer:
    report, rates, amounts = {}, [], []
    for name, address in (await admin.masters(cluster)).items():
        report[name] = await _metrics(admin, address)
        rates.append(report[name]["runtimeQuota"]["tps"])
        amounts.append(report[name]["runtimeQuota"]["oneDayNum"])
    total_rates = {
        f"total{key[0].upper()}{key[1:]}": sum(each[key] for each in rates) for key in rates[0]
    }
    total_amounts = {key: sum(each[key] for each in amounts) for key in amounts[0]}
    totals = {"totalOneDayNum": total_amounts, "totalTps": total_rates}
    return _write(folder, "metrics.json", {"evaluateReport": report, "totalData": totals})


async def _metrics(admin: AdminClient, address: str) -> dict[str, Any]:
    """Return the metrics (RocketMQ: ExportMetricsCommand). A value that a broker does not report is 0 or omitted."""
    info, options = await brokers.runtime_info(admin, address), await _options(admin, address)
    of_groups = (await user_groups(admin, address)).groups
    halves = await _put_numbers(admin, address, HALF_TOPIC)
    delayed = await _put_numbers(admin, address, SCHEDULE_TOPIC)
    quota = {
        "diskRatio": _given(info, "commitLogDiskRatio", "consumeQueueDiskRatio"),
        "groupSize": len(of_groups),
        "messageAverageSize": info.get("putMessageAverageSize"),
        "oneDayNum": {
            "normalOneDayInNum": _of_yesterday(info, "msgPutTotal"),
            "normalOneDayOutNum": _of_yesterday(info, "msgGetTotal"),
            "scheduleOneDayInNum": _day_sum(delayed),
            "transOneDayInNum": _day_sum(halves),
        },
        "topicSize": len((await user_topics(admin, address)).topics),
        "tps": {
            "normalInTps": first_rate(info.get("putTps", "")) or 0.0,
            "normalOutTps": first_rate(info.get("getTransferedTps", "")) or 0.0,
            "scheduleInTps": delayed.stats_minute.tps,
            "transInTps": halves.stats_minute.tps,
        },
    }
    env = {"cpuNum": options.get("clientCallbackExecutorThreads"), **_given(info, "totalMemKBytes")}
    return {
        "runtimeEnv": env,
        "runtimeQuota": quota,
        "runtimeVersion": {
            "clientInfo": await _clients(admin, list(of_groups)),
            "rocketmqVersion": info.get("brokerVersionDesc"),
        },
    }


def _given(info: dict[str, str], *names: str) -> dict[str, str]:
    return {name: info[name] for name in names if name in info}


def _of_yesterday(info: dict[str, str], name: str) -> int:
    """Return the number of messages between two midnights."""
    try:
        return int(info[f"{name}TodayMorning"]) - int(info[f"{name}YesterdayMorning"])
    except (KeyError, ValueError):
        return 0


async def _put_numbers(admin: AdminClient, address: str, topic: str) -> BrokerStats:
    try:
        return await brokers.stats(admin, address, PUT_NUMBERS, topic)
    except AdminError as error:
        if error.code is None:
            raise
        return BrokerStats()  # the broker has never counted this


def _day_sum(stats: BrokerStats) -> int:
    """Return the sum of the longest window that has data."""
    return stats.stats_day.sum or stats.stats_hour.sum or stats.stats_minute.sum


async def _clients(admin: AdminClient, names: list[str]) -> list[str]:
    """Return languages and versions of the connected members: `JAVA%V4_9_8`."""
    found: set[str] = set()
    for name in names:
        try:
            members = (await groups.consumer_connections(admin, name)).connection_set
        except AdminError as error:
            if error.code is None:
                raise
            continue  # the group has no member
        found.update(f"{each.language}%{version_name(each.version)}" for each in members)
    return sorted(found)


COMMANDS = (export_configs, export_metadata, export_metrics)
