"""What a campaign may be: every option has its limits, and a refusal names option, value and limit."""

from __future__ import annotations

from staticfire.faults.model.params import TIME_S_MAX
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import (
    AVERAGELY,
    ENVIRONMENTS,
    FLUSH_MODES,
    MODES,
    REPLICATION_MODES,
    SEED_MAX,
    STRATEGIES,
    TARGETS,
    TLS_MODES,
    Campaign,
    CampaignError,
)
from staticfire.harness.campaign.plan import check_plan
from staticfire.harness.clients.client_command import ALLOWED as CLIENTS_ALLOWED
from staticfire.harness.clients.client_command import CLIENTS, is_command, split_command
from staticfire.harness.clients.consumer_kinds import CONSUMER_KINDS, PUSH
from staticfire.harness.generators.keyed_sends import LARGE_BYTES
from staticfire.harness.machines.cpp_library import HERE as CLIENTS_HERE
from staticfire.harness.truncated_repr import truncated_repr
from staticfire.harness.workloads.catalogue import WORKLOADS

FAULTS_MAX = 1000  # kinds; one may be named again to be drawn more often
ACKS_MAX = 10**9
BATCH_MAX = 1000  # messages
ACL_PROPERTIES = (
    "aclEnable",
    "rocketmq.acl.plain.file",
    "aclCredentialsFile",
    "aclFullSignature",
)
REAL = ", ".join(name for name in ENVIRONMENTS if name != "simulation")
# The environments in which each target can be.
PLACES = {
    "own": tuple(name for name in ENVIRONMENTS if name != "address"),
    "apache": tuple(name for name in ENVIRONMENTS if name not in ("simulation", "address")),
    "address": ("address",),
}


def _require(condition: bool, option: str, value: object, allowed: str) -> None:
    if not condition:
        raise CampaignError(f"{option} is {truncated_repr(value)}; allowed: {allowed}")


def check_campaign(campaign: Campaign) -> None:
    """Raises CampaignError with one sentence for the first option that is not allowed."""
    c = campaign
    _require(0 <= c.seed <= SEED_MAX, "seed", c.seed, f"0 to {SEED_MAX}")
    _require(c.workload in WORKLOADS, "workload", c.workload, ", ".join(WORKLOADS))
    _require(1 <= c.time_s <= TIME_S_MAX, "time", c.time_s, f"1 to {TIME_S_MAX} seconds")
    _require(c.flush in FLUSH_MODES, "flush", c.flush, ", ".join(FLUSH_MODES))
    _require(
        c.replication in REPLICATION_MODES,
        "replication",
        c.replication,
        ", ".join(REPLICATION_MODES),
    )
    _require(c.environment in ENVIRONMENTS, "environment", c.environment, ", ".join(ENVIRONMENTS))
    _require(c.mode in MODES, "mode", c.mode, ", ".join(MODES))
    _require(c.tls in TLS_MODES, "tls", c.tls, ", ".join(TLS_MODES))
    _check_target(c)
    _check_client(c)
    _check_members(c)
    _require(1 <= c.name_servers <= 9, "name-servers", c.name_servers, "1 to 9")
    _require(1 <= c.masters <= 9, "masters", c.masters, "1 to 9")
    _require(all(0 <= n <= 5 for n in c.slaves), "slaves", c.slaves, "0 to 5 for each master")
    _check_replication(c)
    _check_load(c)
    _check_consumer_kind(c)
    _require(len(c.faults) <= FAULTS_MAX, "number of faults", len(c.faults), f"0 to {FAULTS_MAX}")
    for kind in c.faults:
        _require(kind in FAULTS, "faults", kind, ", ".join(FAULTS))
    check_plan(c)


def _check_target(c: Campaign) -> None:
    _require(c.target in TARGETS, "target", c.target, ", ".join(TARGETS))
    suffix = f"with --target {c.target}"
    where = PLACES[c.target]
    _require(c.environment in where, "environment", c.environment, f"{', '.join(where)} {suffix}")
    if c.target != "address":
        _require(not c.brokers, "brokers", c.brokers, f"none {suffix}")
    if c.target == "own":
        for name in ACL_PROPERTIES:
            given = dict(c.broker_properties).get(name)
            _require(given is None, name, given, "none; the option acl makes accounts")
        return
    _require(not c.acl, "acl", c.acl, f"false {suffix}")
    _require(c.tls == TLS_MODES[0], "tls", c.tls, f"{TLS_MODES[0]} {suffix}")
    _require(not c.policies, "policies", c.policies, f"none {suffix}")
    _require(not c.defect, "defect", c.defect, f"none {suffix}")
    if c.target == "apache":
        return
    _require(len(c.brokers) > 0, "brokers", c.brokers, f"name:id, masters first, {suffix}")
    properties = c.broker_properties + c.name_server_properties
    _require(not properties, "properties", properties, f"none {suffix}")


def _check_client(c: Campaign) -> None:
    if is_command(c.client):
        _check_command(c)
    _require(c.strategy in STRATEGIES, "strategy", c.strategy, ", ".join(STRATEGIES))
    if c.client == "cpp":
        _require(c.strategy == AVERAGELY, "strategy", c.strategy, f"{AVERAGELY} for C++")
        _require(c.environment != "simulation", "environment", c.environment, f"{REAL} for C++")
        _require(c.tls == TLS_MODES[0], "tls", c.tls, f"{TLS_MODES[0]} with --client cpp")
        _require(c.async_share == 0, "async_share", c.async_share, "0 with --client cpp")
        _require(c.illegal_share == 0, "illegal_share", c.illegal_share, "0 with --client cpp")
        _require(c.batch_share == 0, "batch_share", c.batch_share, "0, as C++ sends no batches")
    lacks = WORKLOADS[c.workload].lacks.get(c.client)
    _require(
        lacks is None, "workload", c.workload, f"another one with --client {c.client}: {lacks}"
    )


