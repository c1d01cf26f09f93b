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

ACL_SHARE = 0.1  # of the seeds have access control
TLS_SHARE = 0.1  # have TLS
PULLING_SHARE = 1 / 6  # of the seeds whose workload needs no listener
ALL_HOURS = ";".join(map(str, range(24)))
NONE_SHARE = 0.5  # of the campaigns have nothing but defaults
EACH_SHARE = 0.3

# Options of brokers under which a run shall find the same promises kept: those that belong together, each with the
# values of which one is drawn.
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
    # Whatever every group has consumed is deleted as soon as a log file is full.
    (("rocketmq.broker.diskSpaceCleanForciblyRatio", ("0",)), ("deleteWhen", (ALL_HOURS,))),
)


def _some_properties(random: Random, drawn: Mapping[str, Any]) -> Properties:
    """None in half of the campaigns, where another's product is tested, and where gaps are measured: some options make
    clients wait by themselves (members that are not notified find each other after 20 s)."""
    if drawn["gap_max_s"] or drawn["target"] != "own" or random.random() < NONE_SHARE:
        return ()
    groups = [group for group in _GROUPS if random.random() < EACH_SHARE]
    return tuple(sorted((name, pick(random, values)) for group in groups for name, values in group))


def _draw_followers(random: Random, drawn: Mapping[str, Any]) -> tuple[int, ...]:
    if drawn["replication"] == "none":
        return (0,) * pick(random, (1, 2, 2, 3))
    shapes: tuple[tuple[int, ...], ...] = ((1,), (1, 1), (1, 1), (2, 1), (1, 1, 1))
    return pick(random, shapes)


def _draw_replication(random: Random, drawn: Mapping[str, Any]) -> str:
    if "followers" in drawn:
        return "sync" if any(drawn["followers"]) else "none"
    return pick(random, ("sync", "sync", "sync", "async", "none"))


def _draw_illegal_share(random: Random, drawn: Mapping[str, Any]) -> float:
    """None where brokers keep the options that they have, and of a client that cannot be made to send such things."""
    if drawn["gap_max_s"] or drawn["target"] != "own" or drawn["client"] != "own":
        return 0.0
    return pick(random, (0.0, 0.0, 0.01, 0.03))


def _draw_large_share(random: Random, drawn: Mapping[str, Any]) -> float:
    """None where log files are too small for several such messages."""
    if drawn["gap_max_s"] or drawn["log_file_bytes"] < 4 * LARGE_BYTES[1]:
        return 0.0
    return pick(random, (0.0, 0.0, 0.05, 0.15))


def _draw_broker_properties(random: Random, drawn: Mapping[str, Any]) -> Properties:
    """An unknown topic is illegal only where brokers do not make it."""
    properties = _some_properties(random, drawn)
    if drawn["illegal_share"] and not drawn["auto_topic"]:
        properties = tuple(sorted((*properties, NO_NEW_TOPICS)))
    return properties


def _draw_acl(random: Random, drawn: Mapping[str, Any]) -> bool:
    """Off where gaps are measured, and where the brokers or the clients are not ours."""
    if drawn["gap_max_s"] or drawn["target"] != "own" or drawn["client"] != "own":
        return False
    return random.random() < ACL_SHARE


def _draw_tls(random: Random, drawn: Mapping[str, Any]) -> str:
    """Off where gaps are measured, and on machines: there it costs the proxies, and with them kinds of faults."""
    if drawn["gap_max_s"] or drawn["environment"] != "simulation":
        return TLS_MODES[0]
    return pick(random, TLS_MODES[1:]) if random.random() < TLS_SHARE else TLS_MODES[0]


def _draw_strategy(random: Random, drawn: Mapping[str, Any]) -> str:
    """AVG where a client that is not ours shares out, and where gaps are measured: some members may have no queue."""
    if drawn["client"] != "own" or drawn["gap_max_s"] or "plan" in drawn:
        return AVERAGELY
    return pick(random, (AVERAGELY, AVERAGELY, AVERAGELY, *STRATEGIES))


def _draw_consumer_kind(random: Random, drawn: Mapping[str, Any]) -> str:
    """Push where a client that is not ours consumes, and where gaps are measured: those who pull wait between pulls."""
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


# In this order: a later option may look at the earlier ones, and at all that the core draws.
DRAWS: Mapping[str, Draw] = {
    "flush": lambda random, drawn: pick(random, ("sync", "sync", "sync", "async")),
    "replication": _draw_replication,
    "followers": _draw_followers,
    "coordinators": lambda random, drawn: pick(random, (1, 2, 2, 2, 3)),
    "log_file_bytes": lambda random, drawn: pick(random, (65536, 131072, 262144, 1048576)),
    # A swarm looks for bugs, and faithful mode has them; the product of others is always faithful.
    "mode": lambda random, drawn: "hardened" if drawn["target"] == "own" else "faithful",
    "strategy": _draw_strategy,
    "large_share": _draw_large_share,
    "illegal_share": _draw_illegal_share,
    "acl": _draw_acl,
    "tls": _draw_tls,
    "auto_topic": lambda random, drawn: False,
    "broker_properties": _draw_broker_properties,
    "consumer_kind": _draw_consumer_kind,
}
