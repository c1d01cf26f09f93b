"""Draws the options of brokers under which a run shall find the same promises kept."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from staticfire.faults.model.draws import pick
from staticfire.harness.campaign.campaign import Properties

ALL_HOURS = ";".join(map(str, range(24)))
NONE_SHARE = 0.5  # of the campaigns have nothing but defaults
EACH_SHARE = 0.3

# Options that belong together, each with the values of which one is drawn.
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


def draw_broker_properties(random: Random, drawn: Mapping[str, Any]) -> Properties:
    """None in half of the campaigns, where another's product is tested, and where gaps are measured: some options make
    clients wait by themselves (members that are not notified find each other after 20 s)."""
    if drawn["gap_max_s"] or drawn["target"] != "own" or random.random() < NONE_SHARE:
        return ()
    groups = [group for group in _GROUPS if random.random() < EACH_SHARE]
    return tuple(sorted((name, pick(random, values)) for group in groups for name, values in group))