def _check_command(c: Campaign) -> None:
    try:
        split_command(c.client)
    except ValueError as error:
        raise CampaignError(
            f"client is {truncated_repr(c.client)}: {error}; allowed: {CLIENTS_ALLOWED}"
        ) from None
    here = ", ".join(CLIENTS_HERE)
    is_command = (
        f"the client {truncated_repr(c.client)} is a command and not {' or '.join(CLIENTS)}"
    )
    allowed = f"{here}, as {is_command}"
    _require(c.environment in CLIENTS_HERE, "environment", c.environment, allowed)


def _check_members(c: Campaign) -> None:
    for name in ("consumer_topics", "expressions"):
        values = getattr(c, name)
        _require(len(values) <= c.consumers, name, values, "up to one for each consumer")
        _require(all(values), name, values, "no empty text")
    _require(0 <= c.sends_max <= ACKS_MAX, "sends_max", c.sends_max, f"0 (no bound) to {ACKS_MAX}")
    _require(
        not (c.auto_topic and c.is_external),
        "auto_topic",
        c.auto_topic,
        "false in an external cluster",
    )
    _check_forwarding(c)
    _require(0 <= c.hot_share <= 1, "hot_share", c.hot_share, "0 to 1")


def _check_forwarding(c: Campaign) -> None:
    allowed = (
        f"forwarders and who consumes what they send on, {c.consumers} consumers in all, or [0, 0]"
    )
    least, together = min(c.forwarding), sum(c.forwarding)
    is_whole = together == 0 or (least > 0 and together <= c.consumers)
    _require(least >= 0 and is_whole, "forwarding", c.forwarding, allowed)
    _require(
        not together or WORKLOADS[c.workload].forwards,
        "forwarding",
        c.forwarding,
        f"[0, 0] with workload {c.workload}",
    )


def _check_consumer_kind(c: Campaign) -> None:
    _require(
        c.consumer_kind in CONSUMER_KINDS,
        "consumer_kind",
        c.consumer_kind,
        ", ".join(CONSUMER_KINDS),
    )
    if c.client == "cpp":
        _require(c.consumer_kind == PUSH, "consumer_kind", c.consumer_kind, f"{PUSH} for C++")
    reason = WORKLOADS[c.workload].why_not(c.consumer_kind, has_expressions=bool(c.expressions))
    allowed = f"{PUSH} with workload {c.workload}: {reason}"
    _require(reason is None, "consumer_kind", c.consumer_kind, allowed)


def _check_replication(c: Campaign) -> None:
    if c.replication == "none":
        _require(not any(c.slaves), "slaves", c.slaves, "0 with --replication none")
    else:
        _require(any(c.slaves), "slaves", c.slaves, "at least one with replication")


def _check_load(c: Campaign) -> None:
    _require(1 <= c.queues <= 64, "queues", c.queues, "1 to 64")
    _require(1 <= c.producers <= 64, "producers", c.producers, "1 to 64")
    _require(1 <= c.consumers <= 64, "consumers", c.consumers, "1 to 64")
    _require(0 < c.think_ms <= 60_000, "think_ms", c.think_ms, "above 0, up to 60000")
    _require(0 <= c.acks_min <= ACKS_MAX, "acks_min", c.acks_min, f"0 to {ACKS_MAX}")
    _require(0 <= c.batch_share <= 1, "batch_share", c.batch_share, "0 to 1")
    _require(0 <= c.one_way_share <= 1, "one_way_share", c.one_way_share, "0 to 1")
    _require(0 <= c.quiet_s <= TIME_S_MAX, "quiet_s", c.quiet_s, f"0 to {TIME_S_MAX} seconds")
    _require(
        min(c.idle) >= 0 and c.idle[0] <= c.time_s and c.idle[1] <= TIME_S_MAX,
        "idle",
        c.idle,
        f"0 to {c.time_s:g} seconds, the time of the load, and 0 to {TIME_S_MAX}",
    )
    _require(0 <= c.large_share <= 1, "large_share", c.large_share, "0 to 1")
    _require(0 <= c.async_share <= 1, "async_share", c.async_share, "0 to 1")
    _require(0 <= c.illegal_share <= 1, "illegal_share", c.illegal_share, "0 to 1")
    low, high = c.payload_bytes
    _require(48 <= low <= high <= 4 * 2**20, "payload_bytes", c.payload_bytes, "48 to 4 MiB")
    fewest, most = c.batch_messages
    _require(
        1 <= fewest <= most <= BATCH_MAX, "batch_messages", c.batch_messages, f"1 to {BATCH_MAX}"
    )
    low_ms, high_ms = c.latency_ms
    _require(0 < low_ms <= high_ms <= 1000, "latency_ms", c.latency_ms, "above 0, up to 1000")
    _require(1 <= c.fsync_us <= 10**7, "fsync_us", c.fsync_us, "1 to 10000000")
    largest = max(high, LARGE_BYTES[1]) if c.large_share else high
    _require(
        max(4096, largest + 1024) <= c.log_file_bytes <= 2**30,
        "log_file_bytes",
        c.log_file_bytes,
        "4096 (and the largest message) to 1 GiB",
    )
    _require(0 <= c.gap_max_s <= 86_400, "gap_max_s", c.gap_max_s, "0 (no bound) to 86400 seconds")
