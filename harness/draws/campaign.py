"""Draws every option of a campaign that was not given from its seed, then the fault plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from random import Random
from typing import Any

from staticfire.faults.kinds.rights_change import RightsChange
from staticfire.faults.model.capabilities import OWN_NEED
from staticfire.faults.model.draws import between, pick, shuffled
from staticfire.faults.model.fault import ClusterContext, PlannedFault
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.faults.plans.plan import draw_plan
from staticfire.harness.campaign.campaign import (
    DEFAULT_SYSTEM,
    Campaign,
    CampaignError,
    OneOf,
    stream_of,
    with_current_names,
)
from staticfire.harness.campaign.options import OPTIONS
from staticfire.harness.draws.limits import check_campaign, check_new_campaign
from staticfire.harness.systems.errors import SystemRefused
from staticfire.harness.systems.registry import system_named, system_of
from staticfire.harness.systems.system import Draw

LONG_S = 30.0  # least length of a load with room for more than one fault
# Share of the seeds in which only one kind of fault strikes, and the seconds of load after it. No later fault can then
# accidentally repair what the first one left broken.
QUIET_SHARE = 0.05
QUIET_S = 60.0
IDLE_SHARE = 0.1  # share of the seeds in which clients send nothing for minutes
# Longer than brokers keep silent clients (120 s) and locks (60 s).
IDLE_S = (130.0, 190.0)
IDLE_MARGIN_S = 10.0  # load before and after the pause
GROUP_RESTART = "group-and-broker-crash"
GROUP_RESTART_SHARE = 0.1  # share of the seeds that draw it in place of another kind


def _draw_payload(random: Random, drawn: Mapping[str, object]) -> tuple[int, int]:
    fixed = random.random() < 0.25  # equal sizes line stale records up with fresh ones
    low = int(between(random, 64, 400))
    return (low, low) if fixed else (low, int(between(random, 500, 1500)))


def _draw_latency(random: Random, drawn: Mapping[str, object]) -> tuple[float, float]:
    low = round(between(random, 0.1, 0.5), 3)
    return (low, round(low * between(random, 1.5, 8.0), 3))


def _draw_think(random: Random, drawn: Mapping[str, Any]) -> float:
    per_second = between(random, 36.0, 48.0)  # sends a second, all producers together
    think_ms = 1000.0 * int(drawn["producers"]) / per_second
    if drawn["quiet_s"] and drawn["time_s"] > 0:
        think_ms *= 1.0 + drawn["quiet_s"] / drawn["time_s"]  # as many sends as without a quiet end
    return round(think_ms, 1)


def draw_faults(seed: int, available: Sequence[str]) -> tuple[str, ...]:
    """Draw a swarm: each seed has only some of the kinds, so that none dominates; then add the kinds beside it."""
    random = Random(f"staticfire/{seed}/faults")
    share = between(random, 0.3, 0.9)
    swarm = [name for name in available if FAULTS[name].in_swarms]
    kinds = [name for name in swarm if random.random() < share]
    left = [name for name in swarm if name not in kinds]
    while len(kinds) < min(7, len(swarm)):
        kinds.append(left.pop(int(random.random() * len(left))))
    kinds = shuffled(random, kinds)
    together = Random(f"staticfire/{seed}/group and broker")
    if GROUP_RESTART in available and together.random() < GROUP_RESTART_SHARE:
        kinds[-1] = GROUP_RESTART
    return tuple(kinds) + _draw_beside(seed, available)


def _draw_beside(seed: int, available: Sequence[str]) -> tuple[str, ...]:
    """Draw, each by itself, the kinds that come beside the swarm; they replace no other fault of the plan."""
    return tuple(
        name
        for name in available
        if Random(f"staticfire/{seed}/beside/{name}").random() < FAULTS[name].beside_share
    )


def _draw_share(random: Random, drawn: Mapping[str, object]) -> float:
    """Draw a share of sends of a special kind; 0 where each single send counts."""
    if drawn["gap_max_s"]:
        return 0.0
    return pick(random, (0.0, 0.0, 0.05, 0.2))


def _draw_async_share(random: Random, drawn: Mapping[str, object]) -> float:
    """Draw the share of asynchronous sends; 0 where gaps are measured, since such sends wait for a silent broker."""
    if drawn["gap_max_s"] or drawn["client"] != "own":
        return 0.0
    return pick(random, (0.0, 0.0, 0.2, 1.0))


def _draw_quiet_s(random: Random, drawn: Mapping[str, object]) -> float:
    if not _may_last(drawn) or not drawn["faults"]:
        return 0.0
    return QUIET_S if random.random() < QUIET_SHARE else 0.0


def _draw_idle(random: Random, drawn: Mapping[str, Any]) -> tuple[float, float]:
    share = random.random()
    if not _may_last(drawn) or share >= IDLE_SHARE:
        return (0.0, 0.0)
    at_s = between(random, IDLE_MARGIN_S, drawn["time_s"] - IDLE_MARGIN_S)
    return (round(at_s, 1), round(between(random, *IDLE_S), 1))


def _may_last(drawn: Mapping[str, Any]) -> bool:
    """Whether the load may last longer than the given time: only virtual seconds are cheap."""
    is_swarm = drawn["environment"] == "simulation" and "plan" not in drawn
    return is_swarm and drawn["time_s"] >= LONG_S and not drawn["gap_max_s"]


def _draw_target(random: Random, drawn: Mapping[str, object]) -> str:
    """Draw the first variant of the system that runs in this environment."""
    targets = system_named(drawn["system"]).targets
    here = (name for name, environments in targets.items() if drawn["environment"] in environments)
    return next(here, next(iter(targets)))


# In this order: the draw of an option may read earlier ones. The options of the system follow (`System.draws`).
_DRAWS: dict[str, Draw] = {
    "workload": lambda random, drawn: next(iter(system_named(drawn["system"]).workloads)),
    "time_s": lambda random, drawn: 60.0,
    "environment": lambda random, drawn: "simulation",
    "gap_max_s": lambda random, drawn: 0.0,
    "quiet_s": _draw_quiet_s,
    "idle": _draw_idle,
    "target": _draw_target,
    "client": lambda random, drawn: "own",
    "queues": lambda random, drawn: pick(random, (1, 2, 4, 4)),
    "producers": lambda random, drawn: pick(random, (3, 4, 5)),
    "consumers": lambda random, drawn: pick(random, (2, 3)),
    "think_ms": _draw_think,
    "payload_bytes": _draw_payload,
    "latency_ms": _draw_latency,
    "fsync_us": lambda random, drawn: int(between(random, 100, 3000)),
    "acks_min": lambda random, drawn: 100,
    "batch_share": lambda random, drawn: (
        0.0 if drawn["client"] != "own" else _draw_share(random, drawn)
    ),
    "one_way_share": _draw_share,
    "async_share": _draw_async_share,
}


def draw_campaign(seed: int, given: Mapping[str, Any], *, is_recorded: bool = False) -> Campaign:
    """Draw every option that is not in `given` from the seed, then the fault plan unless it is given.

    For an option given as `OneOf` the seed picks one of the values. With `is_recorded` the campaign is that of a run,
    which an earlier version with wider bounds may have made.

    Raises CampaignError for an unknown option or a value that is not allowed.
    """
    given = with_current_names(given)
    unknown = sorted(set(given) - {field.name for field in fields(Campaign)})
    if unknown:
        raise CampaignError(
            f"unknown campaign option {unknown[0]!r}; there are: {', '.join(OPTIONS)}"
        )
    drawn: dict[str, Any] = {
        option: pick(stream_of(seed, option), value.values) if isinstance(value, OneOf) else value
        for option, value in given.items()
    }
    drawn.setdefault("system", DEFAULT_SYSTEM)
    try:
        system = system_named(drawn["system"])
    except SystemRefused as error:
        raise CampaignError(str(error)) from error
    drawn = {**system.options, **drawn}
    if "faults" not in drawn:
        own = drawn.get("target", "own") == "own" and drawn.get("environment") != "address"
        drawn["faults"] = draw_faults(
            seed, [name for name in system.faults if own or OWN_NEED not in FAULTS[name].needs]
        )
    workload = system.workloads.get(drawn.get("workload", ""))
    if workload is not None:
        drawn = {**workload.options, **drawn}
    for option, draw in (*_DRAWS.items(), *system.draws.items()):
        if option not in drawn:
            drawn[option] = draw(stream_of(seed, option), drawn)
    if workload is not None and drawn["target"] != "address":
        properties = {**workload.broker_properties, **dict(drawn.get("broker_properties", ()))}
        drawn["broker_properties"] = tuple(sorted(properties.items()))
    plan = drawn.pop("plan", None)
    campaign = Campaign(**{**drawn, "seed": seed, "plan": plan or ()})
    check_campaign(campaign)
    if not is_recorded:
        check_new_campaign(campaign)
    if campaign.quiet_s and "quiet_s" not in given:
        campaign = replace(campaign, faults=_one_kind(campaign))
    return campaign if plan is not None else replace(campaign, plan=_draw_plan(campaign))


def _one_kind(campaign: Campaign) -> tuple[str, ...]:
    """Draw one of the kinds that can strike this cluster; empty if there is none."""
    random = Random(f"staticfire/{campaign.seed}/one kind")
    for kind in shuffled(random, campaign.faults):
        if _draw_plan(replace(campaign, faults=(kind,), acl=False)):
            return (kind,)
    return ()


def _draw_plan(campaign: Campaign) -> tuple[PlannedFault, ...]:
    random = Random(f"staticfire/{campaign.seed}/plan")
    workload = system_of(campaign).workloads[campaign.workload]
    more = tuple(
        kind
        for kind in (workload.faults if campaign.faults else ())
        if Random(f"staticfire/{campaign.seed}/share/{kind}").random() < FAULTS[kind].share
    )
    least = max(6, int(campaign.time_s / 10)) if campaign.time_s >= LONG_S else 0
    has_rights = campaign.acl and campaign.faults and not campaign.quiet_s
    if has_rights and RightsChange.name not in campaign.faults:
        more += (RightsChange.name,)
    named = [kind for kind in campaign.faults + more if kind not in workload.avoids]
    beside = tuple(kind for kind in named if _is_beside(kind))
    kinds = tuple(kind for kind in named if kind not in beside)
    # Each kind beside the swarm has a random stream of its own, so the rest of the campaign does not depend on it.
    count = max(len(kinds), least)
    known = context_of(campaign)
    plan = draw_plan(random, kinds, count, campaign.time_s, known)
    for kind in beside:
        random = Random(f"staticfire/{campaign.seed}/plan beside/{kind}")
        more_plan = draw_plan(random, (kind,), FAULTS[kind].beside_count, campaign.time_s, known)
        first_id = 1 + max((planned.fault_id for planned in plan), default=-1)
        plan += tuple(replace(one, fault_id=first_id + one.fault_id) for one in more_plan)
    together = sorted(plan, key=lambda one: (one.at_s, one.fault_id))
    return tuple(_put_off(planned, *campaign.idle) for planned in together)


def _is_beside(kind: str) -> bool:
    """Whether a kind comes beside the swarm; with accounts, so does a change of their rights."""
    return FAULTS[kind].beside_share > 0 or kind == RightsChange.name


def _put_off(planned: PlannedFault, idle_from_s: float, idle_s: float) -> PlannedFault:
    """Move faults that would strike while clients send nothing, and all later ones, behind that pause."""
    if planned.at_s < idle_from_s:
        return planned
    return replace(planned, at_s=round(planned.at_s + idle_s, 3))


def context_of(campaign: Campaign) -> ClusterContext:
    """Return the cluster as faults see it. In an external cluster they can break only clients' links to masters."""
    topology = campaign.topology()
    return ClusterContext(
        topology=replace(topology, replicas=topology.leaders) if campaign.is_external else topology,
        topic=campaign.topic,
        sync_flush=campaign.flush == "sync",
        replication=campaign.replication,
        acl=campaign.acl,
    )
