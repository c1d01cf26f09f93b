"""Candidates: simpler forms of a campaign, with one pass for each kind of simplification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from typing import Any

from staticfire.faults.errors import FaultError
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign, CampaignError
from staticfire.harness.campaign.ops import PlannedOp
from staticfire.harness.draws.limits import check_campaign
from staticfire.harness.shrink.reducer import (
    Deletion,
    Pass,
    Variants,
    smaller_numbers,
    without_chunks,
)
from staticfire.harness.shrink.small import small
from staticfire.harness.shrink.thinning import thinned
from staticfire.harness.shrink.timing import earlier, earlier_end, rounded, shorter_pauses
from staticfire.harness.shrink.trials import SEEDS, Trial
from staticfire.harness.shrink.witness import anchored, closer, explicit, with_plan

PLAIN_BYTES = 100
LOG_FILE_BYTES_MIN = 4096
MANY_OPS = 50
FEW_SEEDS = (
    2  # seeds of a candidate with a long run, and of one of the many candidates without some ops
)
# Options that decide the load or its verdict, or that have a pass of their own.
KEPT = frozenset(
    {"plan", "environment", "target", "client", "mode", "policies", "defect", "system", "token"}
    | {"brokers", "sends_max", "consumer_kind", "broker_properties", "coordinator_properties"}
    | {"strategy", "ops"}
)


def clients(campaign: Campaign) -> Iterator[Campaign]:
    """Yield candidates with fewer producers, which take over the ops of the others, or fewer consumers."""
    for name in ("producers", "consumers"):
        for count in smaller_numbers(getattr(campaign, name), 1):
            yield _with(campaign, {name: count})


def nodes(campaign: Campaign) -> Iterator[Campaign]:
    for count in smaller_numbers(campaign.coordinators, 1):
        yield _with(campaign, {"coordinators": count})
    followers = campaign.followers
    for leaders in smaller_numbers(len(followers), 1):
        yield _with(campaign, {"followers": followers[:leaders]})
    for index, count in enumerate(followers):
        if count:
            less = (*followers[:index], count - 1, *followers[index + 1 :])
            yield _with(campaign, {"followers": less})
            if not any(less):
                yield _with(campaign, {"followers": less, "replication": "none"})


def queues(campaign: Campaign) -> Iterator[Campaign]:
    for count in smaller_numbers(campaign.queues, 1):
        yield replace(campaign, queues=count)


def options(campaign: Campaign) -> Iterator[Campaign]:
    """Yield candidates with options at their defaults, all and then fewer at once; and without node properties."""
    plain: dict[str, Any] = {"broker_properties": (), "coordinator_properties": ()}
    for field in fields(Campaign):
        if field.default is not MISSING and field.name not in KEPT:
            plain[field.name] = field.default
    plain["acks_min"] = 0
    changed = [(name, value) for name, value in plain.items() if getattr(campaign, name) != value]
    for left in without_chunks(changed):
        reset = [pair for pair in changed if pair not in left]
        yield replace(campaign, **dict(reset))


def sizes(campaign: Campaign) -> Iterator[Campaign]:
    """Yield candidates whose bodies all have one small size."""
    small = replace(campaign, payload_bytes=(PLAIN_BYTES, PLAIN_BYTES))
    yield replace(small, ops=campaign.ops and tuple(map(_small, campaign.ops)))
    yield small


def _small(op: PlannedOp) -> PlannedOp:
    if op.f == "send_batch":
        messages = [{**message, "size": PLAIN_BYTES} for message in op.value["messages"]]
        return replace(op, value={**op.value, "messages": messages})
    return replace(op, value={**op.value, "size": PLAIN_BYTES})


def log_files(campaign: Campaign) -> Iterator[Campaign]:
    """Yield candidates with smaller files of the log, so that fewer ops fill one."""
    size = LOG_FILE_BYTES_MIN
    while size < campaign.log_file_bytes:
        yield replace(campaign, log_file_bytes=size)
        size *= 2


def plainer_ops(campaign: Campaign) -> Iterator[Campaign]:
    """Yield candidates with single messages instead of batches, and with synchronous sends instead of other kinds."""
    if campaign.ops is None:
        return
    plain = tuple(
        replace(
            op,
            value={
                name: value for name, value in op.value.items() if name not in ("one_way", "async")
            },
        )
        for op in campaign.ops
    )
    yield replace(campaign, ops=plain)
    for index, op in enumerate(campaign.ops):
        if op.f == "send_batch":
            for message in op.value["messages"]:
                alone = replace(op, f="send", value={**message, "topic": op.value["topic"]})
                yield replace(
                    campaign, ops=(*campaign.ops[:index], alone, *campaign.ops[index + 1 :])
                )


def _ops(trial: Trial) -> Sequence[PlannedOp]:
    return trial.campaign.ops or ()


def _with_ops(trial: Trial, ops: Sequence[PlannedOp]) -> Trial | None:
    return _candidate(replace(trial.campaign, ops=tuple(ops)), FEW_SEEDS)


def _faults(trial: Trial) -> Sequence[PlannedFault]:
    return trial.campaign.plan


def _with_faults(trial: Trial, plan: Sequence[PlannedFault]) -> Trial | None:
    return _candidate(with_plan(trial.campaign, plan))


def _of_campaign(simpler: Callable[[Campaign], Iterator[Campaign]]) -> Variants[Trial]:
    return _of_trial(lambda trial: simpler(trial.campaign))


def _of_trial(simpler: Callable[[Trial], Iterator[Campaign]]) -> Variants[Trial]:
    return Variants(lambda trial: filter(None, map(_candidate, simpler(trial))))


def _singly(campaigns: Iterator[Campaign]) -> Iterator[Trial]:
    """Yield candidates that are tried with one seed each."""
    return filter(None, (_candidate(campaign, 1) for campaign in campaigns))


def _as_data(trial: Trial) -> Iterator[Campaign]:
    if trial.campaign.ops is None:
        yield explicit(trial)


PASSES: Mapping[str, Pass[Trial]] = {
    "witness": _of_trial(closer),
    "small": Variants(lambda trial: _singly(small(trial))),
    "as data": _of_trial(_as_data),
    "log files": _of_campaign(log_files),
    "thinned": _of_trial(thinned),
    "faults": Deletion(_faults, _with_faults),
    "end": _of_trial(earlier_end),
    "ops": Deletion(_ops, _with_ops),
    "clients": _of_campaign(clients),
    "nodes": _of_campaign(nodes),
    "queues": _of_campaign(queues),
    "options": _of_campaign(options),
    "earlier": _of_trial(earlier),
    "pauses": _of_trial(shorter_pauses),
    "anchors": _of_trial(anchored),
    "sizes": _of_campaign(sizes),
    "plainer": _of_campaign(plainer_ops),
    "rounded": _of_trial(rounded),
}


def _candidate(campaign: Campaign, seeds: int = SEEDS) -> Trial | None:
    """Return a candidate to run; None if no run accepts it. A large one gets fewer seeds."""
    if campaign.ops is None or len(campaign.ops) > MANY_OPS:
        seeds = min(seeds, FEW_SEEDS)
    try:
        check_campaign(campaign)
    except (CampaignError, FaultError):
        return None
    return Trial(campaign=campaign, digest="", sends=0, fingerprint=None, seeds=seeds)


def _with(campaign: Campaign, changes: dict[str, Any]) -> Campaign:
    """Return the campaign with these changes.

    Lists by consumer, and ops, are cut to the remaining consumers and producers.
    """
    changed = replace(campaign, **changes)
    count = changed.consumers
    producers = changed.topology().producers
    ops = changed.ops and tuple(
        op if op.node in producers else replace(op, node=producers[0]) for op in changed.ops
    )
    return replace(
        changed,
        consumer_topics=changed.consumer_topics[:count],
        expressions=changed.expressions[:count],
        plan=_on_nodes(changed),
        ops=ops,
    )


def _on_nodes(campaign: Campaign) -> tuple[PlannedFault, ...]:
    """Return the plan with targets reduced to existing nodes, for faults with several targets."""
    topology = campaign.topology()
    there = {*topology.servers, *topology.clients}
    return tuple(
        replace(one, targets=kept)
        if (kept := tuple(node for node in one.targets if node in there))
        else one
        for one in campaign.plan
    )
