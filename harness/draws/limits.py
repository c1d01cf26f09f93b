"""What a campaign may be: every option has its limits, and a refusal names option, value and limit."""

from __future__ import annotations

from staticfire.faults.model.params import TIME_S_MAX
from staticfire.harness.campaign.campaign import (
    ENVIRONMENTS,
    SEED_MAX,
    Campaign,
    CampaignError,
)
from staticfire.harness.campaign.plan import check_plan
from staticfire.harness.campaign.require import require
from staticfire.harness.generators.keyed_sends import LARGE_BYTES
from staticfire.harness.systems.errors import SystemRefused
from staticfire.harness.systems.registry import system_of

FAULTS_MAX = 1000  # kinds; one may be named again to be drawn more often
ACKS_MAX = 10**9
BATCH_MAX = 1000  # messages


def check_campaign(campaign: Campaign) -> None:
    """Raises CampaignError with one sentence for the first option that is not allowed."""
    c = campaign
    try:
        system = system_of(c)
    except SystemRefused as error:
        raise CampaignError(str(error)) from error
    require(0 <= c.seed <= SEED_MAX, "seed", c.seed, f"0 to {SEED_MAX}")
    require(c.workload in system.workloads, "workload", c.workload, ", ".join(system.workloads))
    require(1 <= c.time_s <= TIME_S_MAX, "time", c.time_s, f"1 to {TIME_S_MAX} seconds")
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
    require(all(0 <= n <= 5 for n in c.slaves), "slaves", c.slaves, "0 to 5 for each master")
    system.check(c)
    _check_members(c)
    _check_load(c)
    require(len(c.faults) <= FAULTS_MAX, "number of faults", len(c.faults), f"0 to {FAULTS_MAX}")
    for option, kinds in (("faults", c.faults), ("plan", [one.kind for one in c.plan])):
        for kind in kinds:
            require(kind in system.faults, option, kind, ", ".join(system.faults))
    check_plan(c)


def _check_members(c: Campaign) -> None:
    for name in ("consumer_topics", "expressions"):
        values = getattr(c, name)
        require(len(values) <= c.consumers, name, values, "up to one for each consumer")
        require(all(values), name, values, "no empty text")
    require(0 <= c.sends_max <= ACKS_MAX, "sends_max", c.sends_max, f"0 (no bound) to {ACKS_MAX}")
    require(
        not (c.auto_topic and c.is_external),
        "auto_topic",
        c.auto_topic,
        "false in an external cluster",
    )
    require(0 <= c.hot_share <= 1, "hot_share", c.hot_share, "0 to 1")


def _check_load(c: Campaign) -> None:
    require(1 <= c.queues <= 64, "queues", c.queues, "1 to 64")
    require(1 <= c.producers <= 64, "producers", c.producers, "1 to 64")
    require(1 <= c.consumers <= 64, "consumers", c.consumers, "1 to 64")
    require(0 < c.think_ms <= 60_000, "think_ms", c.think_ms, "above 0, up to 60000")
    require(0 <= c.acks_min <= ACKS_MAX, "acks_min", c.acks_min, f"0 to {ACKS_MAX}")
    require(0 <= c.batch_share <= 1, "batch_share", c.batch_share, "0 to 1")
    require(0 <= c.one_way_share <= 1, "one_way_share", c.one_way_share, "0 to 1")
    require(0 <= c.quiet_s <= TIME_S_MAX, "quiet_s", c.quiet_s, f"0 to {TIME_S_MAX} seconds")
    require(
        min(c.idle) >= 0 and c.idle[0] <= c.time_s and c.idle[1] <= TIME_S_MAX,
        "idle",
        c.idle,
        f"0 to {c.time_s:g} seconds, the time of the load, and 0 to {TIME_S_MAX}",
    )
    require(0 <= c.large_share <= 1, "large_share", c.large_share, "0 to 1")
    require(0 <= c.async_share <= 1, "async_share", c.async_share, "0 to 1")
    require(0 <= c.illegal_share <= 1, "illegal_share", c.illegal_share, "0 to 1")
    low, high = c.payload_bytes
    require(48 <= low <= high <= 4 * 2**20, "payload_bytes", c.payload_bytes, "48 to 4 MiB")
    fewest, most = c.batch_messages
    require(
        1 <= fewest <= most <= BATCH_MAX, "batch_messages", c.batch_messages, f"1 to {BATCH_MAX}"
    )
    low_ms, high_ms = c.latency_ms
    require(0 < low_ms <= high_ms <= 1000, "latency_ms", c.latency_ms, "above 0, up to 1000")
    require(1 <= c.fsync_us <= 10**7, "fsync_us", c.fsync_us, "1 to 10000000")
    largest = max(high, LARGE_BYTES[1]) if c.large_share else high
    require(
        max(4096, largest + 1024) <= c.log_file_bytes <= 2**30,
        "log_file_bytes",
        c.log_file_bytes,
        "4096 (and the largest message) to 1 GiB",
    )
    require(0 <= c.gap_max_s <= 86_400, "gap_max_s", c.gap_max_s, "0 (no bound) to 86400 seconds")
