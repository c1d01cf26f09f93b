"""The log of the servers around a message's life."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.harness.explain.event import Event
from staticfire.harness.explain.node_log import node_log_of
from staticfire.harness.run_folder.node_logs import NodeLine
from tests.harness.explain.recorded_ops import S, finding

FOUND = replace(finding("lost"), time_ns=15 * S)
LIFE = [
    Event(time_ns=10 * S, where="p", text="sends it"),
    Event(time_ns=20 * S, where="c", text="gets it"),
]


def line(
    time_s: float, event: str, *, node: str = "b-0", level: str = "info", **fields: Any
) -> NodeLine:
    return NodeLine(time_ns=int(time_s * S), node=node, level=level, event=event, fields=fields)


def shown(*lines: NodeLine, nodes: tuple[str, ...] = ("b-0", "b-1")) -> list[str]:
    log = node_log_of(FOUND, LIFE, lines, nodes)
    return [] if log is None else log.lines()


def test_each_kind_of_line_is_there_once_with_its_number() -> None:
    lines = shown(
        line(11, "disk full", usage="1.00"),
        line(14, "disk full", usage="0.99"),
        line(19, "disk full"),
        line(14, "disk full", node="b-1"),
    )
    assert lines == [
        "log       14.000s b-0: disk full (usage 0.99), 3 times, first at 11.000s",
        "log       14.000s b-1: disk full",
    ]


def test_warnings_come_before_what_is_nearer_and_lines_are_in_order_of_time() -> None:
    lines = shown(
        line(15, "a"),
        line(16, "b"),
        line(17, "c"),
        line(18, "far", level="warning"),
    )
    assert [one.split(": ")[1] for one in lines] == ["a", "b", "far"]


@pytest.mark.parametrize(
    ("one", "is_there"),
    [
        (line(10.0, "x"), True),
        (line(9.9, "x"), False),  # before the life
        (line(21.0, "x"), True),
        (line(21.1, "x"), False),  # after it
        (line(15, "x", node="b-2"), False),  # of another queue
        (line(15, "store opened"), False),  # the events show it as a recovery
    ],
)
def test_what_belongs_to_the_life_of_the_message(one: NodeLine, is_there: bool) -> None:
    assert bool(shown(one)) is is_there


def test_without_a_queue_every_server_counts() -> None:
    assert shown(line(15, "x", node="n-1"), nodes=()) == ["log       15.000s n-1: x"]


def test_long_values_are_only_in_json() -> None:
    log = node_log_of(FOUND, LIFE, [line(15, "x", of="y" * 61, at=7)], ())
    assert log is not None
    assert log.lines() == ["log       15.000s b-0: x (at 7)"]
    assert log.to_json()[0]["fields"] == {"of": "y" * 61, "at": 7}
