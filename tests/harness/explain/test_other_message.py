"""The story of a finding that two messages prove."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticfire.checkers.model.history import Op
from staticfire.harness.explain.life import life_of
from staticfire.harness.explain.other_message import of_other
from tests.harness.explain.recorded_ops import PLACE, finding, op

OVERTAKEN = replace(
    finding(), anomaly="order_violated", group="g", other_key="o", time_ns=6 * 10**9
)


def consume(at_s: int, type_: Any, key: str, *, group: str = "g", tries: int = 0) -> Op:
    value = {"group": group, **PLACE, "messages": [[key, 6, 0, True, tries]]}
    return op(at_s, type_, "consume", value, "consumer-1")


OPS = [
    op(1, "invoke", "send", {"key": "o", "size": 10, "topic": "t"}, "producer-1"),
    op(2, "ok", "send", {"key": "o", "status": "SEND_OK", **PLACE}, "producer-1"),
    consume(3, "invoke", "o"),
    consume(3, "invoke", "o", group="another"),
    consume(4, "info", "o"),
    consume(5, "invoke", "o", tries=1),
    consume(6, "invoke", "k"),
    consume(7, "ok", "o"),
    consume(8, "invoke", "o", tries=2),
]


def test_it_tells_what_became_of_the_message_that_was_overtaken() -> None:
    found = [(event.time_ns // 10**9, event.text) for event in of_other(OVERTAKEN, OPS, "t")]
    assert found == [
        (2, "o: is answered SEND_OK: b queue 0 offset 7"),
        (3, "o: g gets it, b queue 0 offset 6"),
        (4, "o: no answer"),
        (5, "o: g gets it as retry 1, b queue 0 offset 6"),
        (7, "o: its listener has finished"),
    ]


def test_its_events_stand_among_those_of_the_witness() -> None:
    events = life_of(OVERTAKEN, OPS, [], [], ["b-0"])
    assert events == sorted(events)
    assert "g gets it, b queue 0 offset 6" in {event.text for event in events}
    assert set(of_other(OVERTAKEN, OPS, "t")) <= set(events)


def test_a_finding_of_one_message_has_no_other() -> None:
    assert of_other(finding(), OPS, "t") == []
