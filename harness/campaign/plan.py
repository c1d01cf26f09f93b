"""Checks entries of a fault plan against what each kind of fault declares: roles of targets, and parameters.

A drawn plan always keeps these rules. A plan that a user wrote or changed may break them, and is refused before the
run instead of failing in the middle of it.
"""

from __future__ import annotations

from staticfire.faults.errors import FaultError
from staticfire.faults.model.anchor import DISK_EVENTS, EVENTS, Anchor, check_anchor
from staticfire.faults.model.fault import Fault, PlannedFault
from staticfire.faults.model.params import ROLES, TIME_S_MAX
from staticfire.faults.model.topology import Topology
from staticfire.faults.plans.catalogue import fault_named
from staticfire.faults.plans.plan import from_data
from staticfire.harness.campaign.campaign import SEED_MAX, Campaign, CampaignError
from staticfire.harness.truncated_repr import truncated_repr

PLAN_MAX = 10_000  # faults in a plan
_NUMBER: tuple[tuple[type, ...], str] = ((int, float), "a number")
_FIELDS: dict[str, tuple[tuple[type, ...], str]] = {
    "id": ((int,), "a whole number"),
    "kind": ((str,), "text"),
    "at_s": _NUMBER,
    "duration_s": _NUMBER,
    "targets": ((list,), "a list of nodes"),
    "params": ((dict,), "a table"),
    "after": ((dict,), "a table"),
}


def read_plan(rows: object) -> tuple[PlannedFault, ...]:
    """Read a plan from the tables of a file. Raises CampaignError, FaultError."""
    if not isinstance(rows, list):
        raise CampaignError(f"plan is {truncated_repr(rows)}; allowed: a list of tables")
    if len(rows) > PLAN_MAX:
        raise CampaignError(f"plan has {len(rows)} faults; allowed: up to {PLAN_MAX}")
    for number, row in enumerate(rows):
        _check_row(row, f"fault {number} of the plan")
    return from_data(rows)


def _check_row(row: object, entry: str) -> None:
    if not isinstance(row, dict):
        raise CampaignError(f"{entry} is {truncated_repr(row)}; allowed: a table")
    for name, value in row.items():
        if name not in _FIELDS:
            raise CampaignError(
                f"{entry} has an unknown entry {truncated_repr(name)}; there are: {', '.join(_FIELDS)}"
            )
        types, words = _FIELDS[name]
        if not isinstance(value, types) or isinstance(value, bool):
            raise CampaignError(f"{name} of {entry} is {truncated_repr(value)}; allowed: {words}")
    for target in row.get("targets", ()):
        if not isinstance(target, str):
            raise CampaignError(f"a target of {entry} is {truncated_repr(target)}; allowed: text")
    if not 0 <= row.get("id", 0) <= SEED_MAX:
        raise CampaignError(
            f"id of {entry} is {truncated_repr(row['id'])}; allowed: 0 to {SEED_MAX}"
        )
    if missing := [name for name in ("kind", "at_s", "duration_s", "targets") if name not in row]:
        raise FaultError(f"{entry} lacks {missing[0]}; it needs kind, at_s, duration_s, targets")


def check_plan(campaign: Campaign) -> None:
    """Raises CampaignError with one sentence for the first entry that cannot be carried out."""
    seen: set[int] = set()
    for planned in campaign.plan:
        entry = f"fault {planned.fault_id} ({planned.kind})"
        _require(planned.fault_id not in seen, "id", entry, planned.fault_id, "each id once")
        seen.add(planned.fault_id)
        limit_s = f"0 to {campaign.load_s:g} seconds, the time of the load"
        _require(0 <= planned.at_s <= campaign.load_s, "at_s", entry, planned.at_s, limit_s)
        _require(
            0 <= planned.duration_s <= TIME_S_MAX,
            "duration_s",
            entry,
            planned.duration_s,
            f"0 to {TIME_S_MAX} seconds",
        )
        _check_entry(planned, entry, campaign)
        if planned.after is not None:
            _check_anchor(planned.after, entry, campaign, planned.fault_id)


def _check_anchor(anchor: Anchor, entry: str, campaign: Campaign, fault_id: int) -> None:
    simulated = campaign.environment == "simulation"
    there = [event for event in EVENTS if simulated or event not in DISK_EVENTS]
    _require(anchor.event in there, "event", entry, anchor.event, ", ".join(there))
    others = [one.fault_id for one in campaign.plan if one.fault_id != fault_id]
    try:
        check_anchor(anchor, entry, campaign.topology().servers, others)
    except FaultError as error:
        raise CampaignError(str(error)) from error


def _check_entry(planned: PlannedFault, entry: str, campaign: Campaign) -> None:
    fault, topology = fault_named(planned.kind), campaign.topology()
    if fault.needs_accounts and not campaign.acl:
        raise CampaignError(f"{entry} needs accounts, and acl is false; allowed: acl = true")
    _check_targets(planned, entry, fault, topology)
    params = next((p for p in fault.params if p.keys() == planned.params.keys()), None)
    allowed = " or ".join(", ".join(sorted(form)) or "none" for form in fault.params)
    _require(params is not None, "params", entry, planned.params, f"exactly these: {allowed}")
    assert params is not None
    for name, param in params.items():
        value = planned.params[name]
        right = param.accepts(value, topology, campaign.topic)
        _require(right, name, entry, value, param.allowed(topology, campaign.topic))


def _check_targets(planned: PlannedFault, entry: str, fault: Fault, topology: Topology) -> None:
    targets = planned.targets
    roles = fault.roles[:-1] if fault.many else fault.roles
    right = len(targets) >= len(roles) and all(
        target in ROLES[role](topology) for target, role in zip(targets, roles, strict=False)
    )
    words = [
        f"one of {', '.join(ROLES[role](topology)) or 'none: this cluster has no such node'}"
        for role in roles
    ]
    rest = targets[len(roles) :]
    if fault.many:
        nodes = ROLES[fault.roles[-1]](topology)
        right = right and 0 < len(rest) == len(set(rest)) and set(rest) <= set(nodes)
        words.append(f"one or more, each once, of {', '.join(nodes)}")
    else:
        right = right and not rest
    _require(right, "targets", entry, list(targets), " and ".join(words) or "none")


def _require(condition: bool, name: str, entry: str, value: object, allowed: str) -> None:
    if not condition:
        raise CampaignError(f"{name} of {entry} is {truncated_repr(value)}; allowed: {allowed}")
