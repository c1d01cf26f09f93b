"""Well-known situations: each campaign reproduces its own, and the run says in words what happened and why."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.file import load_options
from staticfire.harness.clients.forwarding import Forwarder
from staticfire.harness.diagnoses.catalogue import diagnose
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.runs.simulated_runner import run_simulated
from tests.support.sample import sample_of

pytestmark = pytest.mark.slow


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
        (
            "recommended-deployment",
            ("2 pairs with synchronous replication", "was lost", "does not survive"),
        ),
        ("send-queue-overflow", ("too busy for", "did not fit into the queue", "SYSTEM_BUSY")),
    ],
)
@pytest.mark.parametrize("seed", sample_of([1, 2], 1))
def test_campaign_ends_with_its_diagnosis(name: str, words: tuple[str, ...], seed: int) -> None:
    result = run_simulated(draw_campaign(seed, load_options(name)))
    assert result.verdict.valid is True, [
        v.to_json() for v in result.verdict.verdicts if not v.valid
    ]
    text = " ".join(diagnose(result))
    for word in words:
        assert word in text, text


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
        "out of 4 queues by 1 member:",
        "members instead of 1 for 4 queues",
        "These members only forwarded it to",
        "out of 16 queues by 4 members",
        "no help here",
    ):
        assert words in text, text
    assert text.count("A backlog of") == 5


# The end of `large-backlog` in little: listeners that take a second for up to 500 messages of a queue.
FORWARDED: dict[str, Any] = {
    "workload": "forwarded",
    "time_s": 32.0,
    "coordinators": 1,
    "followers": (0,),
    "replication": "none",
    "queues": 4,
    "producers": 4,
    "consumers": 10,
    "forwarding": (2, 4),
    "think_ms": 100.0,
    "latency_ms": (0.5, 1.0),
    "payload_bytes": (64, 64),
    "log_file_bytes": 1 << 20,
    "batch_messages": (200, 200),
    "broker_properties": (("notifyConsumerIdsChangedEnable", "true"),),
}


def planned(kind: str, start_s: float, end_s: float, *nodes: str) -> list[dict[str, Any]]:
    params = {"delay_s": 1.0} if kind == "slow-consumer" else {}
    shared = {"kind": kind, "at_s": start_s, "duration_s": end_s - start_s, "params": params}
    return [{**shared, "targets": (node,)} for node in nodes]


def test_forwarding_into_more_queues_helps_where_listeners_are_slow() -> None:
    producers = [f"producer-{number}" for number in range(1, 5)]
    members = [f"consumer-{number}" for number in range(1, 5)]
    forwarders = ["consumer-5", "consumer-6"]
    behind = [f"consumer-{number}" for number in range(7, 11)]
    plan = [
        *planned("client-crash", 0.5, 4.0, *members),
        *planned("client-crash", 0.5, 22.0, *forwarders),
        *planned("slow-consumer", 3.9, 17.0, *members),
        *planned("client-crash", 3.5, 18.0, *producers),
        *planned("client-crash", 17.5, 31.9, *members),
        *planned("slow-consumer", 17.5, 31.5, *behind),
        *planned("client-crash", 21.5, 31.9, *producers),
    ]
    given = {
        **FORWARDED,
        "plan": tuple(PlannedFault(fault_id=n, **one) for n, one in enumerate(plan)),
    }
    result = run_simulated(draw_campaign(1, given))
    assert result.verdict.valid is True, [v for v in result.verdict.verdicts if not v.valid]
    text = " ".join(diagnose(result))
    for words in (
        "Meanwhile 4 listeners took 1 s for every call.",
        "These members only forwarded it to StaticfireTopic-forwarded",
        "consumed there out of 16 queues by 4 members",
        "Forwarding made it",
    ):
        assert words in text, text


FORWARDED_SHORT = {"workload": "forwarded", "time_s": 25.0, "acks_min": 50}


def test_what_is_forwarded_is_consumed_only_when_its_copies_are_safe() -> None:
    """At least once, whatever dies meanwhile."""
    for seed in (3, 5):
        result = run_simulated(draw_campaign(seed, FORWARDED_SHORT))
        assert result.verdict.valid is True, [v for v in result.verdict.verdicts if not v.valid]
        counts = forwarding_of(result).counts
        assert 50 < counts["consumed"] <= counts["originals"] == counts["copies"]
        looked_up = {op.value["topic"] for op in result.ops if op.f == "look_up"}
        assert looked_up >= {"StaticfireTopic", "StaticfireTopic-forwarded"}


def test_a_forwarder_that_acknowledges_before_its_copies_are_safe_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    safely, sending = Forwarder.forward, set()

    async def at_once(self: Forwarder, messages: Any, queue: Any) -> None:
        task = asyncio.ensure_future(safely(self, messages, queue))
        sending.add(task)
        task.add_done_callback(sending.discard)

    monkeypatch.setattr(Forwarder, "forward", at_once)
    result = run_simulated(draw_campaign(3, FORWARDED_SHORT))
    verdict = forwarding_of(result)
    assert verdict.valid is False
    assert {of.anomaly for of in verdict.findings} == {"not_forwarded"}


def forwarding_of(result: RunResult) -> Verdict:
    [verdict] = [of for of in result.verdict.verdicts if of.checker == "forwarding"]
    return verdict
