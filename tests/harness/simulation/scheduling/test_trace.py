"""The digest of a run."""

from __future__ import annotations

import pytest

from staticfire.harness.simulation.scheduling.trace import BLOCK_RECORDS, Record, Trace


def filled(count: int, level: int = 1) -> Trace:
    trace = Trace(level)
    for number in range(count):
        trace.record(number, "text")
    return trace


def test_equal_records_give_equal_digests() -> None:
    assert filled(10_000).digest() == filled(10_000).digest()
    assert filled(10_000).digest() != filled(10_001).digest()


def test_strings_count_by_content_and_not_by_object() -> None:
    first, second = Trace(), Trace()
    text = "text"
    first.record(text, text)
    second.record("".join(["te", "xt"]), text)
    assert first.digest() == second.digest()


def test_asking_for_the_digest_changes_nothing() -> None:
    asked = filled(BLOCK_RECORDS - 1)
    asked.digest()
    for number in range(BLOCK_RECORDS - 1, 10_000):
        asked.record(number, "text")
    assert asked.digest() == filled(10_000).digest()
    assert asked.block_digests == filled(10_000).block_digests


def test_the_first_different_block_tells_where_to_look() -> None:
    one, other = filled(2 * BLOCK_RECORDS), filled(2 * BLOCK_RECORDS)
    other.record("surprise")
    for trace in (one, other):
        for number in range(BLOCK_RECORDS):
            trace.record(number)
    differing = [a != b for a, b in zip(one.block_digests, other.block_digests, strict=True)]
    assert differing == [False, False, True]
    assert other.count == 3 * BLOCK_RECORDS + 1


def test_bytes_of_a_history_are_part_of_it() -> None:
    one, other = Trace(), Trace()
    one.record_bytes(b'{"index":0}\n')
    other.record_bytes(b'{"index":1}\n')
    assert one.digest() != other.digest()


def test_level_0_records_nothing_and_a_sink_gets_everything() -> None:
    assert filled(10, level=0).digest() == Trace(0).digest()
    records: list[Record] = []
    Trace(2, records.append).record("run", 1)
    assert records == [("run", 1)]


def test_bad_level() -> None:
    with pytest.raises(ValueError, match="trace level is 3; allowed: 0, 1, 2"):
        Trace(3)
