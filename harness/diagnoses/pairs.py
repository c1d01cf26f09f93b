"""The deployment that RocketMQ recommends: pairs, synchronous replication, asynchronous flush.

Source: RocketMQ's best practice (SYNC_MASTER with ASYNC_FLUSH). An acknowledged message is in the memory of two
machines and, up to 500 ms later, on their disks. It survives the loss of either machine, but not of both at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from staticfire.checkers.guarantees.verdict import seconds
from staticfire.faults.kinds.power_cut import ClusterPowerCut, PowerCut, PowerCutInOperation
from staticfire.faults.kinds.process_faults import Kill
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.results.run_result import RunResult

DISK_LOST = "disk-lost"
POWER_CUTS = (PowerCut.name, PowerCutInOperation.name)
DEATHS = (Kill.name, *POWER_CUTS, ClusterPowerCut.name, DISK_LOST)


def pairs(result: RunResult) -> list[str]:
    """Return a paragraph for a run of several such pairs."""
    campaign, brokers = result.campaign, result.facts.replica_sets
    is_recommended = (campaign.flush, campaign.replication) == ("async", "sync")
    if not is_recommended or len(brokers) < 2 or any(len(nodes) < 2 for nodes in brokers.values()):
        return []
    counts, masters = result.verdict.counts, [nodes[0] for nodes in brokers.values()]
    deaths = [
        record
        for record in result.faults
        if record.bitten and record.fired_ns is not None and record.planned.kind in DEATHS
    ]
    lost = sum(v.counts.get("lost", 0) for v in result.verdict.verdicts if v.checker == "loss")
    text = " ".join(_sentences(deaths, masters, campaign.mode))
    return [
        f"{len(brokers)} pairs with synchronous replication and asynchronous flush: {counts['acked']} messages were "
        f"acknowledged with SEND_OK, each of them in the memory of two machines, and {counts['weak']} with a weaker "
        f"status, while their master was alone. {text} Of those with SEND_OK "
        f"{lost or 'none'} {'were' if lost > 1 else 'was'} lost. This deployment does not survive the loss "
        "of power on both machines of a pair within the half second before the flush. A message with a weaker status "
        "does not survive that of one machine."
    ]


def _sentences(deaths: Iterable[FaultRecord], masters: list[str], mode: str) -> list[str]:
    text = [_sentence(record, masters, mode) for record in deaths]
    return text or ["No machine died in this run."]


def _sentence(record: FaultRecord, masters: list[str], mode: str) -> str:
    assert record.fired_ns is not None
    kind, node = record.planned.kind, record.planned.targets[0]
    when = f"at t={seconds(record.fired_ns)}"
    unflushed = record.evidence.get("lost_bytes", 0)
    if kind == ClusterPowerCut.name:
        return (
            f"All machines lost power {when}, and {unflushed} bytes that were not flushed are gone."
        )
    role, other = ("Master", "slave") if node in masters else ("Slave", "master")
    if kind == DISK_LOST:
        return f"{role} {node} was lost for good {when}: its {other} serves what was acknowledged."
    if kind not in POWER_CUTS:
        return f"{role} {node} was killed {when}, and its page cache stayed."
    if not unflushed:
        return f"{role} {node} lost power {when}, when everything was flushed."
    back = f"it gets them back from its {other}"
    if mode == "faithful" and node in masters:
        back = "its slave has them, and does not give them back"
    return f"{role} {node} lost power {when}, and with it {unflushed} bytes that were not flushed; {back}."
