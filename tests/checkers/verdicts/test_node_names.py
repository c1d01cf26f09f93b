"""Findings list the nodes of the processes that they name."""

from __future__ import annotations

import pytest

from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.verdicts.node_names import with_nodes
from tests.checkers.stories import Story

NODES = {9: "consumer-1", 100_008: "consumer-4"}


def named(detail: str) -> str:
    finding = Finding(
        anomaly="a", judgement=Judgement.VIOLATION, op_index=1, time_ns=2, detail=detail
    )
    verdict = Verdict(checker="c", valid=False, findings=(finding,))
    (found,) = with_nodes(verdict, NODES).findings
    return found.detail


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("process 100008 was given 7", "process 100008 on consumer-4 was given 7"),
        ("process 9: as (process 100008)", "process 9 on consumer-1: as (process 100008 on consumer-4)"),
        # what is not known, or said already
        ("process 10 was given 7", "process 10 was given 7"),
        ("process 100008 on consumer-4 was given 7", "process 100008 on consumer-4 was given 7"),
        ("2 processes, subprocess 9", "2 processes, subprocess 9"),
    ],
)  # fmt: skip
def test_a_process_is_named_with_its_node(detail: str, expected: str) -> None:
    assert named(detail) == expected


def test_a_verdict_names_the_node_of_a_producer() -> None:
    row = {
        "group": "g",
        "topic": "t",
        "broker": "b",
        "queue": 0,
        "messages": [["a", 0, 0, True, 0]],
    }
    story = Story().op(0.5, "invoke", "consume", row, process=9)
    story.op(0.6, "ok", "consume", row, process=9)
    story.op(1.0, "invoke", "send", {"key": "a", "topic": "t"}, process=3, node="p-1")
    (finding,) = story.verdict("causality").findings

    assert finding.detail.endswith("of process 3 on p-1")
