"""Candidates reduced to the witness: its message, the preceding fault, and few ops around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from staticfire.faults.kinds.power_cut import PowerCutInOperation
from staticfire.faults.model.anchor import Anchor
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.campaign.ops import PlannedOp
from staticfire.harness.shrink.timing import ending_at
from staticfire.harness.shrink.trials import Moments, Trial, Witness

AROUND = 8  # ops before the failure, including the witness
TAIL_S = 3.0  # of load after the last kept event


def explicit(trial: Trial) -> Campaign:
    """Return the same campaign with its ops as data."""
    return replace(trial.campaign, ops=trial.ops, acks_min=0)


def closer(trial: Trial) -> Iterator[Campaign]:
    """Yield candidates with only the ops and faults nearest to the witness, the fewest first."""
    witness = trial.witness
    if witness is None:
        return
    campaign = explicit(trial)
    assert campaign.ops is not None
    last = [one for one in campaign.plan if one.fault_id == witness.fault_id]
    end_s = max([witness.shown_s, *(trial.struck[one.fault_id].over_s for one in last)])
    until = [op for op in campaign.ops if op.at_s <= witness.shown_s]
    own = [op for op in until if witness.key is not None and witness.key in op.keys]
    near = sorted(until, key=lambda op: op.at_s)[-AROUND:]
    near += [op for op in own if op not in near]
    before = [one for one in campaign.plan if one.at_s <= end_s]
    holders = [one for one in before if not witness.nodes.isdisjoint(one.targets)]
    anchored = anchored_plan(last, trial.struck, witness)
    choices: list[tuple[Sequence[PlannedFault], Sequence[PlannedOp]]] = [
        ((), own),
        *([(anchored, own)] if anchored else []),
        (last, own),
        ((), near),
        *([(anchored, near)] if anchored else []),
        (last, near),
        (before, own),
        (before, near),
        *([(holders, near)] if holders else []),
        (last, [op for op in campaign.ops if op.at_s <= end_s]),
        *([(holders, [op for op in campaign.ops if op.at_s <= end_s])] if holders else []),
        (before, [op for op in campaign.ops if op.at_s <= end_s]),
    ]
    size = len(campaign.plan) + len(campaign.ops)
    for plan, ops in choices:
        if len(plan) + len(ops) < size or trial.campaign.ops is None:
            kept = with_plan(replace(campaign, ops=tuple(ops)), plan)
            yield ending_at(kept, min(end_s + TAIL_S, campaign.load_s))


def anchored(trial: Trial) -> Iterator[Campaign]:
    """Yield candidates whose faults strike at events of the witness instead of times: all faults, then each."""
    campaign, witness = trial.campaign, trial.witness
    timed = [one for one in campaign.plan if one.after is None]
    if witness is None or witness.key is None or not timed:
        return
    for chosen in (timed, *([one] for one in timed)) if len(timed) > 1 else (timed,):
        for form in range(_FORMS):
            plan = [
                _anchored(one, trial.struck.get(one.fault_id), witness, form)
                if one in chosen
                else one
                for one in campaign.plan
            ]
            if plan != list(campaign.plan):
                yield with_plan(campaign, plan)


def anchored_plan(
    plan: Sequence[PlannedFault], struck: Mapping[int, Moments], witness: Witness
) -> list[PlannedFault]:
    """Return the plan with each fault at an event of the witness; empty if no fault can be."""
    found = [_anchored(one, struck.get(one.fault_id), witness, 0) for one in plan]
    return found if found != list(plan) else []


_FORMS = 3  # the number of forms in which a fault may be anchored


def _anchored(
    planned: PlannedFault, moments: Moments | None, witness: Witness, form: int
) -> PlannedFault:
    """Return the fault at an event of the witness, its answer or its send; an earlier fault does not change.

    A power cut inside a disk operation may strike inside the flush of the message (form 1), or inside the first
    operation after its append (form 2).
    """
    if moments is None or witness.key is None or witness.send_s is None:
        return planned
    if planned.after is not None:
        return planned
    if planned.kind == PowerCutInOperation.name and form:
        anchor = Anchor(event="append", node=planned.targets[0], key=witness.key)
        params = {"sync": 1} if form == 1 else {"operation": 1}
        return replace(planned, at_s=0.0, params=params, after=anchor)
    for event, event_s in (("ack", witness.ack_s), ("send", witness.send_s)):
        if event_s is not None and moments.fired_s >= event_s:
            delay_ms = round((moments.fired_s - event_s) * 1000, 3)
            anchor = Anchor(event=event, key=witness.key, delay_ms=delay_ms)
            return replace(planned, at_s=0.0, after=anchor)
    return planned


def with_plan(campaign: Campaign, plan: Sequence[PlannedFault]) -> Campaign:
    return replace(
        campaign, plan=tuple(plan), faults=tuple(dict.fromkeys(one.kind for one in plan))
    )
