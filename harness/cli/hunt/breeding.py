"""Breeds campaigns from those that reached something new, by small changes of their plans and options.

A guided hunt runs in generations of GENERATION seeds. In the first generation all campaigns are drawn from their seeds.
Later every other campaign is bred from a campaign of a former generation whose run was the first to show some
behaviour. The bred campaigns depend only on seeds and results, not on the number of processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from random import Random

from staticfire.faults.errors import FaultError
from staticfire.faults.model.draws import pick
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign, CampaignError
from staticfire.harness.draws.limits import check_campaign

GENERATION = 16
ATTEMPTS = 12  # attempts to change a campaign so that a run accepts it
MOVE_S = 5.0  # greatest move of a fault, in either direction
PARENTS_MAX = 64  # the newest are kept
# Options that a bred campaign may take from one that was drawn from its own seed.
OPTIONS = (
    "flush",
    "coordinators",
    "queues",
    "producers",
    "consumers",
    "think_ms",
    "payload_bytes",
    "latency_ms",
    "fsync_us",
    "log_file_bytes",
    "batch_share",
    "one_way_share",
    "async_share",
    "large_share",
    "strategy",
    "consumer_kind",
    "broker_properties",
)
Behaviour = tuple[str, int]  # a mark of coverage, and the order of magnitude of its count


def behaviours_of(coverage: Mapping[str, int]) -> frozenset[Behaviour]:
    """Return the behaviours of a run: each mark that it reached, with the order of magnitude (base 2) of its count."""
    return frozenset((name, count.bit_length()) for name, count in coverage.items() if count)


@dataclass(slots=True)
class Population:
    """The campaigns that reached something new, oldest first, and all behaviours seen so far."""

    parents: list[Campaign]
    known: set[Behaviour]

    def take(self, campaign: Campaign, coverage: Mapping[str, int]) -> bool:
        """Take a run; return whether it showed anything new, so that its campaign becomes a parent."""
        fresh = behaviours_of(coverage) - self.known
        self.known |= fresh
        if fresh:
            self.parents = [*self.parents, campaign][-PARENTS_MAX:]
        return bool(fresh)


def is_bred(index: int, population: Population) -> bool:
    """Whether the seed at this index of the hunt is bred and not drawn."""
    return index >= GENERATION and index % 2 == 1 and bool(population.parents)


def bred(drawn: Campaign, parents: Sequence[Campaign]) -> Campaign:
    """Return a changed copy of one of the parents with the seed of `drawn`, which may give it an option or a fault.

    Returns `drawn` itself if no change makes a campaign that a run accepts.
    """
    random = Random(f"staticfire/{drawn.seed}/bred")
    parent = replace(pick(random, tuple(parents)), seed=drawn.seed)
    for _ in range(ATTEMPTS):
        child = _with_plan(parent, _changed_plan(random, parent, drawn))
        if random.random() < 0.5:
            option = pick(random, OPTIONS)
            child = replace(child, **{option: getattr(drawn, option)})
        if child == parent:
            continue
        try:
            check_campaign(child)
        except (CampaignError, FaultError):
            continue
        return child
    return drawn


def options_of(campaign: Campaign) -> dict[str, object]:
    """Return all given options of the campaign but its seed."""
    return {
        field.name: getattr(campaign, field.name)
        for field in fields(campaign)
        if field.name != "seed"
    }


def _changed_plan(random: Random, parent: Campaign, drawn: Campaign) -> list[PlannedFault]:
    """Make one to three changes: a fault moved, removed, repeated at another time, or taken from the drawn plan."""
    plan = list(parent.plan)
    for _ in range(1 + int(3 * random.random())):
        change = random.random()
        if change < 0.25 and drawn.plan:
            plan.append(pick(random, drawn.plan))
        elif not plan:
            continue
        elif change < 0.6:
            at = int(len(plan) * random.random())
            plan[at] = _moved(random, plan[at], parent)
        elif change < 0.8:
            plan.append(_moved(random, pick(random, tuple(plan)), parent))
        else:
            del plan[int(len(plan) * random.random())]
    return sorted(plan, key=lambda one: one.at_s)


def _moved(random: Random, planned: PlannedFault, campaign: Campaign) -> PlannedFault:
    latest_s = max(campaign.load_s - planned.duration_s - 1.0, 0.0)
    at_s = planned.at_s + MOVE_S * (2 * random.random() - 1)
    return replace(planned, at_s=round(min(max(at_s, 0.0), latest_s), 3))


def _with_plan(campaign: Campaign, plan: Sequence[PlannedFault]) -> Campaign:
    numbered = tuple(replace(one, fault_id=number) for number, one in enumerate(plan))
    return replace(campaign, plan=numbered, faults=tuple(dict.fromkeys(one.kind for one in plan)))
