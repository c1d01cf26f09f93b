"""The copies of one message, by acknowledgements, power cuts and recoveries."""

from __future__ import annotations

from typing import Any

from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.verdict import Finding
from staticfire.harness.html_report.copies import copies_of
from tests.harness.html_report.recorded import fault_record

WITNESS = Finding(
    anomaly="lost",
    judgement=Judgement.VIOLATION,
    op_index=1,
    time_ns=10,
    detail="",
    key="a",
    broker="b",
    physical_offset=500,
)


def ack(durable: list[str], cached: list[str]) -> dict[str, Any]:
    return {
        "kind": "ack_durability",
        "key": "a",
        "time_ns": 10,
        "durable_on": durable,
        "cached_on": cached,
    }


def recovery(node: str, time_ns: int, end_offset: int) -> dict[str, Any]:
    return {
        "kind": "recovery",
        "node": node,
        "time_ns": time_ns,
        "end_offset": end_offset,
        "clean": False,
    }


def counts(
    observations: list[dict[str, Any]], *faults: dict[str, Any]
) -> list[tuple[int, int, int]]:
    found = copies_of(WITNESS, observations, faults, ["m", "s"])
    assert found is not None
    return [(step.time_ns, step.memory, step.disk) for step in found.steps]


def cut(node: str, time_ns: int) -> dict[str, Any]:
    return fault_record("power-cut", targets=[node], struck_ns=time_ns)


def test_a_power_cut_takes_what_was_in_memory_alone() -> None:
    assert counts([ack([], ["m"])], cut("m", 20)) == [(10, 1, 0), (20, 0, 0)]


def test_a_power_cut_takes_nothing_from_a_disk() -> None:
    assert counts([ack(["m"], ["m"])], cut("m", 20)) == [(10, 0, 1)]


def test_a_recovery_may_find_what_the_page_cache_had_written() -> None:
    seen = [ack([], ["m"]), recovery("m", 30, 600)]
    assert counts(seen, cut("m", 20)) == [(10, 1, 0), (20, 0, 0), (30, 0, 1)]


def test_a_recovery_that_ends_before_the_message_takes_it_from_the_disk() -> None:
    assert counts([ack(["m", "s"], ["m"]), recovery("m", 30, 500)]) == [(10, 0, 2), (30, 0, 1)]


def test_what_lies_in_its_place_later_is_another_message() -> None:
    seen = [ack(["m"], ["m"]), recovery("m", 30, 500), recovery("m", 40, 900)]
    assert counts(seen) == [(10, 0, 1), (30, 0, 0)]


def test_what_was_before_the_acknowledgement_does_not_count() -> None:
    assert counts([recovery("m", 5, 0), ack([], ["m"])], cut("m", 6)) == [(10, 1, 0)]


def test_nothing_is_known_without_a_look_at_the_disks() -> None:
    assert copies_of(WITNESS, [], [], ["m"]) is None
