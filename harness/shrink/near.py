"""Simulated campaigns near the plan of a run on real machines: the same options, its faults at nearby times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from staticfire.faults.errors import FaultError
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import SEED_MAX, Campaign, CampaignError
from staticfire.harness.draws.limits import check_campaign
from staticfire.harness.recording.nemesis import FaultRecord

SLOW_FSYNC_US = 20_000
THINK_MS_MIN = 5.0
MARGIN_S = 0.5  # between the last fault and the end of the load


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A difference of campaigns from the plan of the run.

    Attributes:
        name: the name in reports.
        scale: the factor of the times of faults.
        jitter_s: the greatest shift of a fault, in seconds.
        think: the factor of pauses between ops.
        slow_disks: whether an fsync takes at least SLOW_FSYNC_US.
    """

    name: str
    scale: float = 1.0
    jitter_s: float = 0.0
    think: float = 1.0
    slow_disks: bool = False


# They are used in turn; each round has another seed.
VARIANTS: tuple[Variant, ...] = (
    Variant(name="as it was"),
    Variant(name="jitter 0.1 s", jitter_s=0.1),
    Variant(name="slow disks", slow_disks=True, jitter_s=0.1),
    Variant(name="jitter 1 s", jitter_s=1.0),
    Variant(name="four times as dense", think=0.25, jitter_s=0.5),
    Variant(name="half the times", scale=0.5, jitter_s=0.5),
    Variant(name="slow disks, jitter 3 s", slow_disks=True, jitter_s=3.0),
    Variant(name="jitter 5 s", jitter_s=5.0),
)


def simulated(campaign: Campaign, records: Sequence[FaultRecord]) -> Campaign:
    """Return the campaign of a real run as a simulated one, with faults at the times at which they fired.

    Raises CampaignError, FaultError if the simulation cannot run it.
    """
    changed = replace(
        campaign,
        environment="simulation",
        target="own",
        client="own",
        brokers=(),
        token="",
        followers=_followers(campaign),
        acks_min=0,
        plan=_as_fired(campaign.plan, records),
    )
    changed = replace(changed, time_s=_time_s(changed))
    check_campaign(changed)
    return changed


def _time_s(campaign: Campaign) -> float:
    """Return the time of a load that lasts until all faults are healed, and at least as long as the campaign's."""
    end_s = max((one.until_s for one in campaign.plan if one.after is None), default=0.0) + MARGIN_S
    return max(campaign.time_s, round(end_s - campaign.idle[1] - campaign.quiet_s, 3))


def _followers(campaign: Campaign) -> tuple[int, ...]:
    """Return the number of followers of each leader; in an external cluster from the names of its brokers."""
    if not campaign.brokers:
        return campaign.followers
    topology = campaign.topology()
    return tuple(len(topology.replicas_of(name)) - 1 for name in topology.replica_sets)


def _as_fired(
    plan: Sequence[PlannedFault], records: Sequence[FaultRecord]
) -> tuple[PlannedFault, ...]:
    """Return the plan with the times at which its faults fired, shifted so that the first fault is on time."""
    fired = {one.planned.fault_id: one.fired_ns for one in records if one.fired_ns is not None}
    known = [one for one in plan if one.fault_id in fired and one.after is None]
    if not known:
        return tuple(plan)
    first = min(known, key=lambda one: one.at_s)
    start_ns = fired[first.fault_id] - int(first.at_s * 1e9)
    return tuple(
        replace(one, at_s=max(0.0, round((fired[one.fault_id] - start_ns) / 1e9, 3)))
        if one in known
        else one
        for one in plan
    )


def near(campaign: Campaign) -> Iterator[tuple[Variant, Campaign]]:
    """Yield simulated campaigns endlessly: the variants in turn, each time with the next seed."""
    number = 0
    while True:
        variant = VARIANTS[number % len(VARIANTS)]
        seed = (campaign.seed + number // len(VARIANTS)) % SEED_MAX
        number += 1
        try:
            yield variant, _varied(replace(campaign, seed=seed), variant)
        except (CampaignError, FaultError):
            continue


def _varied(campaign: Campaign, variant: Variant) -> Campaign:
    """Return the campaign of a variant. Raises CampaignError, FaultError."""
    random = Random(f"staticfire/{campaign.seed}/near/{variant.name}")
    plan = tuple(_moved(one, variant, random) for one in campaign.plan)
    changed = replace(
        campaign,
        plan=plan,
        time_s=_time_s(replace(campaign, plan=plan)),
        think_ms=max(round(campaign.think_ms * variant.think, 1), THINK_MS_MIN),
        fsync_us=max(campaign.fsync_us, SLOW_FSYNC_US if variant.slow_disks else 0),
    )
    check_campaign(changed)
    return changed


def _moved(planned: PlannedFault, variant: Variant, random: Random) -> PlannedFault:
    by_s = variant.jitter_s * (2 * random.random() - 1)
    if planned.after is not None:
        return planned
    at_s = max(0.0, planned.at_s * variant.scale + by_s)
    return replace(planned, at_s=round(at_s, 3))


def lacking(campaign: Campaign) -> Mapping[str, str]:
    """Return how the simulation differs from the run, each difference with a description."""
    changed = {}
    if campaign.target != "own":
        changed["target"] = f"{campaign.target} becomes our own, in {campaign.mode} mode"
    if campaign.client != "own":
        changed["client"] = f"{campaign.client} becomes our own"
    return changed
