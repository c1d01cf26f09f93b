"""Store times ascend with the offsets of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.log.store_times import STORE_TIMES, tally_store_times
from staticfire.checkers.model.columns import Columns
from tests.checkers.stories import Story
from tests.support import reference_storage
from tests.support.chunked_kernels import check_pieces_of_queues
from tests.support.history_language import fault
from tests.support.one_checker import read_ops

GOES_BACK = {"nonmonotonic_store_time"}
BROKERS = {"b": ("n0", "n1")}
FAULTS: tuple[tuple[FaultFacts, ...], ...] = (
    (),
    (fault("clock_skew", "n1", at_s=14.5, healed_s=15.0),),
    (fault("clock_skew", "p1", at_s=5.0, healed_s=15.0),),
)


def story(*stored_ms: int | None, queues: Sequence[int] = (), at_s: float = 10.0) -> Story:
    """A message at each offset from 0 on, given out one a second."""
    reported = Story()
    for number, time_ms in enumerate(stored_ms):
        queue = queues[number] if queues else 0
        contents = [None, None, None, None, time_ms, None, None]
        value = {
            "group": "g",
            "topic": "t",
            "broker": "b",
            "queue": queue,
            "messages": [[f"p0-{number}", number, number, True, 0, contents]],
        }
        for type_ in ("invoke", "ok"):
            reported.op(at_s + number, type_, "consume", value, process=100)
    return reported


@pytest.mark.parametrize(
    ("stored_ms", "anomalies"),
    [
        ((500, 500, 700), set()),
        ((500, 499, 700), GOES_BACK),
        ((500, None, 499), GOES_BACK),  # neighbours among those with a store time
        ((None, 500, None), set()),
    ],
)
def test_a_later_message_was_stored_later(
    stored_ms: tuple[int | None, ...], anomalies: set[str]
) -> None:
    assert story(*stored_ms).counts("store_times", replica_sets=BROKERS) == anomalies


def test_queues_have_nothing_to_do_with_each_other() -> None:
    assert story(500, 400, queues=(0, 1)).counts("store_times", replica_sets=BROKERS) == set()


@pytest.mark.parametrize(
    ("node", "at_s", "anomalies"),
    [("n1", 5.0, set()), ("n1", 30.0, GOES_BACK), ("p1", 5.0, GOES_BACK)],
)
def test_a_broker_of_rocketmq_whose_clock_was_stepped_is_not_asked(
    node: str, at_s: float, anomalies: set[str]
) -> None:
    skew = fault("clock_skew", node, at_s=at_s, healed_s=at_s + 1)
    known = {"replica_sets": BROKERS, "faults": (skew,)}
    assert story(500, 400).counts("store_times", **known, mode="faithful") == anomalies
    assert (
        story(500, 400).counts("store_times", **known) == GOES_BACK
    )  # the hardened one keeps its times


def test_offsets_are_used_again_after_a_tail_was_lost() -> None:
    cut = fault("power_cut", "n0", at_s=9.5, healed_s=12.0)
    reported = story(500, 400)
    lossy = {"replica_sets": {"b": ("n0",)}, "replication": "none", "faults": (cut,)}
    assert reported.counts("store_times", **lossy, flush="sync") == GOES_BACK
    verdict = reported.verdict("store_times", **lossy, flush="async")
    assert verdict.valid is True
    assert [finding.judgement for finding in verdict.findings] == ["allowed"]


def random_story(random: Random) -> Story:
    """Times near each other, in two queues, some of them reported twice and once differently."""
    reported = Story()
    for number in range(14):
        offset, queue = random.randrange(6), random.randrange(2)
        time_ms = random.choice([None, 500 + 3 * offset + random.randrange(-6, 7)])
        contents = [None, None, None, None, time_ms, None, None]
        value = {
            "group": random.choice("gh"),
            "topic": "t",
            "broker": "b",
            "queue": queue,
            "messages": [[f"p{queue}-{offset}", offset, offset, True, 0, contents]],
        }
        reported.op(10.0 + number, "invoke", "consume", value, process=100)
        reported.op(10.0 + number, random.choice(["ok", "info"]), "consume", value, process=100)
    return reported


def context_of(reported: Story, faults: tuple[FaultFacts, ...]) -> tuple[Columns, Context]:
    return read_ops(reported.ops, replica_sets=BROKERS, faults=faults, mode="faithful")


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
def test_the_kernel_finds_what_the_reference_finds(seed: int) -> None:
    random = Random(seed)
    reported, faults = random_story(random), random.choice(FAULTS)
    stepped = [of.fired_ns for of in faults if of.targets[0] in BROKERS["b"] and of.fired_ns]
    expected = reference_storage.store_times(reported.ops, min(stepped, default=1 << 62))
    tally = tally_store_times(*context_of(reported, faults))
    assert tally.counts == ({"nonmonotonic_store_time": len(expected)} if expected else {})
    assert {((of.topic, of.broker, of.queue), of.queue_offset) for of in tally.findings} <= expected


@pytest.mark.slow
def test_the_anomaly_occurs_and_does_not() -> None:
    found = [
        len(reference_storage.store_times(random_story(Random(seed)).ops, 1 << 62))
        for seed in range(100)
    ]
    assert {0, 1, 2} <= set(found)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
def test_a_queue_in_pieces_gives_the_same_tally(seed: int) -> None:
    random = Random(seed)
    columns, context = context_of(random_story(random), random.choice(FAULTS))
    cuts = sorted(random.sample(range(1, 6), 2))
    check_pieces_of_queues(STORE_TIMES, columns, context, cuts, random)
