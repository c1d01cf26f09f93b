"""Well-known situations: each named campaign runs in the simulation and ends with its diagnosis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.campaign_draw import draw_campaign
from harness.campaign_file import load_options
from harness.report.verdict_lines import diagnosis_lines
from harness.runner import run_simulated
from harness.workloads.catalogue import WORKLOADS


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
    told = " ".join(line.strip() for line in diagnosis_lines(result.verdict))
    assert result.verdict.valid is valid
    for part in words:
        assert part in told


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_short_run_of_each_workload_is_valid(name: str) -> None:
    campaign = draw_campaign(5, {"workload": name, "time_s": 10.0, "acks_min": 20, "faults": ()})
    result = run_simulated(replace(campaign, plan=()))
    assert result.verdict.valid is True, result.verdict.below_floors
