"""Reads the events of a message that proves a finding together with its witness, such as one that was overtaken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.history import Op
from staticfire.harness.explain.event import Event
from staticfire.harness.explain.op_events import events_of, has_key

BEFORE = 4  # number of its last events before the finding that are shown
AFTER = 1


def of_other(witness: Finding, ops: Iterable[Op], home: str | None) -> list[Event]:
    """Return the last events of the other message before a finding, and the first one after it.

    `home`: see `events_of`. Deliveries to other groups than that of the finding are left out.
    """
    if witness.other_key is None:
        return []
    events = list(_events(witness, ops, home))
    before = [event for event in events if event.time_ns <= witness.time_ns]
    after = [event for event in events if event.time_ns > witness.time_ns]
    return [
        replace(event, text=f"{witness.other_key}: {event.text}")
        for event in (*before[-BEFORE:], *after[:AFTER])
    ]


def _events(witness: Finding, ops: Iterable[Op], home: str | None) -> Iterator[Event]:
    other = replace(witness, key=witness.other_key, queue_offset=None, physical_offset=None)
    for op in ops:
        if op.f == "consume" and witness.group not in (None, op.value.get("group")):
            continue
        yield from events_of(op, other, home)
        if op.f == "consume" and op.type == "ok" and has_key(op.value["messages"], other):
            yield Event(time_ns=op.time_ns, where=op.node or "", text="its listener has finished")
