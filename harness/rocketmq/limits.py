"""Limits of the campaign options that are RocketMQ's."""

from __future__ import annotations

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
from staticfire.harness.machines.cpp_library import HERE as CLIENTS_HERE
from staticfire.harness.truncated_repr import truncated_repr
from staticfire.harness.workloads.catalogue import WORKLOADS

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


def check_rocketmq(campaign: Campaign) -> None:
    """Raises CampaignError with one sentence for the first option that is not allowed."""
    c = campaign
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
        1 <= c.name_servers <= 9, "name-servers", c.name_servers, OPTIONS["name_servers"].allowed
    )
    _check_replication(c)
    _check_forwarding(c)
    _check_consumer_kind(c)


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
    require(not c.policies, "policies", c.policies, f"none {suffix}")
    require(not c.defect, "defect", c.defect, f"none {suffix}")
    if c.target == "apache":
        return
    require(len(c.brokers) > 0, "brokers", c.brokers, f"name:id, masters first, {suffix}")
    properties = c.broker_properties + c.name_server_properties
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
        require(not any(c.slaves), "slaves", c.slaves, "0 with --replication none")
    else:
        require(any(c.slaves), "slaves", c.slaves, "at least one with replication")
