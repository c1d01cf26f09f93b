"""Counterfactuals as lines, the first difference of two histories, and copies of a message over time."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.history import Op
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.explain.copies import copies_of
from staticfire.harness.explain.counterfactuals import (
    Counterfactuals,
    Ended,
    Row,
    changes_of,
    first_difference,
)
from staticfire.harness.results.fingerprint import Fingerprint
from staticfire.harness.rocketmq.observers.stored_log import CommitLogs

S = 1_000_000_000
LOSS, OTHER = Fingerprint("loss", "lost"), Fingerprint("phantom", "phantom")


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    given = {"time_s": 20.0, "followers": (0,), "replication": "none", "faults": ("kill", "pause")}
    return draw_campaign(1, given)


def test_each_fault_is_left_out_once_and_moved_twice(campaign: Campaign) -> None:
    changes = list(changes_of(campaign))
    left_out = [change for change in changes if change.by_s is None]
    assert [change.at_s for change in left_out] == [one.at_s for one in campaign.plan]
    for change in left_out:
        assert len(change.campaign.plan) == len(campaign.plan) - 1
        assert change.at_s not in [one.at_s for one in change.campaign.plan]
    assert {change.by_s for change in changes} == {None, -1.0, 1.0}


def test_what_helps_comes_first(campaign: Campaign) -> None:
    changes = list(changes_of(campaign))
    same, valid = Ended(fingerprint=LOSS), Ended(fingerprint=None)
    differing = Ended(fingerprint=None, difference=("a send ok k1", "a send info k1", 4 * S))
    rows = [
        Row(changes[0], [same, same, same]),
        Row(changes[1], [differing, valid, Ended(fingerprint=OTHER)]),
    ]
    part = Counterfactuals(wanted=LOSS, rows=rows, is_complete=True)
    first, second, differs = part.lines()
    assert first.endswith(": valid 2 of 3, fails otherwise 1 of 3")
    assert second.endswith(": fails like this 3 of 3")
    assert differs.startswith("differs   first at 4.000s from without ")
    assert part.to_json()["first_divergence"]["ours"] == "a send ok k1"


def test_a_run_that_was_not_carried_out_proves_nothing(campaign: Campaign) -> None:
    row = Row(next(iter(changes_of(campaign))), [Ended(fingerprint=None, failed="RunError: no")])
    assert row.count(LOSS) == (0, 0, 0)


def op(index: int, key: str) -> Op:
    value = {"key": key}
    return Op(index=index, time_ns=index * S, process=1, type="ok", f="send", value=value, node="n")


def test_the_first_difference_is_the_first_op_that_differs() -> None:
    ours, theirs = [op(0, "a"), op(1, "b")], [op(0, "a"), op(1, "c")]
    assert first_difference(ours, theirs) == ("n send ok b", "n send ok c", S)
    assert first_difference(ours, ours) is None


WITNESS = Finding(
    anomaly="lost",
    judgement=Judgement.VIOLATION,
    op_index=1,
    time_ns=2 * S,
    detail="it must survive",
    key="k",
    physical_offset=1500,
)
ACK = {
    "time_ns": 2 * S,
    "kind": "ack_durability",
    "key": "k",
    "end_offset": 1600,
    "durable_on": ["b-1"],
    "cached_on": ["b-0", "b-1"],
}


def power_cut(start: int, end: int, path: str = "/store/commitlog/00000000000000001024") -> Any:
    dropped = [{"path": path, "start": start, "end": end}]
    incident = {"node": "b-0", "at_ns": 3 * S, "what": "power cut", "dropped": dropped}
    return {"kind": "power-cut", "targets": ["b-0"], "struck_ns": S, "incidents": [incident]}


@pytest.mark.parametrize(
    ("fault", "durable"),
    [
        (power_cut(400, 480), ("b-1",)),  # a part of it
        (power_cut(576, 900), ("b-0", "b-1")),  # what lies behind it
        (power_cut(400, 480, "/store/index/1"), ("b-0", "b-1")),
    ],
)
def test_what_a_power_cut_leaves_of_memory_is_on_disk(fault: Any, durable: Any) -> None:
    found = copies_of(WITNESS, [ACK], [fault], ("b-0", "b-1"), CommitLogs())
    assert found is not None
    assert [(step.durable, step.volatile) for step in found.steps] == [
        (("b-1",), ("b-0",)),
        (durable, ()),
    ]
    assert found.lines()[0].startswith("copies    2.000s answer: 1 on disk, 1 in memory alone; ")


def test_a_lost_disk_and_a_recovery_without_it_take_copies() -> None:
    lost = {"kind": "disk-lost", "targets": ["b-1"], "struck_ns": 4 * S}
    recovery = {"time_ns": 5 * S, "kind": "recovery", "node": "b-0", "end_offset": 1500}
    found = copies_of(WITNESS, [ACK, recovery], [lost], ("b-0", "b-1"), CommitLogs())
    assert found is not None
    assert [(step.why, step.durable, step.volatile) for step in found.steps[1:]] == [
        ("disk-lost", (), ("b-0",)),
        ("recovery", (), ()),
    ]


def test_where_copies_were_not_observed_there_is_no_such_part() -> None:
    assert copies_of(WITNESS, [], [], ("b-0",), None) is None
