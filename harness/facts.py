"""What the harness tells the checkers about a run: profile, nodes, and what each fault came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from checkers.facts import FaultFacts, Floors, Flush, Replication, RunFacts
from harness.campaign import Campaign
from harness.nemesis import FaultRecord

# Kinds whose damage the promises know under another name.
_DAMAGE = {"power-cut-in-operation": "power_cut", "failing-disk": "disk_error"}


def run_facts(campaign: Campaign, records: Sequence[FaultRecord]) -> RunFacts:
    shape = campaign.shape()
    lost = {
        target
        for record in records
        if record.planned.kind == "disk-lost" and record.fired_ns is not None
        for target in record.planned.targets
    }
    brokers = {
        name: tuple(replica.node for replica in shape.replicas(name)) for name in shape.broker_names
    }
    living = tuple(name for name, nodes in brokers.items() if nodes[0] not in lost)
    return RunFacts(
        flush=cast(Flush, campaign.flush),
        replication=cast(Replication, campaign.replication),
        groups={campaign.group: (campaign.topic,)},
        topics=(campaign.topic,),
        brokers=brokers,
        living=living,
        faults=tuple(_fault_facts(record) for record in records),
        floors=Floors(acked_min=campaign.acks_min),
    )


def _fault_facts(record: FaultRecord) -> FaultFacts:
    kind = record.planned.kind
    return FaultFacts(
        fault_id=str(record.planned.fault_id),
        kind=_DAMAGE.get(kind, kind.replace("-", "_")),
        targets=record.planned.targets,
        fired_ns=record.fired_ns,
        bitten_ns=record.fired_ns if record.bitten else None,
        healed_ns=record.healed_ns,
        permanent=kind == "disk-lost",
    )
