"""Facts of a run for any system: outcomes of faults, exits of nodes, clock uncertainty of clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from staticfire.checkers.guarantees.facts import (
    AffectedTarget,
    FaultFacts,
    Incident,
    NodeExit,
    OffsetsReset,
    QueuesConfirmed,
    RottenRecord,
)
from staticfire.checkers.model.history import NEMESIS, Op
from staticfire.faults.plans.catalogue import fault_named
from staticfire.harness.recording.nemesis import FaultRecord


def exits_of(ops: Sequence[Op]) -> Iterator[NodeExit]:
    """Return the nodes that ended by themselves. A client that declined its configuration has its reason in `error`."""
    refusals: dict[str | None, str] = {}
    for op in ops:
        if op.f == "open" and op.type != "invoke":
            refusals.pop(op.node, None)
            if op.type == "fail":
                refusals[op.node] = f": {op.error}"
        elif op.process == NEMESIS and op.f == "node_exit":
            error = f"{op.error}{refusals.get(op.node, '')}"
            yield NodeExit(node=str(op.node), time_ns=op.time_ns, error=error)


def clock_uncertainty(ops: Sequence[Op]) -> dict[str, int]:
    """Return the largest possible error of the event stamps of each client node, in nanoseconds."""
    found: dict[str, int] = {}
    for op in ops:
        if op.stamp is not None and op.node is not None:
            found[op.node] = max(found.get(op.node, 0), op.stamp.within_ns)
    return found


def is_permanent(record: FaultRecord) -> bool:
    return fault_named(record.planned.kind).permanent


def fault_facts(record: FaultRecord) -> FaultFacts:
    """Return the facts of a fault for the checkers. A fault that is still on, or failed, may have bitten."""
    kind = record.planned.kind
    fault = fault_named(kind)
    return FaultFacts(
        fault_id=str(record.planned.fault_id),
        kind=kind.replace("-", "_"),
        targets=record.planned.targets,
        fired_ns=record.fired_ns,
        bitten_ns=(record.struck_ns or record.fired_ns) if record.may_have_bitten else None,
        healed_ns=record.healed_ns,
        permanent=is_permanent(record),
        error=record.error,
        affects=fault.affects,
        destroys=fault.destroys,
        strikes=fault.strikes,
        links=fault.links(record.planned),
        delay_s=fault.delay_s(record.planned),
        records=tuple(RottenRecord(**found) for found in record.evidence.get("records", ())),
        resets=tuple(map(OffsetsReset.from_json, record.evidence.get("resets", ()))),
        confirmed=tuple(QueuesConfirmed(**one) for one in record.evidence.get("confirmed", ())),
        unanswered=record.evidence.get("unanswered", 0),
        struck=tuple(_struck(record)),
        incidents=tuple(
            Incident(node=one["node"], at_ns=one["at_ns"], what=one["what"])
            for one in record.incidents
        ),
    )


def _struck(record: FaultRecord) -> Iterator[AffectedTarget]:
    """Yield when each target was struck, for faults whose evidence gives times relative to the strike or the heal."""
    for name, at_ns in (("struck", record.struck_ns), ("struck_at_heal", record.healed_ns)):
        for found in record.evidence.get(name, ()) if at_ns is not None else ():
            ended_ago_ns, affects = found.get("ended_ago_ns"), found.get("affects")
            yield AffectedTarget(
                node=found["node"],
                start_ns=at_ns - found["began_ago_ns"],
                end_ns=None if ended_ago_ns is None else at_ns - ended_ago_ns,
                affects=None if affects is None else tuple(affects),
            )
