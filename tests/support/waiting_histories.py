"""Random histories of one topic whose messages are delivered after a while, by owners that come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from staticfire.checkers.model.history import Op

TICK = 500_000_000


EPOCH_MS = 1_700_000_000_000


def with_store_times(ops: Sequence[Op]) -> list[Op]:
    """The same history with deliveries that tell when their message was stored: when its send ended."""
    ended_ns = {op.value["key"]: op.time_ns for op in ops if op.f == "send"}
    return [
        replace(op, value={**op.value, "messages": _stored(op.value["messages"], ended_ns)})
        if op.f == "consume" and op.type == "invoke"
        else op
        for op in ops
    ]


def _stored(messages: Sequence[list[Any]], ended_ns: Mapping[str, int]) -> list[list[Any]]:
    return [[*message, contents_stored(ended_ns[message[0]])] for message in messages]


def contents_stored(at_ns: int) -> list[Any]:
    """Contents of a message of which only the store time is known."""
    stored_ms = EPOCH_MS + at_ns // 1_000_000
    return [None, None, None, None, stored_ms, None, None]


def waiting_history(random: Random, steps: int) -> list[Op]:
    """Ops at times of half seconds, no two at one time. Group g shares its queues, h broadcasts."""
    ops: list[Op] = []
    open_calls: list[tuple[int, dict[str, Any]]] = []
    ends = {0: 0, 1: 0}
    now = 0

    def op(process: int, type_: Any, f: str, value: dict[str, Any]) -> None:
        nonlocal now
        now += random.choice([1, 1, 1, 2, 3, 6, 24])
        ops.append(
            Op(
                index=len(ops),
                time_ns=now * TICK,
                process=process,
                type=type_,
                f=f,
                value=value,
            )
        )

    for process in (1, 2):
        for group in ("g", "h"):
            queues = [["b", queue] for queue in (0, 1) if group == "h" or queue == process - 1]
            op(process, "ok", "assign", {"group": group, "topic": "t", "queues": queues})
    for _ in range(steps):
        what = random.choice(["send", "send", "begin", "begin", "begin", "end", "end", "assign"])
        queue = random.randrange(2)
        if what == "send":
            place = {"broker": "b", "queue": queue, "queue_offset": ends[queue]}
            sent = {"key": f"p0-{len(ops)}", "topic": "t", **place, "physical_offset": len(ops)}
            ends[queue] += 1
            op(0, random.choice(["ok", "ok", "ok", "info"]), "send", sent)
        elif what == "begin":
            first = max(0, ends[queue] - random.choice([1, 1, 2, 3]))
            keys = {
                o.value["queue_offset"]: o.value["key"]
                for o in ops
                if o.f == "send" and o.value["queue"] == queue
            }
            messages = [
                [keys[at], at, at, True, 0]
                for at in range(first, ends[queue])[: random.choice([1, 1, 2])]
            ]
            value = {"group": random.choice(["g", "g", "h"]), "topic": "t", "broker": "b"}
            call = random.choice([1, 2]), {**value, "queue": queue, "messages": messages}
            if messages and call not in open_calls:
                op(call[0], "invoke", "consume", call[1])
                open_calls.append(call)
        elif what == "end" and open_calls:
            process, given = open_calls.pop(random.randrange(len(open_calls)))
            end = random.choice(["ok", "ok", "info", "info"])
            op(process, end, "consume", given)
            if end == "info" and random.random() < 0.5:
                rows = [[key, at, tries] for key, at, _, _, tries in given["messages"]]
                copied = random.random() < 0.7
                op(process, "ok", "send_back", {**given, "messages": rows, "copied": copied})
        elif what == "assign":
            queues = [["b", queue] for queue in (0, 1) if random.random() < 0.7]
            assigned = {"group": random.choice(["g", "h"]), "topic": "t", "queues": queues}
            op(random.choice([1, 2]), "ok", "assign", assigned)
    return ops
