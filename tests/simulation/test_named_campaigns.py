"""Well-known situations: each campaign reproduces its own, and the run says in words what happened and why."""

from __future__ import annotations

import pytest

from harness.campaign_draw import draw_campaign
from harness.campaign_file import load_options
from harness.diagnoses.catalogue import diagnose
from harness.runner import run_simulated

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one-broker", ("went to broker-", "got none", "TBW102")),
        ("ordered-topic-grows", ("sharding keys changed their queue", "6 queues", "overtook")),
        (
            "slave-takes-over",
            ("its slave took over the reads", "were missing there", "Late, not lost"),
        ),
        ("backlog", ("out of 2 queues", "out of 16 queues", "times as fast")),
        ("name-server-fake-death", ("ns-1 and broker-a-0 played dead", "found their way")),
        ("tcc-rollback", ("reservations were made", "were taken back", "None stayed reserved")),
        (
            "database-and-message",
            ("The database decided", "they asked", "none of a write that was rolled back"),
        ),
        ("send-queue-overflow", ("too busy for", "did not fit into the queue", "SYSTEM_BUSY")),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_campaign_ends_with_its_diagnosis(name: str, words: tuple[str, ...], seed: int) -> None:
    result = run_simulated(draw_campaign(seed, load_options(name)))
    assert result.verdict.valid is True, [
        v.to_json() for v in result.verdict.verdicts if not v.valid
    ]
    text = " ".join(diagnose(result))
    for word in words:
        assert word in text, text


def test_the_recommended_deployment_keeps_everything_under_all_faults() -> None:
    result = run_simulated(draw_campaign(7, load_options("recommended-deployment")))
    assert result.verdict.valid is True
    assert (result.campaign.flush, result.campaign.replication) == ("async", "sync")


def test_a_backlog_of_many_messages_is_worked_off_at_a_flat_rate() -> None:
    """`large-backlog` is for real processes; here it is smaller, and so is what a pull gets."""
    given = load_options("large-backlog")
    pulls = ("maxTransferCountOnMessageInMemory", "maxTransferCountOnMessageInDisk")
    properties = {**dict(given["broker_properties"]), **dict.fromkeys(pulls, "32")}
    given["broker_properties"] = tuple(sorted(properties.items()))
    smaller = {"think_ms": 400.0, "batch_messages": (40, 40), "latency_ms": (60.0, 70.0)}
    given |= {**smaller, "environment": "simulation"}
    result = run_simulated(draw_campaign(1, given))
    assert result.verdict.valid is True
    text = " ".join(diagnose(result))
    for words in (
        "out of 4 queues by 1 members",
        "members instead of 1 for 4 queues",
        "16 queues instead of 4",
        "times as fast",
    ):
        assert words in text, text
