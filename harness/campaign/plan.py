"""What an entry of a fault plan may be: the nodes that its kind can strike, and the parameters that it needs.

A plan that was drawn is always within these rules; one that a user wrote or changed may not be, and a fault
that cannot be carried out is better refused than found out in the middle of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from staticfire.faults.errors import FaultError
from staticfire.faults.kinds.options_change import OPTIONS
from staticfire.faults.kinds.rights_change import RightsChange
from staticfire.faults.model.fault import PlannedFault
from staticfire.faults.model.shape import ClusterShape
from staticfire.faults.plans.plan import from_data
from staticfire.harness.campaign.campaign import SEED_MAX, TIME_S_MAX, Campaign, CampaignError
from staticfire.harness.truncated_repr import truncated_repr

PLAN_MAX = 10_000  # faults
_NUMBER: tuple[tuple[type, ...], str] = ((int, float), "a number")
_FIELDS: dict[str, tuple[tuple[type, ...], str]] = {
    "id": ((int,), "a whole number"),
    "kind": ((str,), "text"),
    "at_s": _NUMBER,
    "duration_s": _NUMBER,
    "targets": ((list,), "a list of nodes"),
    "params": ((dict,), "a table"),
}


def read_plan(rows: Any) -> tuple[PlannedFault, ...]:
    """A plan from the tables of a file. Raises CampaignError or FaultError."""
    if not isinstance(rows, list):
        raise CampaignError(f"plan is {truncated_repr(rows)}; allowed: a list of tables")
    if len(rows) > PLAN_MAX:
        raise CampaignError(f"plan has {len(rows)} faults; allowed: up to {PLAN_MAX}")
    for number, row in enumerate(rows):
        _check_row(row, f"fault {number} of the plan")
    return from_data(rows)


def _check_row(row: Any, place: str) -> None:
    if not isinstance(row, dict):
        raise CampaignError(f"{place} is {truncated_repr(row)}; allowed: a table")
    for name, value in row.items():
        if name not in _FIELDS:
            raise CampaignError(
                f"{place} has an unknown entry {truncated_repr(name)}; there are: {', '.join(_FIELDS)}"
            )
        types, words = _FIELDS[name]
        if not isinstance(value, types) or isinstance(value, bool):
            raise CampaignError(f"{name} of {place} is {truncated_repr(value)}; allowed: {words}")
    for target in row.get("targets", ()):
        if not isinstance(target, str):
            raise CampaignError(f"a target of {place} is {truncated_repr(target)}; allowed: text")
    if not 0 <= row.get("id", 0) <= SEED_MAX:
        raise CampaignError(
            f"id of {place} is {truncated_repr(row['id'])}; allowed: 0 to {SEED_MAX}"
        )
    if missing := [name for name in ("kind", "at_s", "duration_s", "targets") if name not in row]:
        raise FaultError(f"{place} lacks {missing[0]}; it needs kind, at_s, duration_s, targets")


def check_plan(campaign: Campaign) -> None:
    """Raises CampaignError with one sentence for the first entry that cannot be carried out."""
    seen: set[int] = set()
    for planned in campaign.plan:
        place = f"fault {planned.fault_id} ({planned.kind})"
        _require(planned.fault_id not in seen, "id", place, planned.fault_id, "each id once")
        seen.add(planned.fault_id)
        limit_s = f"0 to {campaign.load_s:g} seconds, the time of the load"
        _require(0 <= planned.at_s <= campaign.load_s, "at_s", place, planned.at_s, limit_s)
        _require(
            0 <= planned.duration_s <= TIME_S_MAX,
            "duration_s",
            place,
            planned.duration_s,
            f"0 to {TIME_S_MAX} seconds",
        )
        _check_entry(planned, place, campaign)


def _check_entry(planned: PlannedFault, place: str, campaign: Campaign) -> None:
    if planned.kind == RightsChange.name and not campaign.acl:
        raise CampaignError(f"{place} needs accounts, and acl is false; allowed: acl = true")
    rule = RULES.get(planned.kind)
    if rule is None:
        return
    shape = campaign.shape()
    _check_targets(planned, place, rule, shape)
    choices = rule.params if isinstance(rule.params, tuple) else (rule.params,)
    params = next((p for p in choices if p.keys() == planned.params.keys()), None)
    allowed = " or ".join(", ".join(sorted(choice)) or "none" for choice in choices)
    _require(params is not None, "params", place, planned.params, f"exactly these: {allowed}")
    assert params is not None
    for name, param in params.items():
        value = planned.params[name]
        _require(param.accepts(value, campaign), name, place, value, param.allowed(campaign))


def _check_targets(planned: PlannedFault, place: str, rule: Rule, shape: ClusterShape) -> None:
    targets = planned.targets
    roles = rule.roles[:-1] if rule.many else rule.roles
    right = len(targets) >= len(roles) and all(
        target in ROLES[role](shape) for target, role in zip(targets, roles, strict=False)
    )
    words = [
        f"one of {', '.join(ROLES[role](shape)) or 'none: this cluster has no such node'}"
        for role in roles
    ]
    rest = targets[len(roles) :]
    if rule.many:
        nodes = ROLES[rule.roles[-1]](shape)
        right = right and 0 < len(rest) == len(set(rest)) and set(rest) <= set(nodes)
        words.append(f"one or more, each once, of {', '.join(nodes)}")
    else:
        right = right and not rest
    _require(right, "targets", place, list(targets), " and ".join(words) or "none")


def _require(condition: bool, name: str, place: str, value: object, allowed: str) -> None:
    if not condition:
        raise CampaignError(f"{name} of {place} is {truncated_repr(value)}; allowed: {allowed}")


# What each kind needs


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: what it may be, in code and in words; both may depend on the campaign."""

    accepts: Callable[[Any, Campaign], bool]
    allowed: Callable[[Campaign], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The role of each target (`many`: any number of the last role), and the parameters, or the choices of them."""

    roles: tuple[str, ...]
    many: bool = False
    params: Mapping[str, Param] | tuple[Mapping[str, Param], ...] = field(default_factory=dict)


def _whole(low: int, high: int) -> Param:
    return Param(
        lambda value, _: type(value) is int and low <= value <= high,
        lambda _: f"a whole number from {low} to {high}",
    )


def _number(low: float, high: float) -> Param:
    return Param(
        lambda value, _: type(value) in (int, float) and low <= value <= high,
        lambda _: f"a number from {low:g} to {high:g}",
    )


def _one_of(choices: Callable[[Campaign], Sequence[str]]) -> Param:
    return Param(
        lambda value, campaign: type(value) is str and value in choices(campaign),
        lambda campaign: f"one of {', '.join(choices(campaign))}",
    )


def _is_list_of_nodes(value: Any, campaign: Campaign) -> bool:
    nodes = every_node(campaign.shape())
    return isinstance(value, list | tuple) and all(
        isinstance(node, str) and node in nodes for node in value
    )


def _are_pairs(value: Any, campaign: Campaign) -> bool:
    return isinstance(value, list | tuple) and all(
        _is_list_of_nodes(pair, campaign) and len(pair) == 2 and pair[0] != pair[1]
        for pair in value
    )


def every_node(shape: ClusterShape) -> tuple[str, ...]:
    return shape.servers + shape.clients


ROLES: dict[str, Callable[[ClusterShape], tuple[str, ...]]] = {
    "node": every_node,
    "server": lambda shape: shape.servers,
    "broker": lambda shape: tuple(broker.node for broker in shape.brokers),
    "master": lambda shape: tuple(broker.node for broker in shape.masters),
    "slave": lambda shape: tuple(b.node for b in shape.brokers if not b.is_master),
    "name server": lambda shape: shape.name_servers,
    "client": lambda shape: shape.clients,
    "consumer": lambda shape: shape.consumers,
}
_NODES = Param(_is_list_of_nodes, lambda _: "a list of nodes")
_PAIRS = Param(_are_pairs, lambda _: "a list of pairs of two nodes")
_NAME_SERVER = _one_of(lambda campaign: campaign.shape().name_servers)
_FREE_BYTES = _whole(0, 2**40)
_AHEAD = _whole(1, 10**9)
_PARTITION = Rule(roles=("broker",), params={"drop": _PAIRS})

_POWER_CUT: tuple[dict[str, Param], ...] = (
    {},
    {"slow_factor": _number(1, 10**6), "slow_s": _number(0, TIME_S_MAX)},
)
RULES: dict[str, Rule] = {
    "kill": Rule(roles=("server",)),
    "graceful-stop": Rule(roles=("server",)),
    "pause": Rule(roles=("server",)),
    "rolling-restart": Rule(roles=("broker",), many=True),
    "power-cut": Rule(roles=("server",), many=True, params=_POWER_CUT),
    "power-cut-in-operation": Rule(
        roles=("server",), params=({"sync": _AHEAD}, {"operation": _AHEAD})
    ),
    "cluster-power-cut": Rule(roles=("server",), many=True, params=_POWER_CUT),
    "partition-halves": _PARTITION,
    "partition-one": _PARTITION,
    "partition-one-way": _PARTITION,
    "partition-bridge": _PARTITION,
    "partition-ring": _PARTITION,
    "broker-black-hole": Rule(roles=("broker",)),
    "network-latency": Rule(roles=("server",), params={"delay_ms": _number(0.1, 60_000)}),
    "packet-loss": Rule(roles=("server",), params={"percent": _number(0.01, 100)}),
    "bandwidth": Rule(roles=("server",), params={"bits_per_s": _whole(8000, 10**12)}),
    "disk-full": Rule(
        roles=("server",),
        params=(
            {"free_bytes": _FREE_BYTES, "over_s": _number(0, TIME_S_MAX)},
            {"free_bytes": _FREE_BYTES},
        ),
    ),
    "failing-disk": Rule(
        roles=("server",), params={"writes": _whole(0, 10**6), "fsyncs": _whole(0, 10**6)}
    ),
    "slow-disk": Rule(roles=("server",), params={"factor": _number(1, 10**6)}),
    "bit-rot": Rule(roles=("master",), params={"share": _number(0, 1)}),
    "wiped-slave": Rule(roles=("slave",)),
    "disk-lost": Rule(
        roles=("master",), params={"alone_s": _number(0, TIME_S_MAX), "slaves": _NODES}
    ),
    "clock-skew": Rule(roles=("node",), params={"step_ms": _whole(-(10**10), 10**10)}),
    "name-server-freeze": Rule(roles=("name server",)),
    "name-server-black-hole": Rule(roles=("name server",)),
    "name-server-freeze-in-rolling-restart": Rule(roles=("name server", "broker"), many=True),
    "name-server-amnesia": Rule(roles=("name server",)),
    "split-name-servers": Rule(
        roles=("broker", "client"),
        params={"broker_sees": _NAME_SERVER, "client_sees": _NAME_SERVER},
    ),
    "topic-change": Rule(
        roles=(),
        params={"topic": _one_of(lambda campaign: (campaign.topic,)), "queues": _whole(1, 64)},
    ),
    "offsets-reset": Rule(roles=(), params={"topic": _one_of(lambda campaign: (campaign.topic,))}),
    "topic-anew": Rule(roles=()),
    "offsets-cloned": Rule(roles=()),
    "cleaning": Rule(roles=()),
    "options-change": Rule(roles=(), params={"option": _one_of(lambda _: OPTIONS)}),
    "rights-change": Rule(roles=()),
    "client-crash": Rule(roles=("client",)),
    "member-leaves": Rule(roles=("consumer",)),
    "filter-change": Rule(roles=("consumer",), many=True),
    "group-and-broker-crash": Rule(roles=("broker", "consumer"), many=True),
    "slow-consumer": Rule(roles=("consumer",), params={"delay_s": _number(0, TIME_S_MAX)}),
    "failing-listener": Rule(roles=("consumer",), params={"share": _number(0, 1)}),
}
