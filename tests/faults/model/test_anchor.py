"""Moments that are events: read from a plan, written, refused."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.faults.errors import FaultError
from staticfire.faults.model.anchor import Anchor, check_anchor, read_anchor

ROWS: list[dict[str, Any]] = [
    {"event": "ack", "key": "p7-23", "delay_ms": 2.0},
    {"event": "sync", "node": "broker-a-0", "number": 13},
    {"event": "append", "node": "broker-a-0", "key": "p7-23"},
    {"event": "healed", "fault": 3},
]


@pytest.mark.parametrize("row", ROWS)
def test_what_is_written_is_what_was_read(row: dict[str, Any]) -> None:
    assert read_anchor(row, "fault 1").to_data() == row


def test_an_anchor_in_words() -> None:
    words = [str(read_anchor(row, "fault 1")) for row in ROWS]
    assert words == [
        "2 ms after ack of p7-23",
        "sync 13 of broker-a-0",
        "append of p7-23 on broker-a-0",
        "healed of 3",
    ]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"event": "lunch"}, "event of fault 1 is 'lunch'; allowed: send, ack"),
        ({"event": "ack"}, "after of fault 1 lacks key; ack needs key"),
        (
            {"event": "ack", "key": "k", "node": "n"},
            "after of fault 1 has node; ack takes key alone",
        ),
        ({"event": "ack", "key": 3}, "key of fault 1 is 3; allowed: text"),
        ({"event": "ack", "key": "k", "hue": 1}, "after of fault 1 has an unknown entry 'hue'"),
    ],
)
def test_a_row_that_is_no_anchor(row: dict[str, Any], words: str) -> None:
    with pytest.raises(FaultError, match=words):
        read_anchor(row, "fault 1")


@pytest.mark.parametrize(
    ("anchor", "words"),
    [
        (Anchor(event="sync", node="x"), "node of fault 1 is 'x'; allowed: broker-a-0"),
        (Anchor(event="struck", fault=1), "fault of fault 1 is 1; allowed: 0, 2"),
        (Anchor(event="ack"), "key of fault 1 is empty"),
        (Anchor(event="ack", key="k", number=0), "number of fault 1 is 0"),
        (Anchor(event="ack", key="k", delay_ms=-1.0), "delay_ms of fault 1 is -1"),
    ],
)
def test_an_anchor_that_no_run_can_reach(anchor: Anchor, words: str) -> None:
    with pytest.raises(FaultError, match=words):
        check_anchor(anchor, "fault 1", ["broker-a-0"], [0, 2])
