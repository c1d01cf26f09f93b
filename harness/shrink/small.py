"""Makes small campaigns from a few faults and ops of a large one.

Deletion cannot shrink a run in which every change moves later events. Such a failure often also occurs in a small
campaign: a few of the faults close together, with a few ops between them. A small run is cheap, so many are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import SEED_MAX, Campaign
from staticfire.harness.campaign.ops import PlannedOp
from staticfire.harness.shrink.timing import ending_at
from staticfire.harness.shrink.trials import Trial
from staticfire.harness.shrink.witness import with_plan

TRIES = 32
FAULTS = (1, 2, 3, 4)  # numbers of faults of a campaign, in turn
OPS = (6, 20, 60)
FIRST_S = 0.5
GAPS_S = (0.0, 0.05, 0.3, 1.0, 3.0)  # between a fault and the next
LONGEST_S = (0.3, 1.0, 3.0)  # greatest duration of a fault
BURST_S = 0.5
TAIL_S = 3.0  # of load after the last fault
HOLDER_WEIGHT = 4  # weight of a fault that strikes a replica with the failed message
SMALL = (3, 10)  # faults and ops of a campaign that is already small


def small(trial: Trial) -> Iterator[Campaign]:
    """Yield small campaigns, drawn from the campaign's seed; none if the campaign is already small."""
    campaign = trial.campaign
    ops = trial.ops if campaign.ops is None else campaign.ops
    if not campaign.plan or not ops or (len(campaign.plan) <= SMALL[0] and len(ops) <= SMALL[1]):
        return
    random = Random(f"small {campaign.seed}")
    for number in range(TRIES):
        plan = _plan(trial, FAULTS[number % len(FAULTS)], random)
        end_s = max(one.until_s for one in plan)
        begin_s, until_s = 0.0, end_s + TAIL_S / 2
        if random.random() < 0.5:  # a burst around the begin of a fault
            struck_s = random.choice(plan).at_s
            begin_s, until_s = max(struck_s - BURST_S, 0.0), struck_s + BURST_S / 2
        load = _spread(trial, ops, random.choice(OPS), (begin_s, until_s), random)
        if len(plan) + len(load) < len(campaign.plan) + len(ops):
            seed = (campaign.seed + number) % SEED_MAX
            made = replace(campaign, ops=load, acks_min=0, seed=seed)
            yield ending_at(with_plan(made, plan), end_s + TAIL_S)


def _plan(trial: Trial, count: int, random: Random) -> list[PlannedFault]:
    """Return some of the faults in their order, each soon after the begin or the end of the one before."""
    at_s = FIRST_S
    plan = []
    for one in _chosen(trial, count, random):
        at_s += random.choice(GAPS_S)
        duration_s = min(one.duration_s, random.choice(LONGEST_S))
        plan.append(replace(one, at_s=round(at_s, 3), duration_s=duration_s, after=None))
        if random.random() < 0.5:
            at_s += duration_s
    return plan


def _chosen(trial: Trial, count: int, random: Random) -> Sequence[PlannedFault]:
    left = list(trial.campaign.plan)
    holders = trial.witness.nodes if trial.witness else frozenset()
    chosen: list[PlannedFault] = []
    while left and len(chosen) < count:
        weights = [1 if holders.isdisjoint(one.targets) else HOLDER_WEIGHT for one in left]
        [one] = random.choices(left, weights)
        left.remove(one)
        chosen.append(one)
    return sorted(chosen, key=lambda one: (one.at_s, one.fault_id))


def _spread(
    trial: Trial,
    ops: Sequence[PlannedOp],
    count: int,
    times_s: tuple[float, float],
    random: Random,
) -> tuple[PlannedOp, ...]:
    """Return some of the ops in their order, the witness's among them, at even times between the two given."""
    key = trial.witness.key if trial.witness else None
    own = [number for number, op in enumerate(ops) if key is not None and key in op.keys]
    drawn = random.sample(range(len(ops)), min(count, len(ops)))
    numbers = sorted({*own, *drawn}, key=lambda number: (ops[number].at_s, number))
    begin_s, until_s = times_s
    step_s = (until_s - begin_s) / len(numbers)
    return tuple(
        replace(ops[number], at_s=round(begin_s + index * step_s, 3))
        for index, number in enumerate(numbers)
    )
