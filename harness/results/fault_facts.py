"""Facts of a run that hold for every system: what each fault came to, exits of nodes, clocks of clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from staticfire.checkers.guarantees.facts import (
    FaultFacts,
    Incident,
    NodeExit,
    RottenRecord,
    Struck,
)
from staticfire.checkers.model.history import NEMESIS, Op
from staticfire.faults.plans.catalogue import fault_named
from staticfire.harness.recording.nemesis import FaultRecord


def exits_of(ops: Sequence[Op]) -> Iterator[NodeExit]:
    """Nodes that ended by themselves; of a client that cannot do what it was asked for, with what it said of it."""
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
    """Of each client node the most that a stamp of its events may be off."""
    found: dict[str, int] = {}
    for op in ops:
        if op.stamp is not None and op.node is not None:
            found[op.node] = max(found.get(op.node, 0), op.stamp.within_ns)
    return found


def is_permanent(record: FaultRecord) -> bool:
    return fault_named(record.planned.kind).permanent


def fault_facts(record: FaultRecord) -> FaultFacts:
    """What checkers learn of a fault. One that is still on, or failed, may have bitten."""
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
        records=tuple(RottenRecord(**found) for found in record.evidence.get("records", ())),
        struck=tuple(_struck(record)),
        incidents=tuple(
            Incident(node=one["node"], at_ns=one["at_ns"], what=one["what"])
            for one in record.incidents
        ),
    )


def _struck(record: FaultRecord) -> Iterator[Struck]:
    """When each target was struck, of a fault that says how long before its last strike, or its heal, that was."""
    for name, at_ns in (("struck", record.struck_ns), ("struck_at_heal", record.healed_ns)):
        for found in record.evidence.get(name, ()) if at_ns is not None else ():
            ended_ago_ns, affects = found.get("ended_ago_ns"), found.get("affects")
            yield Struck(
                node=found["node"],
                start_ns=at_ns - found["began_ago_ns"],
                end_ns=None if ended_ago_ns is None else at_ns - ended_ago_ns,
                affects=None if affects is None else tuple(affects),
            )
