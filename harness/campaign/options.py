"""The options of a campaign, each declared once: what it means and which values it takes.

`staticfire.harness.draws.limits` checks these bounds; docs/campaigns.md is generated from these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from staticfire.faults.model.params import TIME_S_MAX
from staticfire.harness.campaign.campaign import (
    ENVIRONMENTS,
    FLUSH_MODES,
    MODES,
    REPLICATION_MODES,
    SEED_MAX,
    STRATEGIES,
    TARGETS,
    TLS_MODES,
    Campaign,
)
from staticfire.harness.campaign.require import require
from staticfire.harness.clients.consumer_kinds import CONSUMER_KINDS

ACKS_MAX = 10**9


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Args:
        meaning: what it decides, with its unit.
        allowed: the values that it takes, in words.
        bounds: the least and the greatest number, for an option that is one number; None: checked elsewhere.
        name: the option's name in error messages, where it differs from the field's.
    """

    meaning: str
    allowed: str
    bounds: tuple[float, float] | None = None
    name: str = ""


def _number(meaning: str, low: float, high: float, words: str = "") -> Option:
    return Option(meaning, words or f"{low} to {high}", (low, high))


def _share(meaning: str) -> Option:
    return _number(meaning, 0, 1)


def _seconds(meaning: str) -> Option:
    return _number(meaning, 0, TIME_S_MAX, f"0 to {TIME_S_MAX} seconds")


def _choice(meaning: str, values: tuple[str, ...]) -> Option:
    return Option(meaning, ", ".join(values))


PROPERTIES = "a table of names and values"

# Every field of Campaign.
OPTIONS: Mapping[str, Option] = {
    "seed": _number("decides every option that is not given", 0, SEED_MAX),
    "workload": Option("the load and the property that it tests", "see `staticfire workloads`"),
    "time_s": Option(
        "duration of the load and the faults, in seconds",
        f"1 to {TIME_S_MAX} seconds",
        (1, TIME_S_MAX),
        "time",
    ),
    "coordinators": Option("number of coordinators (RocketMQ: name servers)", "1 to 9"),
    "followers": Option(
        "number of followers of each leader, one number per leader (RocketMQ: slaves and masters)",
        "0 to 5 for each leader",
    ),
    "flush": _choice("flush mode of the brokers", FLUSH_MODES),
    "replication": _choice("replication mode of the brokers", REPLICATION_MODES),
    "queues": _number("number of queues of the topic on each broker", 1, 64),
    "producers": _number("number of producers", 1, 64),
    "consumers": _number("number of members of the consumer group", 1, 64),
    "think_ms": Option(
        "mean pause between two ops of a producer, in milliseconds", "above 0, up to 60000"
    ),
    "payload_bytes": Option("minimum and maximum size of a message body, in bytes", "48 to 4 MiB"),
    "latency_ms": Option(
        "minimum and maximum base latency of a link in the simulation, in milliseconds; "
        "a packet may take up to nine times as long, and client requests time out after 3 s",
        "above 0, up to 70",
    ),
    "fsync_us": _number("duration of an fsync in the simulation, in microseconds", 1, 10**7),
    "log_file_bytes": Option(
        "size of a commit log file, in bytes", "4096 (and the largest message) to 1 GiB"
    ),
    "faults": Option("kinds of fault from which the plan is drawn", "see `staticfire faults`"),
    "acks_min": _number(
        "minimum number of acknowledged messages; with fewer, the verdict is unknown", 0, ACKS_MAX
    ),
    "gap_max_s": _number(
        "maximum time that a client may go without success, in seconds",
        0,
        86_400,
        "0 (no bound) to 86400 seconds",
    ),
    "plan": Option("the faults: kind, time, targets and parameters", "see [faults.md](faults.md)"),
    "batch_share": _share("share of producer ops that are batches"),
    "batch_messages": Option("minimum and maximum number of messages in a batch", "1 to 1000"),
    "one_way_share": _share("share of producer ops that are one-way sends"),
    "quiet_s": _seconds("duration of the load after the last fault, in seconds"),
    "idle": Option(
        "start and duration of a pause in which nothing is sent, in seconds",
        f"0 to the time of the load, and 0 to {TIME_S_MAX}",
    ),
    "large_share": _share("share of single messages with a body large enough to be compressed"),
    "async_share": _share("share of single sends that use the asynchronous interface"),
    "illegal_share": _share("share of ops that brokers must refuse"),
    "strategy": _choice("how the members of a group divide the queues", STRATEGIES),
    "acl": Option("whether brokers check signatures and rights", "true, false"),
    "consumer_kind": _choice("kind of the group's members", CONSUMER_KINDS),
    "tls": _choice("which nodes use TLS: none, every second node, or all", TLS_MODES),
    "replica_tls": Option("whether brokers replicate over TLS", "true, false"),
    "environment": _choice("where the nodes run", ENVIRONMENTS),
    "target": _choice("variant of the system under test", TARGETS),
    "client": Option("implementation of producers and consumers", "own, cpp, or a command"),
    "mode": _choice("the promises that brokers keep and are judged by", MODES),
    "policies": Option(
        "in faithful mode, only these behaviours of RocketMQ 4.9.8; an empty list: all",
        "see [faithful.md](faithful.md)",
    ),
    "defect": Option("a bug to plant first", "one of `staticfire bugs`, or the file of a diff"),
    "broker_properties": Option("properties of every broker, as in a .properties file", PROPERTIES),
    "coordinator_properties": Option("properties of every coordinator", PROPERTIES),
    "brokers": Option(
        "brokers of an external cluster", "name:id, leaders first, with the target address"
    ),
    "consumer_topics": Option(
        "topics of the consumers, assigned in turn", "at most one for each consumer"
    ),
    "expressions": Option(
        "tag expressions of the consumers, assigned in turn", "at most one for each consumer"
    ),
    "sends_max": _number(
        "maximum number of ops of all producers together",
        0,
        ACKS_MAX,
        f"0 (no bound) to {ACKS_MAX}",
    ),
    "forwarding": Option(
        "number of consumers that forward messages, and number that consume the forwarded messages",
        "two numbers, with the workload forwarded",
    ),
    "hot_share": _share("share of ordered messages whose key is shared by all producers"),
    "asked_share": _share(
        "share of transactions whose outcome producers give only when the broker asks"
    ),
    "immune_share": _share(
        "share of transactions that set a time during which brokers must not ask"
    ),
    "auto_topic": Option("whether the first message creates the topic", "true, false"),
    "system": Option("the message queue under test", "see [systems.md](systems.md)"),
    "ops": Option(
        "every op of every producer, with its time; if missing, the seed draws the ops",
        "see [ops](#ops)",
    ),
    "token": Option("part of the topic and group names in an external cluster", "text"),
}


def check_bounds(campaign: Campaign) -> None:
    """Raises CampaignError for the first option that is a number outside of its bounds."""
    for field, option in OPTIONS.items():
        if option.bounds is not None:
            value = getattr(campaign, field)
            low, high = option.bounds
            require(low <= value <= high, option.name or field, value, option.allowed)
