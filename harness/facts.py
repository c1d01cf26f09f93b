"""What the harness tells the checkers about a run: profile, nodes, and what each fault came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from checkers.facts import FaultFacts, Floors, Flush, Mode, NodeExit, Replication, RunFacts
from checkers.history import CLUSTER_GONE, NEMESIS, Op
from faults.catalogue import fault_named
from harness.campaign import Campaign
from harness.nemesis import FaultRecord

POOL_PROPERTY = "transientStorePoolEnable"


def run_facts(campaign: Campaign, records: Sequence[FaultRecord], ops: Sequence[Op]) -> RunFacts:
    """`ops` is the history so far: it says which nodes ended by themselves."""
    shape = campaign.shape()
    lost = {
        target
        for record in records
        if _is_permanent(record) and record.fired_ns is not None
        for target in record.planned.targets
    }
    brokers = {
        name: tuple(replica.node for replica in shape.replicas(name)) for name in shape.broker_names
    }
    living = tuple(name for name, nodes in brokers.items() if nodes[0] not in lost)
    return RunFacts(
        disks_observed=campaign.environment == "simulation",
        files_observed=not campaign.is_foreign,
        transient_pool=dict(campaign.broker_properties).get(POOL_PROPERTY) == "true",
        flush=cast(Flush, campaign.flush),
        replication=cast(Replication, campaign.replication),
        mode=cast(Mode, campaign.mode),
        groups={campaign.group: (campaign.topic,)},
        topics=(campaign.topic,),
        brokers=brokers,
        living=living,
        producers=shape.producers,
        consumers=shape.consumers,
        gap_max_s=campaign.gap_max_s or None,
        faults=tuple(_fault_facts(record) for record in records),
        exits=tuple(_exits(ops)),
        gone=next((str(op.error) for op in ops if op.f == CLUSTER_GONE), ""),
        reserved_s=3600.0 * int(dict(campaign.broker_properties).get("fileReservedTime", 72)),
        floors=Floors(acked_min=campaign.acks_min),
    )


def _exits(ops: Sequence[Op]) -> Iterator[NodeExit]:
    for op in ops:
        if op.process == NEMESIS and op.f == "node_exit":
            yield NodeExit(node=str(op.node), time_ns=op.time_ns, error=str(op.error))


def _is_permanent(record: FaultRecord) -> bool:
    return fault_named(record.planned.kind).permanent


def _fault_facts(record: FaultRecord) -> FaultFacts:
    kind = record.planned.kind
    return FaultFacts(
        fault_id=str(record.planned.fault_id),
        kind=kind.replace("-", "_"),
        targets=record.planned.targets,
        fired_ns=record.fired_ns,
        bitten_ns=record.fired_ns if record.bitten else None,
        healed_ns=record.healed_ns,
        permanent=_is_permanent(record),
        error=record.error,
    )
