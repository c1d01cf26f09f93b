"""Physical offsets in the commit log, and the storage order of the messages of one request."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.log.storage_order import (
    STORAGE_ORDER,
    tally_storage_order,
)
from staticfire.checkers.model.history import Op
from tests.support import reference_storage
from tests.support.chunked_kernels import check_pieces_of_queues
from tests.support.history_language import facts, fault
from tests.support.one_checker import judged_by, read_ops, verdict_on

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "100")))
SEEDS = st.integers(0, 2**32)


def check(*ops: str, **changes: object) -> Verdict:
    return verdict_on(ops, "storage_order", **changes)


def found(verdict: Verdict) -> list[tuple[str, str | None]]:
    return [(finding.anomaly, finding.key) for finding in verdict.findings]


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        (["0 ok send a", "0 ok send b", "1 ok consume a b"], []),
        (["0 ok send a physical=500", "1 ok consume a"], [("inconsistent_physical_offset", "a")]),
        # no broker acknowledged it, and two readers got different positions
        (["0 ok send a@0:0 physical=500", "0 ok send b@0:1 physical=900"], []),
        # two at one place, and a queue that leads back
        (
            ["0 ok send a@0:0 physical=500", "0 ok send b@0:1 physical=500"],
            [("nonmonotonic_physical_offset", "b")],
        ),
        (
            ["0 ok send a@0:0 physical=500", "0 ok send b@0:4 physical=400"],
            [("nonmonotonic_physical_offset", "b")],
        ),
        # queues share a log: each goes its own way up
        (["0 ok send a@0:0 physical=500", "0 ok send b@1:0 physical=400"], []),
        # an unknown place says nothing
        (["0 ok send a@0:0 physical=500", "0 ok send b@0:1 physical=-1"], []),
        # two messages at one offset are another anomaly
        (["0 ok send a@0:0 physical=500", "0 ok send b@0:0 physical=400"], []),
        # no request: the process sent one after the other, and that is nonmonotonic_send
        (["0 ok send a@0:1", "0 ok send b@0:0"], []),
    ],
)
def test_places_in_the_log(ops: list[str], expected: list[tuple[str, str]]) -> None:
    assert found(check(*ops)) == expected


def batch(*offsets: int, process: int = 0, began_s: float = 1, ended_s: float = 2) -> list[str]:
    keys = [f"p{process}-{number}" for number in range(len(offsets))]
    begun = [f"{process} invoke send {key} t={began_s}" for key in keys]
    return begun + [
        f"{process} ok send {key}@0:{offset} t={ended_s}"
        for key, offset in zip(keys, offsets, strict=True)
    ]


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [((4, 5, 6), []), ((6, 5, 4), ["p0-0", "p0-1"]), ((4, 6, 5), ["p0-1"]), ((5, 9, 7), ["p0-1"])],
)
def test_the_order_of_a_batch(offsets: tuple[int, ...], expected: list[str]) -> None:
    wrong = [("int_nonmonotonic_send", key) for key in expected]
    assert found(check(*batch(*offsets))) == wrong


def test_two_requests_have_no_order_of_their_own() -> None:
    """Of two processes, or of one that sends them at different times."""
    one = [
        "0 invoke send a t=1",
        "1 invoke send b t=1",
        "0 ok send a@0:1 t=2",
        "1 ok send b@0:0 t=2",
    ]
    other = ["0 invoke send a t=1", "0 invoke send b t=1.5"]
    other += ["0 ok send a@0:1 t=2", "0 ok send b@0:0 t=2"]
    assert found(check(*one)) == found(check(*other)) == []


def many(*ranges: list[Any]) -> list[Op]:
    value = {"topic": "t", "key": "p0-0", "count": sum(row[3] for row in ranges), "size": 9}
    place = {"broker": "b", "queue": 0, "status": "SEND_OK", "attempts": 1}
    ended = {**value, **place, "ranges": list(ranges)}
    return [
        Op(index=0, time_ns=0, process=0, type="invoke", f="send_many", value=value),
        Op(index=1, time_ns=9, process=0, type="ok", f="send_many", value=ended),
    ]


def test_the_order_of_a_send_of_many() -> None:
    def verdict(*ranges: list[Any]) -> Verdict:
        return judged_by("storage_order", many(*ranges), [], facts())

    assert found(verdict(["p0-0", 4, 400, 3, 100], ["p0-3", 7, 900, 2, 100])) == []
    swapped = verdict(["p0-0", 7, 700, 3, 100], ["p0-3", 4, 400, 3, 100])
    assert found(swapped) == [("int_nonmonotonic_send", "p0-0")]


@pytest.mark.parametrize(
    ("flush", "at_s", "allowed"),
    [("async", 3.0, True), ("sync", 3.0, False), ("async", 0.1, False), ("async", 20.0, False)],
)
def test_a_log_that_lost_its_end_is_written_again(flush: str, at_s: float, allowed: bool) -> None:
    cut = fault("power_cut", "n0", at_s=at_s, healed_s=at_s + 0.5)
    ops = ["0 ok send a@0:5 physical=500 t=2", "0 ok send b@0:6 physical=300 t=9"]

    verdict = check(*ops, flush=flush, faults=(cut,))

    assert found(verdict) == [("nonmonotonic_physical_offset", "b")]
    assert verdict.valid is allowed


def test_a_weak_answer_is_no_promise_that_the_place_stays() -> None:
    ops = ["0 info send a@0:5 physical=500 error=FLUSH_DISK_TIMEOUT t=2"]
    ops += ["0 ok send b@0:6 physical=300 t=9"]
    cut = fault("power_cut", "n0", at_s=3, healed_s=4)
    assert check(*ops, faults=(cut,)).valid is True
    assert check(*ops).valid is False
    assert check(*ops[:1], "1 ok consume a", *ops[1:], faults=(cut,)).valid is False


def storage_history(random: Random) -> list[Op]:
    """Batches and single messages of two queues; some places in the log and some orders are wrong."""
    ops: list[Op] = []
    ends = {0: 0, 1: 0}
    physical = 10_000
    held: list[tuple[int, list[Any]]] = []

    def tell(process: int, type: Any, f: str, value: dict[str, Any], time_ns: int) -> None:
        op = Op(index=len(ops), time_ns=time_ns, process=process, type=type, f=f, value=value)
        ops.append(op)

    for request in range(random.randrange(1, 8)):
        process, queue = random.randrange(2), random.choice([0, 0, 1])
        keys = [f"p{process}-{request * 10 + n}" for n in range(random.choice([1, 2, 3, 5]))]
        places: list[tuple[int, int]] = []
        for _ in keys:
            physical += random.choice([100, 100, 100, 0, -250])
            places.append((ends[queue] + len(places), physical))
        ends[queue] += len(keys)
        if random.random() < 0.3:
            random.shuffle(places)
        for key in keys:
            tell(process, "invoke", "send", {"key": key, "topic": "t"}, request * 10)
        for key, (offset, at) in zip(keys, places, strict=True):
            reported = {"broker": "b", "queue": queue, "queue_offset": offset, "attempts": 1}
            reported["physical_offset"] = random.choice([at, at, at, at, -1])
            known = random.random() < 0.9
            value = {"key": key, "topic": "t", **(reported if known else {})}
            tell(process, "ok" if known else "info", "send", value, request * 10 + 5)
            held.append((queue, [key, offset, at, True, 0]))
    for queue, message in held:
        if random.random() < 0.7:
            wrong = random.choice([0] * 9 + [50])
            given = [message[0], message[1], message[2] + wrong, True, 0]
            value = {"group": "g", "topic": "t", "broker": "b", "queue": queue, "messages": [given]}
            tell(9, "ok", "consume", value, 1000)
    return ops


@pytest.mark.slow
@STEADY
@given(seed=SEEDS)
def test_the_kernel_finds_what_the_reference_finds(seed: int) -> None:
    ops = storage_history(Random(seed))

    tally = tally_storage_order(*read_ops(ops))

    expected = reference_storage.storage(ops)
    assert sum(tally.counts.values()) == len(expected)
    assert {
        (of.anomaly, (of.topic, of.broker, of.queue), of.queue_offset) for of in tally.findings
    } <= expected


@pytest.mark.slow
def test_every_anomaly_occurs() -> None:
    seen = {
        anomaly
        for seed in range(100)
        for anomaly, *_ in reference_storage.storage(storage_history(Random(seed)))
    }
    assert seen == set(STORAGE_ORDER.anomalies)


@pytest.mark.slow
@STEADY
@given(seed=SEEDS)
def test_a_queue_in_pieces_gives_the_same_tally(seed: int) -> None:
    random = Random(seed)
    columns, context = read_ops(storage_history(random))
    cuts = sorted(random.sample(range(1, 20), 3))
    check_pieces_of_queues(STORAGE_ORDER, columns, context, cuts, random)
