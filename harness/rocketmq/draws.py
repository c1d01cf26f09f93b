"""Draws the campaign options that are RocketMQ's from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from staticfire.faults.model.draws import pick
from staticfire.harness.campaign.campaign import (
    AVERAGELY,
    STRATEGIES,
    TLS_MODES,
    Properties,
)
from staticfire.harness.clients.consumer_kinds import CONSUMER_KINDS, PUSH
from staticfire.harness.generators.illegal_sends import NO_NEW_TOPICS
from staticfire.harness.generators.keyed_sends import LARGE_BYTES
from staticfire.harness.systems.system import Draw
from staticfire.harness.workloads.catalogue import WORKLOADS

ACL_SHARE = 0.1  # share of the seeds with access control
TLS_SHARE = 0.1  # share of the seeds with TLS
SIMULATED_HOSTS = "10.0.0.0/16"  # the nodes of the simulation
PULLING_SHARE = (
    1 / 6
)  # share of the seeds with polling consumers, where the workload needs no listener
ALL_HOURS = ";".join(map(str, range(24)))
NONE_SHARE = 0.5  # share of the campaigns with default properties
EACH_SHARE = 0.3

# Options of brokers under which all promises must still be kept, in groups that belong together. One value of each
# option is drawn.
_GROUPS: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = (
    (("slaveReadEnable", ("true",)), ("accessMessageInMemoryMaxRatio", ("0",))),
    (("longPollingEnable", ("false",)), ("shortPollingTimeMills", ("100", "1000"))),
    (("forceRegister", ("false",)),),
    (("compressedRegister", ("true",)),),
    (("messageIndexEnable", ("false",)),),
    (("sendThreadPoolQueueCapacity", ("2", "16")),),
    (("pullThreadPoolQueueCapacity", ("8", "64")),),
    (("haSlaveFallbehindMax", ("65536", "1048576")),),
    (("brokerFastFailureEnable", ("false",)),),
    (("notifyConsumerIdsChangedEnable", ("false",)),),
    (("flushConsumerOffsetInterval", ("500", "20000")),),
    (("registerNameServerPeriod", ("10000", "60000")),),
    (
        ("maxTransferCountOnMessageInMemory", ("1", "64")),
        ("maxTransferBytesOnMessageInMemory", ("512", "4096")),
    ),
    # Messages that every group has consumed are deleted as soon as their log file is full.
    (("rocketmq.broker.diskSpaceCleanForciblyRatio", ("0",)), ("deleteWhen", (ALL_HOURS,))),
)


def _some_properties(random: Random, drawn: Mapping[str, object]) -> Properties:
    """Draw properties of brokers; none in half of the campaigns, for other products, and where gaps are measured.

    Some options make clients wait (members without notifications find each other after 20 s).
    """
    if drawn["gap_max_s"] or drawn["target"] != "own" or random.random() < NONE_SHARE:
        return ()
    groups = [group for group in _GROUPS if random.random() < EACH_SHARE]
    picked = {name: pick(random, values) for group in groups for name, values in group}
    workload = WORKLOADS.get(str(drawn["workload"]))  # an unknown name is refused later
    if workload is not None and workload.forwards:
        # A forwarder repeats a batch until it gets SEND_OK, which a master never gives for a batch above this size.
        picked.pop("haSlaveFallbehindMax", None)
        # The topic of the copies has more queues than that. One flush wakes all their pulls, and a refused pull pauses.
        picked.pop("pullThreadPoolQueueCapacity", None)
    return tuple(sorted(picked.items()))


def _draw_followers(random: Random, drawn: Mapping[str, object]) -> tuple[int, ...]:
    if drawn["replication"] == "none":
        return (0,) * pick(random, (1, 2, 2, 3))
    shapes: tuple[tuple[int, ...], ...] = ((1,), (1, 1), (1, 1), (2, 1), (1, 1, 1))
    return pick(random, shapes)


def _draw_replication(random: Random, drawn: Mapping[str, Any]) -> str:
    if "followers" in drawn:
        return "sync" if any(drawn["followers"]) else "none"
    return pick(random, ("sync", "sync", "sync", "async", "none"))


def _draw_illegal_share(random: Random, drawn: Mapping[str, object]) -> float:
    """Draw the share of illegal sends; 0 where brokers keep their options, and for clients that cannot send them."""
    if drawn["gap_max_s"] or drawn["target"] != "own" or drawn["client"] != "own":
        return 0.0
    return pick(random, (0.0, 0.0, 0.01, 0.03))


def _draw_large_share(random: Random, drawn: Mapping[str, Any]) -> float:
    """Draw the share of large bodies; 0 where log files are too small for several such messages."""
    if drawn["gap_max_s"] or drawn["log_file_bytes"] < 4 * LARGE_BYTES[1]:
        return 0.0
    return pick(random, (0.0, 0.0, 0.05, 0.15))


def _draw_immune_share(random: Random, drawn: Mapping[str, object]) -> float:
    """Draw the share of transactions that say for how long brokers must not ask; 0 for clients that are not ours."""
    if drawn["workload"] != "transactional" or drawn["client"] != "own":
        return 0.0
    return pick(random, (0.0, 0.0, 0.1, 0.5))


def _draw_broker_properties(random: Random, drawn: Mapping[str, object]) -> Properties:
    """Draw properties; with illegal sends brokers must not make unknown topics, with access control they list hosts."""
    properties = _some_properties(random, drawn)
    if drawn["illegal_share"] and not drawn["auto_topic"]:
        properties = (*properties, NO_NEW_TOPICS)
    if _is_closed(drawn):
        properties = (*properties, ("haAllowedAddresses", SIMULATED_HOSTS))
    return tuple(sorted(properties))


def _coordinator_properties(drawn: Mapping[str, object]) -> Properties:
    """Return properties of name servers; with access control they list which brokers may register."""
    if not _is_closed(drawn):
        return ()
    return (
        ("registerAllowedAddresses", SIMULATED_HOSTS),
        ("registerAllowedClusters", "DefaultCluster"),
    )


def _is_closed(drawn: Mapping[str, object]) -> bool:
    """Whether servers list who may connect: with access control, if the addresses of the nodes are known."""
    return bool(drawn["acl"]) and drawn["environment"] == "simulation"


def _draw_acl(random: Random, drawn: Mapping[str, object]) -> bool:
    """Draw access control; off where gaps are measured, and where the brokers or the clients are not ours."""
    if drawn["gap_max_s"] or drawn["target"] != "own" or drawn["client"] != "own":
        return False
    return random.random() < ACL_SHARE


def _draw_tls(random: Random, drawn: Mapping[str, object]) -> str:
    """Draw TLS; off where gaps are measured, and on real machines, where TLS excludes proxies and their faults."""
    if drawn["gap_max_s"] or drawn["environment"] != "simulation":
        return TLS_MODES[0]
    return pick(random, TLS_MODES[1:]) if random.random() < TLS_SHARE else TLS_MODES[0]


def _draw_strategy(random: Random, drawn: Mapping[str, object]) -> str:
    """Draw the strategy; AVG for other clients than ours, and where gaps are measured: others leave members idle."""
    if drawn["client"] != "own" or drawn["gap_max_s"] or "plan" in drawn:
        return AVERAGELY
    return pick(random, (AVERAGELY, AVERAGELY, AVERAGELY, *STRATEGIES))


def _draw_consumer_kind(random: Random, drawn: Mapping[str, Any]) -> str:
    """Draw the kind of consumer; push for clients that are not ours, and where gaps are measured: pulls have pauses."""
    share = random.random()
    if drawn["client"] != "own" or drawn["gap_max_s"] or "plan" in drawn or share >= PULLING_SHARE:
        return PUSH
    workload = WORKLOADS.get(drawn["workload"])
    asks = bool(drawn.get("expressions"))
    kinds = [
        kind
        for kind in CONSUMER_KINDS
        if kind != PUSH and workload and workload.why_not(kind, has_expressions=asks) is None
    ]
    return pick(random, kinds) if kinds else PUSH


# In this order: the draw of an option may read earlier ones and all options that the core draws.
DRAWS: Mapping[str, Draw] = {
    "flush": lambda random, drawn: pick(random, ("sync", "sync", "sync", "async")),
    "replication": _draw_replication,
    "followers": _draw_followers,
    "coordinators": lambda random, drawn: pick(random, (1, 2, 2, 2, 3)),
    "log_file_bytes": lambda random, drawn: pick(random, (65536, 131072, 262144, 1048576)),
    # A swarm searches for unknown bugs, and faithful mode has known ones. Other products are always judged as faithful.
    "mode": lambda random, drawn: "hardened" if drawn["target"] == "own" else "faithful",
    "strategy": _draw_strategy,
    "large_share": _draw_large_share,
    "illegal_share": _draw_illegal_share,
    "immune_share": _draw_immune_share,
    "acl": _draw_acl,
    "tls": _draw_tls,
    "replica_tls": lambda random, drawn: False,
    "auto_topic": lambda random, drawn: False,
    "broker_properties": _draw_broker_properties,
    "coordinator_properties": lambda random, drawn: _coordinator_properties(drawn),
    "consumer_kind": _draw_consumer_kind,
}
