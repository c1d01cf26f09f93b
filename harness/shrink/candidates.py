"""Simpler campaigns of a campaign: one pass for each thing that can become less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

from staticfire.faults.errors import FaultError
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign, CampaignError
from staticfire.harness.draws.limits import check_campaign
from staticfire.harness.shrink.reducer import smaller_numbers, without_chunks

SENDS_MAX = 400  # where the bound on ops begins to be halved
TAIL_S = 2.0  # of load behind the last fault
FIRST_S = (0.5, 1.0, 2.0)  # when the first fault may strike
PLAIN_BYTES = 100
# Options that say what is run, how it is judged, or that have a pass of their own.
KEPT = frozenset(
    {"plan", "environment", "target", "client", "mode", "policies", "defect", "system", "token"}
    | {"brokers", "sends_max", "consumer_kind", "broker_properties", "name_server_properties"}
    | {"strategy"}
)


def ending(campaign: Campaign) -> Iterator[Campaign]:
    """The run as it was, ended early: only the first faults, and no load long after them."""
    plan = sorted(campaign.plan, key=lambda one: one.until_s)
    for count in smaller_numbers(len(plan), 1):
        yield _ending_after_faults(_with_plan(campaign, tuple(plan[:count])), 0.0)


def faults(campaign: Campaign) -> Iterator[Campaign]:
    for plan in without_chunks(campaign.plan):
        yield _with_plan(campaign, plan)


def clients(campaign: Campaign) -> Iterator[Campaign]:
    for name in ("producers", "consumers"):
        for count in smaller_numbers(getattr(campaign, name), 1):
            yield _with(campaign, {name: count})


def ops(campaign: Campaign) -> Iterator[Campaign]:
    """A lower bound on ops; the same with longer pauses, so that they last until the fault."""
    most = campaign.sends_max or SENDS_MAX
    for count in smaller_numbers(most, 1):
        yield replace(campaign, sends_max=count)
        spread = round(campaign.load_s * 1000 * campaign.producers / (count + 1), 1)
        if spread > campaign.think_ms:
            yield replace(campaign, sends_max=count, think_ms=spread)


def times(campaign: Campaign) -> Iterator[Campaign]:
    """The faults earlier, and no load long after the last one."""
    if not campaign.plan:
        for time_s in smaller_numbers(int(campaign.time_s), 1):
            yield replace(campaign, time_s=float(time_s), idle=(0.0, 0.0), quiet_s=0.0)
        return
    first_s = min(one.at_s for one in campaign.plan)
    for at_s in (*(at_s for at_s in FIRST_S if at_s < first_s), first_s):
        yield _ending_after_faults(campaign, at_s - first_s)


def gaps(campaign: Campaign) -> Iterator[Campaign]:
    """Faults nearer to each other."""
    plan = sorted(campaign.plan, key=lambda one: one.at_s)
    for index in range(1, len(plan)):
        gap_s = plan[index].at_s - plan[index - 1].until_s
        for kept_s in (1.0, 3.0):
            if gap_s > kept_s:
                by_s = kept_s - gap_s
                later = tuple(_moved(one, by_s) for one in plan[index:])
                moved = replace(campaign, plan=(*plan[:index], *later))
                yield _ending_after_faults(moved, 0.0)


def nodes(campaign: Campaign) -> Iterator[Campaign]:
    for count in smaller_numbers(campaign.name_servers, 1):
        yield _with(campaign, {"name_servers": count})
    slaves = campaign.slaves
    for masters in smaller_numbers(len(slaves), 1):
        yield _with(campaign, {"slaves": slaves[:masters]})
    for index, count in enumerate(slaves):
        if count:
            less = (*slaves[:index], count - 1, *slaves[index + 1 :])
            yield _with(campaign, {"slaves": less})
            if not any(less):
                yield _with(campaign, {"slaves": less, "replication": "none"})


def queues(campaign: Campaign) -> Iterator[Campaign]:
    for count in smaller_numbers(campaign.queues, 1):
        yield replace(campaign, queues=count)


def options(campaign: Campaign) -> Iterator[Campaign]:
    """Options back to their defaults, all and then fewer at once; and no properties of nodes."""
    plain: dict[str, Any] = {"broker_properties": (), "name_server_properties": ()}
    for field in fields(Campaign):
        if field.default is not MISSING and field.name not in KEPT:
            plain[field.name] = field.default
    plain["acks_min"] = 0
    changed = [(name, value) for name, value in plain.items() if getattr(campaign, name) != value]
    for left in without_chunks(changed):
        reset = [pair for pair in changed if pair not in left]
        yield replace(campaign, **dict(reset))


def sizes(campaign: Campaign) -> Iterator[Campaign]:
    yield replace(campaign, payload_bytes=(PLAIN_BYTES, PLAIN_BYTES))
    low = campaign.payload_bytes[0]
    yield replace(campaign, payload_bytes=(low, low))


def rounded(campaign: Campaign) -> Iterator[Campaign]:
    for digits in (0, 1):
        plan = tuple(
            replace(one, at_s=round(one.at_s, digits), duration_s=round(one.duration_s, digits))
            for one in campaign.plan
        )
        yield replace(campaign, plan=plan)


PASSES: dict[str, Callable[[Campaign], Iterator[Campaign]]] = {
    "ending": ending,
    "faults": faults,
    "times": times,
    "gaps": gaps,
    "clients": clients,
    "ops": ops,
    "nodes": nodes,
    "queues": queues,
    "options": options,
    "sizes": sizes,
    "rounded": rounded,
}


def allowed(candidates: Iterable[Campaign]) -> Iterator[Campaign]:
    """Those that a run accepts."""
    for campaign in candidates:
        try:
            check_campaign(campaign)
        except (CampaignError, FaultError):
            continue
        yield campaign


def _with_plan(campaign: Campaign, plan: tuple[PlannedFault, ...]) -> Campaign:
    return replace(campaign, plan=plan, faults=tuple(dict.fromkeys(one.kind for one in plan)))


def _with(campaign: Campaign, changes: dict[str, Any]) -> Campaign:
    """Lists that have an entry for each consumer are cut to what is left of them."""
    changed = replace(campaign, **changes)
    count = changed.consumers
    return replace(
        changed,
        consumer_topics=changed.consumer_topics[:count],
        expressions=changed.expressions[:count],
        plan=_on_nodes(changed),
    )


def _on_nodes(campaign: Campaign) -> tuple[PlannedFault, ...]:
    """The plan, its targets reduced to nodes that there are, where a fault has several of them."""
    topology = campaign.topology()
    there = {*topology.servers, *topology.clients}
    return tuple(
        replace(one, targets=kept)
        if (kept := tuple(node for node in one.targets if node in there))
        else one
        for one in campaign.plan
    )


def _moved(planned: PlannedFault, by_s: float) -> PlannedFault:
    return replace(planned, at_s=round(planned.at_s + by_s, 3))


def _ending_after_faults(campaign: Campaign, by_s: float) -> Campaign:
    """All faults moved, and the load ending behind the last of them if that is earlier."""
    plan = tuple(_moved(one, by_s) for one in campaign.plan)
    end_s = max(one.until_s for one in plan) + TAIL_S
    if end_s >= campaign.load_s:
        return replace(campaign, plan=plan)
    return replace(campaign, plan=plan, time_s=round(end_s, 3), idle=(0.0, 0.0), quiet_s=0.0)
