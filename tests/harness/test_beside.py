"""Draws beside a swarm are independent: with and without them the faults are the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticfire.faults.kinds.rights_change import RightsChange
from staticfire.faults.model.capabilities import OWN_NEED
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.cli.options import choose_faults
from staticfire.harness.cli.status import BadInput
from staticfire.harness.draws.campaign import draw_campaign, draw_faults
from staticfire.harness.machines.options import MachineOptions

BESIDE = tuple(name for name, fault in FAULTS.items() if fault.beside_share)
SEEDS = range(40)


def test_they_come_with_their_share_of_seeds_and_leave_the_swarm_alone() -> None:
    swarm = tuple(name for name in FAULTS if name not in BESIDE)
    drawn = [draw_faults(seed, tuple(FAULTS)) for seed in SEEDS]
    for seed, kinds in zip(SEEDS, drawn, strict=True):
        assert tuple(kind for kind in kinds if kind not in BESIDE) == draw_faults(seed, swarm)
    for kind in BESIDE:
        assert 0 < sum(kind in kinds for kinds in drawn) < len(SEEDS) / 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_plan_of_the_faults_is_the_same_without_them(seed: int) -> None:
    campaign = draw_campaign(seed, {})
    swarm = tuple(kind for kind in campaign.faults if kind not in BESIDE)
    alone = draw_campaign(seed, {"faults": swarm})
    # Where there are accounts, their rights change in any swarm, numbered after all others.
    faults, of_swarm = (
        tuple(one for one in plan if one.kind not in (*BESIDE, RightsChange.name))
        for plan in (campaign.plan, alone.plan)
    )
    assert faults == of_swarm
    assert replace(campaign, plan=(), faults=()) == replace(alone, plan=(), faults=())
    assert len({planned.fault_id for planned in campaign.plan}) == len(campaign.plan)


def test_each_kind_beside_leaves_the_others_alone() -> None:
    both = draw_campaign(1, {"faults": BESIDE, "replication": "sync"})
    assert {planned.kind for planned in both.plan} == set(BESIDE)
    for kind in BESIDE:
        alone = draw_campaign(1, {"faults": (kind,), "replication": "sync"})
        assert [replace(one, fault_id=0) for one in alone.plan] == [
            replace(one, fault_id=0) for one in both.plan if one.kind == kind
        ]


def test_a_topic_is_made_anew_on_our_own_brokers_only() -> None:
    for seed in SEEDS:
        given = {"target": "apache", "environment": "docker"}
        drawn = draw_campaign(seed, given)
        assert not any(OWN_NEED in FAULTS[kind].needs for kind in drawn.faults)
    with pytest.raises(BadInput, match="topic-anew is not available here: only our own brokers"):
        choose_faults(1, {"target": "apache", "faults": ("topic-anew",)}, MachineOptions())
