"""Answers to resets of offsets to a time, compared with store times of messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import FaultFacts, OffsetsReset
from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.log.message_queries import LOOK_UPS
from tests.checkers.stories import Story
from tests.support.history_language import fault
from tests.support.one_checker import read_ops
from tests.support.reference_reset_times import wrong_answers

S = 1_000_000_000
BROKERS = {"b": ("n0", "n1")}
ASKED_S = 50.0


def reset(
    answers: Mapping[int, int],
    *,
    time_ms: int = 700,
    committed: Mapping[int, int] | None = None,
    asked_s: float = ASKED_S,
) -> OffsetsReset:
    return OffsetsReset(
        group="g",
        topic="t",
        stream="b",
        asked_ns=round(asked_s * S),
        answered_ns=round(asked_s * S) + S,
        time_ms=time_ms,
        answers=tuple(answers.items()),
        committed=tuple((dict.fromkeys(answers, 100) if committed is None else committed).items()),
    )


def operator(*resets: OffsetsReset) -> FaultFacts:
    return replace(fault("offsets_reset", at_s=ASKED_S, healed_s=ASKED_S + 2), resets=resets)


def stored(
    *times_ms: int | None, queue: int = 0, at_s: float = 10.0, story: Story | None = None
) -> Story:
    """A message with a store time at each offset from 0 on, given out one a second; None: never given out."""
    story = story or Story()
    for offset, time_ms in enumerate(times_ms):
        if time_ms is not None:
            story.consume(
                at_s + offset, f"p{queue}-{offset}", offset, queue=queue, stored_ms=time_ms
            )
    return story


def findings(story: Story, *faults: FaultFacts, **known: Any) -> list[Finding]:
    verdict = story.verdict("look_ups", replica_sets=BROKERS, faults=faults, **known)
    return list(verdict.findings)


@pytest.mark.parametrize(
    ("times_ms", "answer", "words"),
    [
        ((500, 600, 700, 800), 2, ""),
        ((500, 600, 700, 800), 1, "a message above it is nearer, of 700 ms"),
        ((500, 600, 700, 800), 0, "a message above it was stored at 600 ms"),
        ((500, 600, 700, 800), 3, "a message below it was stored at 700 ms"),
        # the first of one time
        ((500, 700, 700, 800), 1, ""),
        ((500, 700, 700, 800), 2, "a message below it was stored at 700 ms"),
        # the nearest, of two the earlier one
        ((500, 690, 720, 800), 1, ""),
        ((500, 690, 720, 800), 2, "a message below it is as near, of 690 ms"),
        ((500, 680, 710, 800), 2, ""),
        ((500, 680, 710, 800), 1, "a message above it is nearer, of 710 ms"),
        ((500, 690, 710, 800), 1, ""),
        ((500, 690, 710, 800), 2, "a message below it is as near, of 690 ms"),
        # the last one, where none is as late; the first one, where none is as early
        ((500, 600, 600), 2, ""),
        ((500, 600, 600), 1, "a message above it was stored at 600 ms"),
        ((800, 900), 0, ""),
        ((800, 900), 1, "a message below it was stored at 800 ms"),
        # some messages were never given out
        ((500, None, None, 800), 1, ""),
        ((500, None, None, 800), 2, ""),
        ((500, None, 600, None, 800), 1, "a message above it was stored at 600 ms"),
        ((500, None, 750, None, 800), 3, "a message below it was stored at 750 ms"),
        ((500, 660, None, 790, 800), 3, "a message below it is as near, of 660 ms"),
        ((500, 600, None, 710, 800), 1, "a message above it is nearer, of 710 ms"),
    ],
)
def test_a_search_leads_to_the_nearest_message(
    times_ms: Sequence[int | None], answer: int, words: str
) -> None:
    found = findings(stored(*times_ms), operator(reset({0: answer})))

    assert [of.anomaly for of in found] == ["wrong_time_search"] * bool(words)
    start = f"a reset of the group to 700 ms was answered at 51.000 s with offset {answer}, and "
    assert [of.detail for of in found] == [f"{start}{words}"] * bool(words)
    assert all((of.group, of.broker, of.queue) == ("g", "b", 0) for of in found)


TIMES = (500, 600, 700, 800)


@pytest.mark.parametrize(
    ("committed", "answer", "is_found"),
    [
        ({0: 1}, 1, False),  # the group was no further
        ({0: 2}, 1, True),
        ({}, 1, False),  # the leader does not say
        ({}, 3, True),  # no group is sent forward
        ({0: 3}, 3, True),
    ],
)
def test_a_leader_answers_no_more_than_the_group_has_committed(
    committed: dict[int, int], answer: int, is_found: bool
) -> None:
    asked = operator(reset({0: answer}, committed=committed))

    assert bool(findings(stored(*TIMES), asked)) is is_found


@pytest.mark.parametrize(("known", "is_found"), [({}, True), ({"mode": "faithful"}, False)])
def test_a_faithful_broker_may_answer_any_message_of_that_time(
    known: dict[str, Any], is_found: bool
) -> None:
    assert bool(findings(stored(500, 700, 700), operator(reset({0: 2})), **known)) is is_found
    later = findings(stored(500, 700, 700, 800), operator(reset({0: 3})), **known)
    assert [of.judgement for of in later] == ["violation" if is_found else "informational"]


def test_a_reset_to_the_beginning() -> None:
    story = stored(500, 600, 700)
    assert findings(story, operator(reset({0: 0}, time_ms=0))) == []
    assert len(findings(story, operator(reset({0: 1}, time_ms=0)))) == 1
    # what was below had been deleted
    story = story.drained(90)
    [drain] = [op for op in story.ops if op.f == "drain"]
    drain.value["queues"][0][2] = 1
    assert findings(story, operator(reset({0: 1}, time_ms=0))) == []
    assert len(findings(story, operator(reset({0: 2}, time_ms=0)))) == 1


def test_messages_that_the_queue_may_not_have_had_then() -> None:
    """What was stored before the time was there; of the others, what had been given out before the request."""
    below = stored(500, 600, 700, at_s=60)
    assert findings(below, operator(reset({0: 2}))) == []
    assert findings(below, operator(reset({0: 1}))) == []
    assert len(findings(below, operator(reset({0: 0})))) == 1
    assert len(findings(below, operator(reset({0: 1}, asked_s=70)))) == 1


def test_an_offset_of_two_messages_says_nothing() -> None:
    story = stored(500, 600, 700, 800).consume(40, "p9-9", 2, stored_ms=750)

    assert findings(story, operator(reset({0: 1}))) == []
    assert len(findings(story, operator(reset({0: 0})))) == 1


def test_a_run_that_does_not_record_the_time_is_not_judged() -> None:
    asked = replace(reset({0: 3}), time_ms=None)

    assert findings(stored(*TIMES).op(0, "ok", "look_up", LOOK_UP), operator(asked)) == []
    assert not LOOK_UPS.applies(_context(stored(*TIMES), asked))
    assert LOOK_UPS.applies(_context(stored(*TIMES), reset({0: 3})))


LOOK_UP = {"topic": "t", "broker": "b", "indexed": True, "messages": []}


def _context(story: Story, *resets: OffsetsReset, **known: Any) -> Context:
    return read_ops(
        story.ops, **{"replica_sets": BROKERS, "faults": (operator(*resets),), **known}
    )[1]


@pytest.mark.parametrize(
    ("struck", "judgement"),
    [
        (fault("clock_skew", "n0", at_s=5, healed_s=6), "allowed"),
        (fault("clock_skew", "n9", at_s=5, healed_s=6), "violation"),
        (fault("clock_skew", "n0", at_s=60, healed_s=61), "violation"),
        # a store time is part of a record
        (fault("bit_rot", "n0", at_s=5, healed_s=6), "allowed"),
        (fault("bit_rot", "n1", at_s=5, healed_s=6), "violation"),
        (fault("bit_rot", "n0", at_s=60, healed_s=61), "violation"),
        (fault("bit_rot", "n0", at_s=5, healed_s=6, bitten=False), "violation"),
        (fault("kill", "n0", at_s=5, healed_s=6), "violation"),
    ],
)
def test_faults_that_change_store_times(struck: FaultFacts, judgement: str) -> None:
    [found] = findings(stored(*TIMES), operator(reset({0: 0})), struck)

    assert found.judgement == judgement


@pytest.mark.parametrize(
    ("at_s", "known", "is_violation"),
    [
        (45, {"flush": "async"}, False),
        (45, {"flush": "sync"}, True),
        (60, {"flush": "async"}, True),
    ],
)
def test_a_queue_that_may_have_lost_a_tail(
    at_s: float, known: dict[str, Any], is_violation: bool
) -> None:
    """Consumers are given what is on the disk, but of a disk that is lost."""
    lost = fault(
        "disk_lost" if known["flush"] == "async" else "power_cut",
        "n0",
        at_s=at_s,
        healed_s=at_s + 1,
    )
    [found] = findings(stored(*TIMES), operator(reset({0: 0})), lost, **known)

    assert (found.judgement == "violation") is is_violation


def random_story(seed: int) -> tuple[Story, tuple[OffsetsReset, ...]]:
    random = Random(seed)
    story = Story()
    for queue in range(2):
        now_ms = 0
        for offset in range(random.randrange(9)):
            now_ms += random.choice([0, 0, 1, 2, 5])
            if random.random() < 0.3:
                continue
            reported = now_ms if random.random() < 0.9 else None
            for _ in range(random.choice([1, 1, 1, 2])):
                at_s = random.randrange(100)
                story.consume(at_s, f"p{queue}-{offset}", offset, queue=queue, stored_ms=reported)
                if random.random() < 0.1:
                    reported = now_ms + 1
    story.ops.sort(key=lambda op: op.time_ns)
    story.ops = [replace(op, index=index) for index, op in enumerate(story.ops)]
    if random.random() < 0.5:
        story.drained(120, end=9)
        story.ops[-1].value["queues"] = [["b", queue, random.randrange(5), 9, 9] for queue in "01"]
        for row in story.ops[-1].value["queues"]:
            row[1] = int(row[1])
    resets = tuple(
        reset(
            {queue: random.randrange(9) for queue in range(2)},
            time_ms=random.choice([0, *range(20)]),
            committed={queue: random.randrange(10) for queue in range(random.randrange(3))},
            asked_s=random.randrange(100),
        )
        for _ in range(random.choice([1, 2]))
    )
    return story, resets


MODES = st.sampled_from(["hardened", "faithful"])


@given(st.integers(0, 2**32), MODES)
def test_random_stories(seed: int, mode: Any) -> None:
    story, resets = random_story(seed)
    columns, context = read_ops(
        story.ops, replica_sets=BROKERS, faults=(operator(*resets),), mode=mode
    )
    expected = wrong_answers(story.ops, resets, mode)

    for read in (columns, LOOK_UPS.rows(columns, context)):
        verdict = LOOK_UPS.check(read, context)
        found = Counter((of.anomaly, of.broker, of.queue) for of in verdict.findings)
        assert found == expected
        assert verdict.valid is not (bool(expected) and mode == "hardened")


def test_every_case_occurs() -> None:
    found = Counter[str]()
    for seed in range(300):
        story, resets = random_story(seed)
        wrong = wrong_answers(story.ops, resets, "hardened")
        found["wrong"] += bool(wrong)
        found["only hardened"] += wrong != wrong_answers(story.ops, resets, "faithful")
        found["right"] += not wrong
    assert min(found.values()) > 5
    assert len(found) == 3
