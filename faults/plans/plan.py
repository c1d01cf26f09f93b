"""Draws seeded fault plans: data that a run carries out, a user can read, and `shrink` can reduce.

A plan stays within the faults that the cluster promises to survive (TigerBeetle: "fault atlas"). A disk that is lost
for good leaves a replica that no other fault destroys, and destructive faults of one node do not overlap. Within these
limits a plan need not be gentle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from staticfire.faults.errors import FaultError
from staticfire.faults.model.anchor import read_anchor
from staticfire.faults.model.draws import between, pick
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.plans.catalogue import fault_named

SETTLE_S = 2.0  # between the end of one fault on a node and the next one there
RESYNC_S = 15.0  # after a destructive fault, until a replica may count as whole again
ATTEMPTS = 8  # draws for one slot before the slot stays empty


def draw_plan(
    random: Random, kinds: Sequence[str], count: int, time_s: float, context: ClusterContext
) -> tuple[PlannedFault, ...]:
    """Draw up to `count` faults of these kinds over `time_s` seconds; every kind comes once before any kind comes
    twice.

    Raises FaultError for an unknown kind.
    """
    # The most demanding kinds first, since all later ones must fit around them.
    faults = sorted(map(fault_named, kinds), key=_modesty)
    plan: list[PlannedFault] = []
    for slot in range(count if faults else 0):
        fault = _kind_for(random, faults, slot)
        planned = _draw_one(random, fault, len(plan), time_s, context, plan)
        if planned is not None:
            plan.append(planned)
    return tuple(sorted(plan, key=lambda planned: (planned.at_s, planned.fault_id)))


def redraw(
    random: Random,
    planned: PlannedFault,
    plan: Sequence[PlannedFault],
    now_s: float,
    time_s: float,
    context: ClusterContext,
) -> PlannedFault | None:
    """Draw another fault of the same kind, which strikes after `now_s`, in place of a planned one; None if none fits.

    Args:
        plan: the other faults, which it must fit.
        now_s: present time, in seconds from the start of the load.
        time_s: end of the load.
    """
    fault = fault_named(planned.kind)
    left_s = max(time_s, planned.until_s) - now_s
    for _ in range(ATTEMPTS):
        strike = fault.draw(random, context)
        if strike is None:
            return None
        low, high = fault.duration_s
        duration_s = min(between(random, low, high), left_s * 0.4)
        at_s = now_s + between(random, 0.0, max(left_s - duration_s - 1.0, left_s * 0.2))
        drawn = PlannedFault(
            fault_id=planned.fault_id,
            kind=planned.kind,
            at_s=round(at_s, 3),
            duration_s=round(duration_s, 3),
            targets=strike.targets,
            params=strike.params,
        )
        if _fits(drawn, plan, context):
            return drawn
    return None


def _modesty(fault: Fault) -> int:
    return 0 if fault.permanent else 1 if fault.strikes_all else 2


def _kind_for(random: Random, faults: Sequence[Fault], slot: int) -> Fault:
    if slot < len(faults):
        return faults[slot]
    return pick(random, faults)


def _draw_one(
    random: Random,
    fault: Fault,
    fault_id: int,
    time_s: float,
    context: ClusterContext,
    plan: Sequence[PlannedFault],
) -> PlannedFault | None:
    if sum(planned.kind == fault.name for planned in plan) >= fault.max_per_run:
        return None
    for _ in range(ATTEMPTS):
        strike = fault.draw(random, context)
        if strike is None:
            return None
        planned = _at_drawn_time(random, fault, fault_id, time_s, strike)
        if _fits(planned, plan, context):
            return planned
    return None


def _at_drawn_time(
    random: Random, fault: Fault, fault_id: int, time_s: float, strike: FaultParams
) -> PlannedFault:
    low, high = fault.duration_s
    duration_s = min(between(random, low, high), time_s * 0.4)
    at_s = between(random, min(3.0, time_s * 0.1), max(time_s - duration_s - 1.0, time_s * 0.2))
    return PlannedFault(
        fault_id=fault_id,
        kind=fault.name,
        at_s=round(at_s, 3),
        duration_s=round(duration_s, 3),
        targets=strike.targets,
        params=strike.params,
    )


def _fits(planned: PlannedFault, plan: Sequence[PlannedFault], context: ClusterContext) -> bool:
    if any(_collide(planned, other) for other in plan):
        return False
    return _survivable(planned, plan, context)


def _collide(a: PlannedFault, b: PlannedFault) -> bool:
    """Whether the faults overlap in time on a common target: one's heal would end the other's effect."""
    if b.at_s > a.until_s + SETTLE_S or a.at_s > b.until_s + SETTLE_S:
        return False
    return bool(touched(a) & touched(b))


def touched(planned: PlannedFault) -> frozenset[str]:
    return frozenset(planned.targets)


def _survivable(
    planned: PlannedFault, plan: Sequence[PlannedFault], context: ClusterContext
) -> bool:
    """Whether a whole replica is left if a disk is lost or emptied.

    Around a lost disk, and until an emptied one has caught up, nothing may break the other replicas.
    """
    if any(_meets_emptied(planned, other, context) for other in plan):
        return False
    if _is_permanent(planned):
        return all(_leaves_replica(other, planned, context) for other in plan)
    lost = (other for other in plan if _is_permanent(other))
    return all(_leaves_replica(planned, other, context) for other in lost)


def _meets_emptied(a: PlannedFault, b: PlannedFault, context: ClusterContext) -> bool:
    """Whether one of the faults empties a replica while the other may leave it without a whole peer."""
    kinds = (fault_named(a.kind), fault_named(b.kind))
    if not any(kind.empties for kind in kinds) or not all(kind.destructive for kind in kinds):
        return False
    if a.until_s + RESYNC_S <= b.at_s or b.until_s + RESYNC_S <= a.at_s:
        return False
    emptied, other = (a, b) if kinds[0].empties else (b, a)
    return _shares_replica(other, emptied, context)


def _is_permanent(planned: PlannedFault) -> bool:
    return fault_named(planned.kind).permanent


def _leaves_replica(other: PlannedFault, lost: PlannedFault, context: ClusterContext) -> bool:
    if other.until_s + RESYNC_S <= lost.at_s:
        return True
    if lost.targets[0] in other.targets:
        return False
    return not (fault_named(other.kind).destructive and _shares_replica(other, lost, context))


def _shares_replica(planned: PlannedFault, lost: PlannedFault, context: ClusterContext) -> bool:
    """Whether a fault strikes the replica set of the lost replica."""
    topology = context.topology
    name = topology.replica(lost.targets[0]).replica_set
    replicas = frozenset(replica.node for replica in topology.replicas_of(name))
    return bool(replicas & touched(planned))


def to_data(plan: Iterable[PlannedFault]) -> list[dict[str, object]]:
    """Return the plan as plain tables for TOML and JSON."""
    return [
        {
            "id": planned.fault_id,
            "kind": planned.kind,
            "at_s": planned.at_s,
            "duration_s": planned.duration_s,
            "targets": list(planned.targets),
            "params": planned.params,
            **({} if planned.after is None else {"after": planned.after.to_data()}),
        }
        for planned in plan
    ]


def from_data(rows: Sequence[dict[str, object]]) -> tuple[PlannedFault, ...]:
    """Read a plan. Raises FaultError, which names the entry, for one that is not a planned fault."""
    return tuple(_planned_from(row, number) for number, row in enumerate(rows))


def _planned_from(row: dict[str, Any], number: int) -> PlannedFault:
    try:
        planned = PlannedFault(
            fault_id=int(row.get("id", number)),
            kind=str(row["kind"]),
            at_s=float(row["at_s"]),
            duration_s=float(row["duration_s"]),
            targets=tuple(str(target) for target in row["targets"]),
            params=dict(row.get("params", {})),
            after=read_anchor(row["after"], f"fault {number}") if "after" in row else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FaultError(
            f"fault {number} of the plan is not valid ({error!r}); it needs kind, at_s, duration_s, targets"
        ) from error
    fault_named(planned.kind)
    return planned
