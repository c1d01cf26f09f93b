"""Checks a campaign; a refusal names the option, its value and the limit."""

from __future__ import annotations

from staticfire.faults.model.params import TIME_S_MAX
from staticfire.harness.campaign.campaign import (
    ENVIRONMENTS,
    Campaign,
    CampaignError,
)
from staticfire.harness.campaign.ops import OpError, check_ops
from staticfire.harness.campaign.options import OPTIONS, check_bounds
from staticfire.harness.campaign.plan import check_plan
from staticfire.harness.campaign.require import require
from staticfire.harness.systems.errors import SystemRefused
from staticfire.harness.systems.registry import system_of

FAULTS_MAX = 1000  # kinds; a repeated kind is drawn more often
BATCH_MAX = 1000  # messages
# Latency of a link in a new campaign. Its slowest round trip is shorter than clients' time-outs.
LATENCY_MS_MAX = 70
RECORDED_LATENCY_MS_MAX = 1000  # recorded runs of earlier versions may have more


def check_new_campaign(campaign: Campaign) -> None:
    """Check limits that hold for new runs, but not for recorded ones. Raises CampaignError."""
    require(
        campaign.latency_ms[1] <= LATENCY_MS_MAX,
        "latency_ms",
        campaign.latency_ms,
        OPTIONS["latency_ms"].allowed,
    )


def check_campaign(campaign: Campaign) -> None:
    """Raises CampaignError, one sentence, for the first option that is not allowed."""
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
    system.check(c)


def _check_members(c: Campaign) -> None:
    for name in ("consumer_topics", "expressions"):
        values = getattr(c, name)
        require(len(values) <= c.consumers, name, values, "up to one for each consumer")
        require(all(values), name, values, "no empty text")


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
        0 < low_ms <= high_ms <= RECORDED_LATENCY_MS_MAX,
        "latency_ms",
        c.latency_ms,
        OPTIONS["latency_ms"].allowed,
    )
