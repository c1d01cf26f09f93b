"""Batches: the messages of one request are adjacent in one queue."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.log.batches import batch_deliveries, batch_rows, check_batches
from tests.support import reference_storage
from tests.support.history_language import fault, history
from tests.support.one_checker import read_ops, verdict_on

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "100")))


def check(*ops: str, **changes: object) -> Verdict:
    return verdict_on(ops, "batches", **changes)


def request(*ends: str, process: int = 0, began_s: float = 1.0, ended_s: float = 2.0) -> list[str]:
    """A request of messages p0-0, p0-1, ...; `ends`: type, and what follows the key."""
    keys = [f"p{process}-{number}" for number in range(len(ends))]
    begun = [f"{process} invoke send {key} t={began_s}" for key in keys]
    return begun + [
        f"{process} {end.split()[0]} send {key}{''.join(end.split()[1:2])} t={ended_s} "
        + " ".join(end.split()[2:])
        for key, end in zip(keys, ends, strict=True)
    ]


def acked(*offsets: int) -> list[str]:
    return request(*(f"ok @0:{offset}" for offset in offsets))


def unknown(count: int, attempts: int) -> list[str]:
    ops = request(*["info"] * count)
    return ops[:count] + [f"{op} attempts={attempts}" for op in ops[count:]]


@pytest.mark.parametrize(
    ("offsets", "torn"),
    [((4, 5, 6), []), ((4, 5, 7), ["p0-2"]), ((4, 6, 7), ["p0-1"]), ((4, 6, 9), ["p0-1", "p0-2"])],
)
def test_an_acknowledged_batch_lies_in_one_piece(offsets: tuple[int, ...], torn: list[str]) -> None:
    verdict = check(*acked(*offsets))
    assert sorted(str(finding.key) for finding in verdict.findings) == torn
    assert verdict.valid is not bool(torn)


@pytest.mark.parametrize(
    ("places", "attempts", "is_torn"),
    [
        ("p0-0@0:5 p0-1@0:6 p0-2@0:7", 1, False),
        ("p0-0@0:5 p0-1@0:6", 1, False),  # its end was cut off
        ("p0-0@0:5 p0-2@0:7", 1, False),  # what lies between was not delivered
        ("p0-0@0:5 p0-2@0:6", 1, True),
        ("p0-0@0:5 p0-2@0:6", 2, True),
        ("p0-0@0:5 p0-1@0:7", 1, True),
        ("p0-0@0:5 p0-0@0:6 p0-1@0:7 p0-2@0:8", 2, False),  # cut, and stored once more
        ("p0-0@0:5 p0-1@0:6 p0-2@0:7 p0-0@0:8 p0-1@0:9", 2, False),
        ("p0-0@0:5 p0-1@0:6 p0-0@0:6", 2, True),
    ],
)
def test_an_unclear_batch_lies_in_one_piece(places: str, attempts: int, is_torn: bool) -> None:
    verdict = check(*unknown(3, attempts), f"1 ok consume {places}")
    assert verdict.valid is not is_torn


@pytest.mark.parametrize(
    ("attempts", "at_s", "allowed"), [(2, 1.5, True), (1, 1.5, False), (2, 9.0, False)]
)
def test_a_log_that_lost_its_end_between_attempts(
    attempts: int, at_s: float, allowed: bool
) -> None:
    cut = fault("power_cut", "n0", at_s=at_s, healed_s=at_s + 0.1)
    ops = [*unknown(3, attempts), "1 ok consume p0-0@0:5 p0-2@0:6 t=20"]
    verdict = check(*ops, flush="async", faults=(cut,))
    assert len(verdict.findings) == 1
    assert verdict.valid is allowed


def test_requests_of_two_processes_are_none() -> None:
    ops = [*acked(4), *request("ok @0:9", process=1)]
    assert check(*ops).findings == ()


def test_sends_one_after_the_other_are_none() -> None:
    """By a coarse clock they begin at one time."""
    one_by_one = ("0 {} send p0-0@0:4 t=1", "0 {} send p0-1@0:6 t=1")
    ops = [op.format(end) for op in one_by_one for end in ("invoke", "ok")]
    assert check(*ops).findings == ()


def test_what_is_begun_between_its_messages_tears_no_request() -> None:
    first, second, *ends = acked(4, 5)
    assert check(first, "7 invoke send b t=1", second, *ends, "7 ok send b@0:9 t=2").findings == ()


def some_requests(seed: int) -> list[str]:
    random = Random(seed)
    ops, offset, given = [], 0, []
    for process in range(3):
        count, is_unknown = random.randint(1, 4), random.random() < 0.6
        places = []
        for _ in range(count):
            offset += random.choice((1, 1, 1, 1, 2))
            places.append(offset)
        keys = [f"p{process}-{number}" for number in range(count)]
        for _ in range(random.choice((1, 1, 2))):
            given += [
                f"1{process} ok consume {key}@0:{place + random.choice((0, 0, 0, 0, 1, -1))}"
                for key, place in zip(keys, places, strict=True)
                if random.random() < 0.8
            ]
            places = [place + random.choice((count, count, 1)) for place in places]
        ends = ["info"] * count if is_unknown else [f"ok @0:{place}" for place in places]
        reported = request(*ends, process=process, began_s=process * 2 + 1, ended_s=process * 2 + 2)
        if random.random() < 0.2:  # one after the other, by a clock that does not move
            reported = [
                op.replace(f"t={process * 2 + 2}", f"t={process * 2 + 1}") for op in reported
            ]
            reported = [
                op for pair in zip(reported[:count], reported[count:], strict=True) for op in pair
            ]
        attempts = random.choice((1, 2))
        ops += [op if "invoke" in op else f"{op} attempts={attempts}" for op in reported]
    return ops + given


def found(ops: Sequence[str]) -> set[tuple[str | None, int]]:
    """Keys of acknowledged messages that lie wrongly; processes of unclear requests."""
    findings = check(*ops).findings
    acked_keys = {f.key for f in findings if f.group is None}
    unclear = {f.key.split("-")[0] for f in findings if f.group is not None and f.key}
    return {(key, 0) for key in acked_keys} | {(process, 1) for process in unclear}


@STEADY
@given(st.integers(0, 2**32))
def test_it_finds_what_the_reference_finds(seed: int) -> None:
    ops = some_requests(seed)
    torn = reference_storage.torn_batches(history(*ops))
    expected: set[tuple[str | None, int]] = {
        (key, 0) if offset >= 0 else (key.split("-")[0], 1) for key, _, offset in torn
    }
    assert found(ops) == expected


@STEADY
@given(st.integers(0, 2**32))
def test_the_rows_that_it_asks_for_are_enough(seed: int) -> None:
    columns, context = read_ops(history(*some_requests(seed)))
    few = batch_deliveries(columns, context, batch_rows(columns, context))
    assert check_batches(few, context) == check_batches(columns, context)
