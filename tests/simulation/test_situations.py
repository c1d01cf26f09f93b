"""Well-known situations: each named campaign runs in the simulation and ends with its diagnosis."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from staticfire.harness.campaign.file import load_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.report.verdict_lines import diagnosis_lines
from staticfire.harness.runs.simulated_runner import run_simulated
from staticfire.harness.workloads.catalogue import WORKLOADS


@pytest.mark.parametrize(
    ("name", "valid", "words"),
    [
        ("mixed-tags", False, ("what the owner does not ask for is passed over", "of 10 tag3")),
        ("mixed-topics", False, ("those queues have no owner", "messages of Payments")),
        ("hot-key", True, ("sharding key everybody has", "wait with it")),
    ],
)
def test_a_situation_ends_with_its_diagnosis(
    name: str, valid: bool, words: tuple[str, ...]
) -> None:
    result = run_simulated(draw_campaign(1, load_options(name)))
    reported = " ".join(line.strip() for line in diagnosis_lines(result.verdict))
    assert result.verdict.valid is valid
    for part in words:
        assert part in reported


def test_a_master_that_is_silent_is_dropped_from_the_routes_and_comes_back() -> None:
    result = run_simulated(draw_campaign(1, load_options("broker-silent")))
    assert result.verdict.valid is True, result.verdict.findings()
    assert result.verdict.coverage["silent broker dropped from the route"] == 1
    assert result.verdict.coverage["broker dropped from the route"] == 1  # by the other name server


@pytest.mark.parametrize(
    ("workload", "seed", "mark"),
    [("rebalance", 36, "offsets reset"), ("transactional", 1, "transaction given up")],
)
def test_a_workload_reaches_what_only_it_can(workload: str, seed: int, mark: str) -> None:
    result = run_simulated(draw_campaign(seed, {"workload": workload}))
    assert result.verdict.valid is True, result.verdict.findings()
    assert result.verdict.coverage[mark] > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["mixed-tags", "mixed-topics"])
def test_of_nothing_that_only_one_member_asks_for_does_the_group_get_all(
    name: str, seed: int
) -> None:
    """Whether members hear of each other at once is not drawn: until they do, both have all queues."""
    result = run_simulated(draw_campaign(seed, load_options(name)))
    reported = " ".join(line.strip() for line in diagnosis_lines(result.verdict))
    got = [(int(some), int(all_)) for some, all_ in re.findall(r"(\d+) of (\d+) ", reported)]
    assert len(got) == (3 if name == "mixed-tags" else 2), reported
    assert all(0.3 * all_ <= some <= 0.7 * all_ for some, all_ in got), reported


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_short_run_of_each_workload_is_valid(name: str) -> None:
    campaign = draw_campaign(5, {"workload": name, "time_s": 10.0, "acks_min": 20, "faults": ()})
    result = run_simulated(replace(campaign, plan=()))
    assert result.verdict.valid is True, result.verdict.below_floors
