"""Derives the facts of a run for the checkers: profile, nodes, and the outcome of each fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from staticfire.checkers.guarantees.facts import (
    FaultFacts,
    Flush,
    MinimumEvidence,
    Mode,
    QueuesConfirmed,
    Replication,
    RunFacts,
)
from staticfire.checkers.model.building.column_values import EVENT_WIDTH
from staticfire.checkers.model.history import CLUSTER_GONE, NEMESIS, Op
from staticfire.checkers.op_kinds.values import ConsumeReport
from staticfire.faults.kinds.clock_skew import ClockSkew
from staticfire.faults.kinds.options_change import changed_options
from staticfire.faults.kinds.topic_change import TopicChange
from staticfire.harness.campaign.campaign import EVEN_STRATEGIES, Campaign
from staticfire.harness.clients.consumer_kinds import CHOOSING
from staticfire.harness.generators.illegal_sends import refused_topics
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.results.fault_facts import (
    clock_uncertainty,
    exits_of,
    fault_facts,
    is_permanent,
)
from staticfire.harness.rocketmq.timings import queues_max, timings_of
from staticfire.harness.simulation.scheduling.clock import EPOCH_MS
from staticfire.harness.workloads.catalogue import WORKLOADS
from staticfire.harness.workloads.consumer_spec import BROADCASTING, ConsumerSpec
from staticfire.harness.workloads.delay_levels import delay_levels_ms
from staticfire.harness.workloads.groups import groups_of

SIDE_STARTS = ("start_topic-anew", "start_offsets-cloned")
# Options for how full a disk must be before a broker deletes unexpired files.
FORCING = frozenset(
    {
        "rocketmq.broker.diskSpaceCleanForciblyRatio",
        "rocketmq.broker.diskSpaceWarningLevelRatio",
    }
)
POOL_PROPERTY = "transientStorePoolEnable"
# With one of these properties, or with flushes longer than QUEUED_MAX_S (the default of waitTimeMillsInSendQueue),
# brokers may refuse sends as too busy without any fault.
BUSY_PROPERTIES = frozenset(
    {
        "sendThreadPoolQueueCapacity",
        "waitTimeMillsInSendQueue",
        "osPageCacheBusyTimeOutMills",
        POOL_PROPERTY,
    }
)
QUEUED_MAX_S = 0.2
# With these options every message counts as no longer in the leader's memory, so a follower serves it.
FOLLOWER_READS = frozenset({("slaveReadEnable", "true"), ("accessMessageInMemoryMaxRatio", "0")})


def _may_be_busy(campaign: Campaign) -> bool:
    """Whether brokers may be too busy without a fault; on a real machine other work may keep them busy."""
    set_sometimes = {*campaign.broker_properties, *changed_options(campaign.plan)}
    return (
        campaign.environment != "simulation"
        or not BUSY_PROPERTIES.isdisjoint(name for name, _ in set_sometimes)
        or timings_of(campaign).flush_wait_s > QUEUED_MAX_S
    )


def run_facts(campaign: Campaign, records: Sequence[FaultRecord], ops: Sequence[Op]) -> RunFacts:
    """Return the facts of a run. `ops` is the history so far, which has the nodes that ended by themselves."""
    topology = campaign.topology()
    lost = {
        target
        for record in records
        if is_permanent(record) and record.fired_ns is not None
        for target in record.planned.targets
    }
    brokers = {
        name: tuple(replica.node for replica in topology.replicas_of(name))
        for name in topology.replica_sets
    }
    members, groups = WORKLOADS[campaign.workload].members(campaign), groups_of(campaign)
    living = tuple(name for name, nodes in brokers.items() if nodes[0] not in lost)
    return RunFacts(
        disks_observed=campaign.environment == "simulation",
        may_be_busy=_may_be_busy(campaign),
        routes_observed=campaign.environment == "simulation",
        topic_routes_observed=campaign.environment == "simulation",
        route_changes_observed=campaign.environment == "simulation",
        tables_observed=campaign.environment == "simulation",
        resources_observed=_measures_resources(campaign),
        errors_observed=campaign.target == "own",
        topics_everywhere=not campaign.auto_topic,
        files_observed=not campaign.is_external,
        transient_pool=dict(campaign.broker_properties).get(POOL_PROPERTY) == "true",
        flush=cast(Flush, campaign.flush),
        replication=cast(Replication, campaign.replication),
        mode=cast(Mode, campaign.mode),
        policies=tuple(campaign.policies),
        groups={
            group: tuple(dict.fromkeys(m.topic for m in members))
            for group, members in groups.items()
        }
        | _side_groups(ops),
        orderly=tuple(group for group, members in groups.items() if members[0].orderly),
        broadcasting=tuple(
            group for group, members in groups.items() if members[0].model == BROADCASTING
        ),
        evenly=_evenly(campaign, groups),
        **_filters(campaign, groups, ops),
        retries_max={
            group: members[0].retries_max
            for group, members in groups.items()
            if members[0].sends_back
        },
        topics=(campaign.topic,),
        queues_max=queues_max(campaign),
        refused_topics=tuple(refused_topics(campaign).values()),
        **_broker_facts(campaign),
        replica_sets=brokers,
        coordinators=topology.coordinators,
        living=living,
        producers=topology.producers,
        consumers=topology.consumers,
        forwarders=tuple(
            node
            for node, member in zip(topology.consumers, members, strict=True)
            if member.forward_to
        ),
        gap_max_s=campaign.gap_max_s or None,
        faults=tuple(_fault_facts(record, brokers) for record in records),
        exits=tuple(exits_of(ops)),
        due=tuple(_due(campaign, bool(living), ops)),
        gone=next((str(op.error) for op in ops if op.f == CLUSTER_GONE), ""),
        late_groups=tuple(_side_groups(ops, made_anew=True)),
        reserved_s=_reserved_s(campaign),
        kept_s=_kept_s(campaign),
        clock_uncertainty_ns=clock_uncertainty(ops),
        wall_epoch_ms=EPOCH_MS if campaign.environment == "simulation" else None,
        floors=MinimumEvidence(acked_min=campaign.acks_min),
    )


def _fault_facts(record: FaultRecord, replica_sets: Iterable[str]) -> FaultFacts:
    """Return the facts of a fault. Earlier versions only counted the leaders that had confirmed new queues."""
    facts, planned, evidence = fault_facts(record), record.planned, record.evidence
    is_counted = planned.kind == TopicChange.name and "confirmed" not in evidence
    streams = tuple(replica_sets)
    if (
        not is_counted
        or record.healed_ns is None
        or evidence.get("masters_changed", 0) < len(streams)
    ):
        return facts
    return replace(
        facts,
        confirmed=tuple(
            QueuesConfirmed(
                topic=planned.params["topic"],
                stream=stream,
                queues=planned.params["queues"],
                answered_ns=record.healed_ns,  # at the latest then
            )
            for stream in streams
        ),
    )


def _reserved_s(campaign: Campaign) -> float:
    return 3600.0 * int(dict(campaign.broker_properties).get("fileReservedTime", 72))


def _kept_s(campaign: Campaign) -> float:
    """Return how long brokers keep consumed messages, by clocks that faults may step; 0 if that is not known.

    They delete messages earlier if a disk is as full as options say, and other files may fill a real disk.
    """
    properties = dict(campaign.broker_properties)
    forcible = properties.get("cleanFileForciblyEnable", "true") == "true"
    disks_are_empty = campaign.environment == "simulation" and not FORCING & properties.keys()
    if campaign.is_external or (forcible and not disks_are_empty):
        return 0.0
    steps_ms: int = sum(
        abs(one.params["step_ms"]) for one in campaign.plan if one.kind == ClockSkew.name
    )
    return max(0.0, _reserved_s(campaign) - steps_ms / 1000)


def _measures_resources(campaign: Campaign) -> bool:
    """Whether the processes of servers are ours, and run where the harness can inspect them."""
    return campaign.target == "own" and campaign.environment in (
        "simulation",
        "processes",
        "namespaces",
    )


def _due(campaign: Campaign, lives: bool, ops: Sequence[Op]) -> Iterator[str]:
    """Return the evidence that a history of this campaign must hold: see checkers/engine/evidence.py."""
    if lives:  # some master can be queried
        yield "look_up"
    if campaign.environment == "simulation":  # simulated nodes keep their logs through every fault
        yield "recovery"
    if campaign.client != "own":  # other clients need not report the rest
        return
    yield from ("open", "assign")
    if any(_has_contents(op) for op in ops if op.f == "consume"):
        yield "contents"
    groups = [members[0] for members in groups_of(campaign).values()]
    if any(members.model != BROADCASTING for members in groups):
        yield "commit"
    if any(members.sends_back for members in groups):
        yield from ("send_back", "try_read")
    sends = [op for op in ops if op.f == "send" and op.process != NEMESIS]
    if any(op.type == "ok" and "reply" in op.value for op in sends):
        yield "answer"
    undecided = {op.value["key"] for op in sends if op.value.get("state") == "unknown"}
    if undecided and not undecided.isdisjoint(
        _delivered(ops)
    ):  # only a broker that checked a transaction has its end
        yield "check_back"


def _has_contents(op: Op[ConsumeReport]) -> bool:
    return any(len(row) > EVENT_WIDTH for row in op.value["messages"])


def _delivered(ops: Sequence[Op]) -> Iterator[str]:
    return (row[0] for op in ops if op.f == "consume" for row in op.value["messages"])


def _side_groups(ops: Sequence[Op], *, made_anew: bool = False) -> dict[str, tuple[str, ...]]:
    """Return the groups beside the load, and their topics (`administration/side_topics.py`).

    `made_anew`: only the groups that were made after the first group of their topic had consumed.
    """
    made = (op.value["evidence"] for op in ops if op.f in SIDE_STARTS and "evidence" in op.value)
    return {group: (seen["topic"],) for seen in made for group in seen["groups"][made_anew:]}


def _evenly(campaign: Campaign, groups: Mapping[str, Sequence[ConsumerSpec]]) -> tuple[str, ...]:
    """Return the groups whose members share the same queues as evenly as possible."""
    if campaign.auto_topic:
        return ()
    return tuple(
        group
        for group, members in groups.items()
        if all(
            member.strategy in EVEN_STRATEGIES
            and member.kind not in CHOOSING
            and member.model != BROADCASTING
            for member in members
        )
    )


def _wanted_tags(members: Sequence[ConsumerSpec]) -> tuple[str, ...] | None:
    """Return the union of the members' wanted tags; None for everything."""
    if any(member.wanted_tags is None for member in members):
        return None
    return tuple(dict.fromkeys(tag for member in members for tag in member.wanted_tags or ()))


