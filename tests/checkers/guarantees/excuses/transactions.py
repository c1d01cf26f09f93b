"""Histories that are legal only by one of the rows on transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.checkers.legal_histories import (
    NO_NAME_SERVER,
    Legal,
    cut,
)
from tests.checkers.stories import Story
from tests.support.history_language import fault


def histories() -> Iterator[Legal]:
    asked = Story().send(1.0, "a", "info", transaction="commit", state="unknown")
    for number in range(3):
        answer = {"topic": "t", "key": "a", "state": "commit"}
        asked.op(7.1 + number, "ok", "check_back", answer)
    yield Legal(
        mechanism="a broker forgot that it had asked",
        anomaly="checked_too_often",
        ops=asked.consume(15.0, "a", 0),
        faults=(fault("kill", "n0", at_s=7.5, healed_s=8.0),),
        known={"check_after_s": 6.0, "check_max": 2},
    )
    over = Story().send(1.0, "a", transaction="commit", state="commit")
    over.op(7.1, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
    had = Story().send(1.0, "a", transaction="commit", state="commit").consume(3.0, "a", 0)
    answered = Story().send(1.0, "a", "info", transaction="commit", state="unknown")
    for asked_s in (7.1, 25.0):
        answered.op(asked_s, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
    for row_of, mechanism, story, of in (
        (
            "asked_again",
            "the broker did not learn how it ended, or refused that, or asked in time and was slow",
            over,
            fault("slow_disk", "n0", at_s=0.5, healed_s=2.0),
        ),
        (
            "asked_again",
            "the clock of the broker was wrong, by which it takes the age of a transaction",
            over,
            fault("clock_skew", "n0", at_s=6.0, healed_s=6.5),
        ),
        (
            "check_on_its_way",
            "what the broker asked arrived when TCP repeated it",
            had.op(30.0, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"}),
            fault("broker_black_hole", "n0", at_s=3.5, healed_s=20.0),
        ),
        (
            "half_doubled",
            "the broker ended before it had recorded that it had put the half back, or that it was over",
            answered,
            fault("kill", "n0", at_s=10.5, healed_s=11.0),
        ),
        (
            "answer_on_its_way",
            "a producer answered late, or its answer did not arrive",
            over,
            fault("client_crash", "p1", at_s=2.0, healed_s=7.0),
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly="checked_too_often",
            row_of=row_of,
            ops=story,
            faults=(of,),
            known={"check_after_s": 6.0, "producers": ("p1",)},
        )
    half = {"topic": "t", "key": "a", "transaction": "unknown", "state": "unknown", "attempts": 1}
    unasked = Story().op(1.0, "invoke", "send", half)
    placed = {**half, "broker": "b", "queue": 0, "status": "SEND_OK"}
    unasked.op(1.01, "fail", "send", placed, error="never decided")
    unasked.send(1.1, "z", "info", transaction="unknown", state="unknown", attempts=2)
    unasked.op(40.0, "ok", "check_back", {"topic": "t", "key": "z", "state": "unknown"})
    for row_of, mechanism, of in (
        (
            "producers_unknown",
            "the broker knows no producer before one announces itself again",
            fault("kill", "n0", at_s=2, healed_s=3),
        ),
        (
            "producers_unknown",
            "a producer that started knew no route to the broker",
            fault("kill", "ns-1", at_s=2, healed_s=3),
        ),
        (
            "check_swallowed",
            "the broker asks on a dead connection until the producer announces its new one",
            cut("p1", "n0", at_s=2, healed_s=3),
        ),
        (
            "half_damaged",
            "a round ends at a damaged half, until it is repaired",
            replace(fault("bit_rot", "n0", at_s=2, healed_s=12), affects=("rots",)),
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly="unresolved_transaction",
            row_of=row_of,
            ops=unasked,
            faults=(of,),
            known={
                **NO_NAME_SERVER,
                "check_after_s": 3.0,
                "check_every_s": 5.0,
                "producers": ("p1", "p2"),
            },
        )
    yield Legal(
        mechanism="the clock of the broker was wrong",
        anomaly="early_delivery",
        row_of="clock",
        ops=Story().send(1.0, "a", delay_level=2, delay_ms=5000).consume(3.0, "a", 0),
        faults=(
            fault("clock_skew", "n0", at_s=0, healed_s=10),
            fault("kill", "n0", at_s=2, healed_s=2.5),
        ),
    )
    yield Legal(
        mechanism="the broker was away, and a member that does not say what it owns took the queue over again",
        anomaly="duplicate_unexplained",
        row_of="queue_regained",
        ops=("0 ok send a t=1", "1 ok consume a t=2", "1 ok consume a t=9"),
        faults=(fault("kill", "n0", at_s=5, healed_s=6),),
        known={"replica_sets": {"b": ("n0",)}},
    )
