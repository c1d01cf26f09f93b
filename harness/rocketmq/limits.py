"""Limits of the campaign options that are RocketMQ's."""

from __future__ import annotations

from staticfire.harness.accounts import PLAIN
from staticfire.harness.campaign.campaign import (
    AVERAGELY,
    ENVIRONMENTS,
    FLUSH_MODES,
    MODES,
    REPLICATION_MODES,
    STRATEGIES,
    TLS_MODES,
    Campaign,
    CampaignError,
)
from staticfire.harness.campaign.options import OPTIONS
from staticfire.harness.campaign.require import require
from staticfire.harness.clients.client_command import ALLOWED as CLIENTS_ALLOWED
from staticfire.harness.clients.client_command import CLIENTS, is_command, split_command
from staticfire.harness.clients.consumer_kinds import CONSUMER_KINDS, PUSH
from staticfire.harness.generators.account_sends import ACCOUNT
from staticfire.harness.generators.illegal_sends import ILLEGAL, NO_NEW_TOPICS
from staticfire.harness.generators.keyed_sends import LARGE_BYTES
from staticfire.harness.machines.cpp_library import HERE as CLIENTS_HERE
from staticfire.harness.truncated_repr import truncated_repr
from staticfire.harness.workloads.catalogue import WORKLOADS

ACL_PROPERTIES = (
    "aclEnable",
    "rocketmq.acl.plain.file",
    "aclCredentialsFile",
    "aclFullSignature",
)
LOG_FILE_BYTES = (4096, 2**30)
FRAME_BYTES = 1024  # bytes of a message beside its body
REFUSED_TOPICS = (
    "name of the topic",
    "unknown topic",
)  # reasons for which brokers must refuse a send
REAL = ", ".join(name for name in ENVIRONMENTS if name != "simulation")
# The environments in which each target can run.
PLACES = {
    "own": tuple(name for name in ENVIRONMENTS if name != "address"),
    "apache": tuple(name for name in ENVIRONMENTS if name not in ("simulation", "address")),
    "address": ("address",),
}


def check_rocketmq(campaign: Campaign) -> None:
    """Raises CampaignError, one sentence, for the first option that is not allowed."""
    c = campaign
    require(1 <= c.leaders <= 9, "leaders (masters)", c.leaders, "1 to 9")
    require(
        all(0 <= n <= 5 for n in c.followers),
        "followers (slaves)",
        c.followers,
        OPTIONS["followers"].allowed,
    )
    require(c.flush in FLUSH_MODES, "flush", c.flush, OPTIONS["flush"].allowed)
    require(
        c.replication in REPLICATION_MODES,
        "replication",
        c.replication,
        OPTIONS["replication"].allowed,
    )
    require(c.mode in MODES, "mode", c.mode, OPTIONS["mode"].allowed)
    require(c.tls in TLS_MODES, "tls", c.tls, OPTIONS["tls"].allowed)
    _check_target(c)
    _check_client(c)
    require(
        1 <= c.coordinators <= 9,
        "coordinators (name servers)",
        c.coordinators,
        OPTIONS["coordinators"].allowed,
    )
    _check_replication(c)
    _check_forwarding(c)
    _check_consumer_kind(c)
    external = "false in an external cluster"
    require(not (c.auto_topic and c.is_external), "auto_topic", c.auto_topic, external)
    _check_log_file(c)
    _check_refused_ops(c)


def _check_target(c: Campaign) -> None:
    suffix = f"with --target {c.target}"
    if c.target != "address":
        require(not c.brokers, "brokers", c.brokers, f"none {suffix}")
    if c.target == "own":
        for name in ACL_PROPERTIES:
            given = dict(c.broker_properties).get(name)
            require(given is None, name, given, "none; the option acl makes accounts")
        return
    require(not c.acl, "acl", c.acl, f"false {suffix}")
    require(c.tls == TLS_MODES[0], "tls", c.tls, f"{TLS_MODES[0]} {suffix}")
    require(not c.replica_tls, "replica_tls", c.replica_tls, f"false {suffix}")
    require(not c.policies, "policies", c.policies, f"none {suffix}")
    require(not c.defect, "defect", c.defect, f"none {suffix}")
    if c.target == "apache":
        return
    require(len(c.brokers) > 0, "brokers", c.brokers, f"name:id, masters first, {suffix}")
    properties = c.broker_properties + c.coordinator_properties
    require(not properties, "properties", properties, f"none {suffix}")


def _check_client(c: Campaign) -> None:
    if is_command(c.client):
        _check_command(c)
    require(c.strategy in STRATEGIES, "strategy", c.strategy, OPTIONS["strategy"].allowed)
    if c.client == "cpp":
        require(c.strategy == AVERAGELY, "strategy", c.strategy, f"{AVERAGELY} for C++")
        require(c.environment != "simulation", "environment", c.environment, f"{REAL} for C++")
        require(c.tls == TLS_MODES[0], "tls", c.tls, f"{TLS_MODES[0]} with --client cpp")
        require(c.async_share == 0, "async_share", c.async_share, "0 with --client cpp")
        require(c.illegal_share == 0, "illegal_share", c.illegal_share, "0 with --client cpp")
        require(c.batch_share == 0, "batch_share", c.batch_share, "0, as C++ sends no batches")
    lacks = WORKLOADS[c.workload].lacks.get(c.client)
    require(lacks is None, "workload", c.workload, f"another one with --client {c.client}: {lacks}")


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
    require(c.environment in CLIENTS_HERE, "environment", c.environment, allowed)


def _check_forwarding(c: Campaign) -> None:
    allowed = (
        f"forwarders and who consumes what they send on, {c.consumers} consumers in all, or [0, 0]"
    )
    least, together = min(c.forwarding), sum(c.forwarding)
    is_whole = together == 0 or (least > 0 and together <= c.consumers)
    require(least >= 0 and is_whole, "forwarding", c.forwarding, allowed)
    require(
        not together or WORKLOADS[c.workload].forwards,
        "forwarding",
        c.forwarding,
        f"[0, 0] with workload {c.workload}",
    )


def _check_consumer_kind(c: Campaign) -> None:
    require(
        c.consumer_kind in CONSUMER_KINDS,
        "consumer_kind",
        c.consumer_kind,
        OPTIONS["consumer_kind"].allowed,
    )
    if c.client == "cpp":
        require(c.consumer_kind == PUSH, "consumer_kind", c.consumer_kind, f"{PUSH} for C++")
    reason = WORKLOADS[c.workload].why_not(c.consumer_kind, has_expressions=bool(c.expressions))
    allowed = f"{PUSH} with workload {c.workload}: {reason}"
    require(reason is None, "consumer_kind", c.consumer_kind, allowed)


def _check_replication(c: Campaign) -> None:
    if c.replication == "none":
        require(not any(c.followers), "slaves", c.followers, "0 with --replication none")
    else:
        require(any(c.followers), "slaves", c.followers, "at least one with replication")


def _check_log_file(c: Campaign) -> None:
    """Raises CampaignError if a file of the commit log cannot hold the largest message."""
    largest = max(c.payload_bytes[1], LARGE_BYTES[1] if c.large_share else 0)
    require(
        max(LOG_FILE_BYTES[0], largest + FRAME_BYTES) <= c.log_file_bytes <= LOG_FILE_BYTES[1],
        "log_file_bytes",
        c.log_file_bytes,
        OPTIONS["log_file_bytes"].allowed,
    )


def _check_refused_ops(c: Campaign) -> None:
    """Raises CampaignError for an op that brokers would not refuse: without accounts, say, no signature is wrong."""
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