def _filters(
    campaign: Campaign, groups: Mapping[str, Sequence[ConsumerSpec]], ops: Sequence[Op]
) -> dict[str, Any]:
    """Return the filter of each filtering group.

    For a group that changed its filter also the former one, and when its last member opened with the new expression.
    """
    wanted = {
        group: tags
        for group, members in groups.items()
        if (tags := _wanted_tags(members)) is not None
    }
    changed = WORKLOADS[campaign.workload].changed
    if changed is None or campaign.expressions:
        return {"wanted_tags": wanted}
    anew: dict[str, list[ConsumerSpec]] = {}
    for number in range(campaign.consumers):
        members = changed(campaign, number)
        anew.setdefault(members.group, []).append(members)
    first: dict[tuple[str, str, str | None], int] = {}  # group, expression, node
    for op in ops:
        if op.f == "open" and op.type == "ok" and "expression" in op.value:
            first.setdefault((op.value["group"], op.value["expression"], op.node), op.time_ns)
    moments = {
        group: max(of_group)
        for group, members in anew.items()
        if (
            of_group := [
                at for key, at in first.items() if key[:2] == (group, members[0].expression)
            ]
        )
    }
    return {
        "wanted_tags": {**wanted, **{group: _wanted_tags(anew[group]) for group in moments}},
        "wanted_before": {group: wanted[group] for group in moments},
        "filters_changed_ns": moments,
    }


def _broker_facts(campaign: Campaign) -> dict[str, Any]:
    properties = dict(campaign.broker_properties)
    set_sometimes = {*campaign.broker_properties, *changed_options(campaign.plan)}
    return {
        "delay_levels_ms": delay_levels_ms(campaign),
        "check_after_s": int(properties.get("transactionTimeOut", 6000)) / 1000,
        "check_max": int(properties.get("transactionCheckMax", 15)),
        "check_every_s": int(properties.get("transactionCheckInterval", 60_000)) / 1000,
        "follower_reads": set_sometimes >= FOLLOWER_READS,
        "follower_behind_max_bytes": int(properties.get("haSlaveFallbehindMax", 256 << 20)),
        "timings": timings_of(campaign),
    }
