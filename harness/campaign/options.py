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


def _number(meaning: str, low: float, high: float, words: str = "", name: str = "") -> Option:
    return Option(meaning, words or f"{low} to {high}", (low, high), name)


def _share(meaning: str) -> Option:
    return _number(meaning, 0, 1)


def _seconds(meaning: str, low: float = 0) -> Option:
    return _number(meaning, low, TIME_S_MAX, f"{low} to {TIME_S_MAX} seconds")


def _choice(meaning: str, values: tuple[str, ...]) -> Option:
    return Option(meaning, ", ".join(values))


PROPERTIES = "a table of names and values"

# Every field of Campaign.
OPTIONS: Mapping[str, Option] = {
    "seed": _number("decides whatever is not given", 0, SEED_MAX),
    "workload": Option("the question that the load asks", "see `staticfire workloads`"),
    "time_s": Option(
        "seconds in which faults strike and the load runs",
        f"1 to {TIME_S_MAX} seconds",
        (1, TIME_S_MAX),
        "time",
    ),
    "coordinators": Option("number of coordinators (RocketMQ: name servers)", "1 to 9"),
    "followers": Option(
        "followers (RocketMQ: slaves) of each leader (a master); there are as many leaders as numbers",
        "0 to 5 for each leader",
    ),
    "flush": _choice("when a send counts as on the disk", FLUSH_MODES),
    "replication": _choice("when a send counts as on a follower", REPLICATION_MODES),
    "queues": _number("queues of the topic on each broker", 1, 64),
    "producers": _number("producer processes", 1, 64),
    "consumers": _number("members of the consumer group", 1, 64),
    "think_ms": Option(
        "mean pause between two ops of a producer, in milliseconds", "above 0, up to 60000"
    ),
    "payload_bytes": Option("least and greatest size of a body, in bytes", "48 to 4 MiB"),
    "latency_ms": Option(
        "least and greatest base latency of a link in the simulation, in milliseconds; "
        "a packet may take nine times as long, and requests of clients wait 3 s",
        "above 0, up to 70",
    ),
    "fsync_us": _number("how long an fsync takes in the simulation, in microseconds", 1, 10**7),
    "log_file_bytes": Option(
        "size of a file of the commit log", "4096 (and the largest message) to 1 GiB"
    ),
    "faults": Option("kinds of fault that the plan draws from", "see `staticfire faults`"),
    "acks_min": _number("fewer acknowledged messages than this are no verdict", 0, ACKS_MAX),
    "gap_max_s": _number(
        "longest time that a client may go without success, in seconds",
        0,
        86_400,
        "0 (no bound) to 86400 seconds",
    ),
    "plan": Option("which fault strikes when, whom and how", "see [faults.md](faults.md)"),
    "batch_share": _share("share of the ops of producers that are batches"),
    "batch_messages": Option("fewest and most messages of a batch", "1 to 1000"),
    "one_way_share": _share("share of the ops of producers that nothing answers"),
    "quiet_s": _seconds("seconds of load behind the last fault"),
    "idle": Option(
        "from which second on, and for how many seconds, nothing is sent",
        f"0 to the time of the load, and 0 to {TIME_S_MAX}",
    ),
    "large_share": _share("share of single messages whose body is large enough to be compressed"),
    "async_share": _share("share of single sends by the asynchronous interface"),
    "illegal_share": _share("share of ops that brokers must refuse"),
    "strategy": _choice("how the members of a group share queues out", STRATEGIES),
    "acl": Option("whether brokers check signatures and rights", "true, false"),
    "consumer_kind": _choice("what the members of the group are", CONSUMER_KINDS),
    "tls": _choice("which nodes speak TLS: none, every second one, all", TLS_MODES),
    "replica_tls": Option("whether brokers replicate over TLS", "true, false"),
    "environment": _choice("where the nodes run", ENVIRONMENTS),
    "target": _choice("which variant of the system is tested", TARGETS),
    "client": Option("producers and consumers", "own, cpp, or a command"),
    "mode": _choice("by which promises brokers behave and are judged", MODES),
    "policies": Option(
        "in faithful mode only these behaviours of RocketMQ 4.9.8; none: all",
        "see [faithful.md](faithful.md)",
    ),
    "defect": Option(
        "a bug that is planted first", "one of `staticfire bugs`, or the file of a diff"
    ),
    "broker_properties": Option("options of every broker, as in a .properties file", PROPERTIES),
    "coordinator_properties": Option("the same of every coordinator", PROPERTIES),
    "brokers": Option(
        "brokers of an external cluster", "name:id, leaders first, with the target address"
    ),
    "consumer_topics": Option("topics of the consumers in turn", "up to one for each consumer"),
    "expressions": Option(
        "tag expressions of the consumers in turn", "up to one for each consumer"
    ),
    "sends_max": _number(
        "ops of all producers together", 0, ACKS_MAX, f"0 (no bound) to {ACKS_MAX}"
    ),
    "forwarding": Option(
        "how many consumers send on what they are given, and how many consume that",
        "two numbers, with the workload forwarded",
    ),
    "hot_share": _share("share of ordered messages with the key that all producers use"),
    "asked_share": _share(
        "share of transactions whose end producers leave to the broker's question"
    ),
    "immune_share": _share("share of transactions that say for how long brokers must not ask"),
    "auto_topic": Option("whether the first message makes the topic", "true, false"),
    "system": Option("the message queue that is tested", "see [systems.md](systems.md)"),
    "ops": Option(
        "every op of every producer with its time; without it the seed draws them",
        "see [ops](#ops)",
    ),
    "token": Option("part of the names of topic and group in an external cluster", "text"),
}


def check_bounds(campaign: Campaign) -> None:
    """Raises CampaignError for the first option that is a number outside of its bounds."""
    for field, option in OPTIONS.items():
        if option.bounds is not None:
            value = getattr(campaign, field)
            low, high = option.bounds
            require(low <= value <= high, option.name or field, value, option.allowed)
