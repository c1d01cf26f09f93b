"""Checks a campaign; a refusal names the option, its value and the limit."""

from __future__ import annotations

from staticfire.faults.model.params import TIME_S_MAX
from staticfire.harness.accounts import PLAIN
from staticfire.harness.campaign.campaign import (
    ENVIRONMENTS,
    Campaign,
    CampaignError,
)
from staticfire.harness.campaign.ops import OpError, check_ops
from staticfire.harness.campaign.options import OPTIONS, check_bounds
from staticfire.harness.campaign.plan import check_plan
from staticfire.harness.campaign.require import require
from staticfire.harness.generators.account_sends import ACCOUNT
from staticfire.harness.generators.illegal_sends import ILLEGAL, NO_NEW_TOPICS
from staticfire.harness.generators.keyed_sends import LARGE_BYTES
from staticfire.harness.systems.errors import SystemRefused
from staticfire.harness.systems.registry import system_of

FAULTS_MAX = 1000  # kinds; one may be named again to be drawn more often
BATCH_MAX = 1000  # messages
REFUSED_TOPICS = ("name of the topic", "unknown topic")  # why a send must be refused


def check_campaign(campaign: Campaign) -> None:
    """Raises CampaignError with one sentence for the first option that is not allowed."""
    c = campaign
    try:
        system = system_of(c)
    except SystemRefused as error:
        raise CampaignError(str(error)) from error
    require(c.workload in system.workloads, "workload", c.workload, ", ".join(system.workloads))
    check_bounds(c)
    require(c.environment in ENVIRONMENTS, "environment", c.environment, ", ".join(ENVIRONMENTS))
    require(c.target in system.targets, "target", c.target, ", ".join(system.targets))
    where = ", ".join(system.targets[c.target])
    require(
        c.environment in system.targets[c.target],
        "environment",
        c.environment,
        f"{where} with --target {c.target}",
    )
    require(1 <= c.masters <= 9, "masters", c.masters, "1 to 9")
    require(all(0 <= n <= 5 for n in c.slaves), "slaves", c.slaves, OPTIONS["slaves"].allowed)
    system.check(c)
    _check_members(c)
    _check_load(c)
    require(len(c.faults) <= FAULTS_MAX, "number of faults", len(c.faults), f"0 to {FAULTS_MAX}")
    for option, kinds in (("faults", c.faults), ("plan", [one.kind for one in c.plan])):
        for kind in kinds:
            require(kind in system.faults, option, kind, ", ".join(system.faults))
    check_plan(c)
    if c.ops is not None:
        try:
            check_ops(c.ops, c.topology().producers, c.load_s)
        except OpError as error:
            raise CampaignError(str(error)) from error
        _check_refused_ops(c)


def _check_refused_ops(c: Campaign) -> None:
    """What must be refused has to be refusable: without accounts, say, no signature is wrong."""
    for number, op in enumerate(c.ops or ()):
        account, why = op.value.get(ACCOUNT), op.value.get(ILLEGAL)
        if account == PLAIN:
            require(c.tls == "enforcing", "tls", c.tls, f"enforcing, as op {number} is without TLS")
        elif account is not None:
            require(c.acl, "acl", c.acl, f"true, as op {number} is of the account {account}")
        if why in REFUSED_TOPICS:
            has = NO_NEW_TOPICS in c.broker_properties
            allowed = f"{'='.join(NO_NEW_TOPICS)} among them, as op {number} has an {why}"
            require(has, "broker_properties", dict(c.broker_properties), allowed)


def _check_members(c: Campaign) -> None:
    for name in ("consumer_topics", "expressions"):
        values = getattr(c, name)
        require(len(values) <= c.consumers, name, values, "up to one for each consumer")
        require(all(values), name, values, "no empty text")
    require(
        not (c.auto_topic and c.is_external),
        "auto_topic",
        c.auto_topic,
        "false in an external cluster",
    )


def _check_load(c: Campaign) -> None:
    require(0 < c.think_ms <= 60_000, "think_ms", c.think_ms, OPTIONS["think_ms"].allowed)
    require(
        min(c.idle) >= 0 and c.idle[0] <= c.time_s and c.idle[1] <= TIME_S_MAX,
        "idle",
        c.idle,
        f"0 to {c.time_s:g} seconds, the time of the load, and 0 to {TIME_S_MAX}",
    )
    low, high = c.payload_bytes
    require(
        48 <= low <= high <= 4 * 2**20,
        "payload_bytes",
        c.payload_bytes,
        OPTIONS["payload_bytes"].allowed,
    )
    fewest, most = c.batch_messages
    require(
        1 <= fewest <= most <= BATCH_MAX,
        "batch_messages",
        c.batch_messages,
        OPTIONS["batch_messages"].allowed,
    )
    low_ms, high_ms = c.latency_ms
    require(
        0 < low_ms <= high_ms <= 1000, "latency_ms", c.latency_ms, OPTIONS["latency_ms"].allowed
    )
    largest = max(high, LARGE_BYTES[1]) if c.large_share else high
    require(
        max(4096, largest + 1024) <= c.log_file_bytes <= 2**30,
        "log_file_bytes",
        c.log_file_bytes,
        OPTIONS["log_file_bytes"].allowed,
    )
