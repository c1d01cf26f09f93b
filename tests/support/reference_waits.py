"""Reference for waits of clients, in plain Python over ops: slow, obvious, no code shared with the checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.support.reference_checkers import Send, deliveries_of, sends_of

Groups = Mapping[str, tuple[str, ...]]
Wait = tuple[Any, ...]  # anomaly, of what, how long in nanoseconds


def waits(ops: Sequence[Op], facts: Mapping[str, Any], faults: Sequence[FaultFacts]) -> list[Wait]:
    """Every wait, long or short."""
    nodes = {op.process: op.node for op in ops}
    began = [op for op in _first_ops(ops) if nodes[op.process] in facts["producers"]]
    load_end_ns = max((op.time_ns for op in began), default=0)
    found: list[Wait] = []
    for node in facts["producers"]:
        for life in _lives(ops, node, faults, load_end_ns):
            found += _sends(ops, node, [nodes[op.process] for op in ops], life)
    if len(_queues(ops)) >= len(facts["consumers"]):
        for node in facts["consumers"]:
            for start_ns, end_ns in _lives(ops, node, faults, load_end_ns):
                got = [at for at in _gains_ns(ops, node) if start_ns <= at <= end_ns]
                found.append(("start_gap", node, min(got, default=end_ns) - start_ns))
    clients = {*facts["producers"], *facts["consumers"]}
    opened_ns = [op.time_ns for op in ops if op.f == "open" and op.node in clients]
    return found + _deliveries(ops, facts["groups"], min(opened_ns, default=0), load_end_ns)


def stuck(ops: Sequence[Op], producers: Sequence[str]) -> set[str]:
    """Producers of which four sends and more in a row got nothing for more than 12 s, without any fault."""
    found: set[str] = set()
    for node in producers:
        failed: list[tuple[int, int]] = []
        for send in sends_of(ops):
            begin, end = ops[send.began], ops[send.ended]
            if begin.node != node:
                continue
            is_weak = end.error in ("FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
            if send.outcome == "ok" or (end.value.get("queue") is not None and not is_weak):
                failed = []
                continue
            failed.append((begin.time_ns, end.time_ns))
            if len(failed) >= 4 and failed[-1][1] - failed[0][0] > 12 * 10**9:
                found.add(node)
    return found


def refused(ops: Sequence[Op], producers: Sequence[str]) -> set[str]:
    """Producers of which an attempt of a send failed, in ten seconds of a minute, without any fault."""
    bad: dict[str, set[int]] = {node: set() for node in producers}
    for send in sends_of(ops):
        begin, end = ops[send.began], ops[send.ended]
        waited_ns = end.time_ns - begin.time_ns
        is_silent = end.type == "info" and "queue" not in end.value and waited_ns >= 3 * 10**9
        attempts = end.value.get("attempts", 0)
        is_plain = "transaction" not in begin.value and attempts > 0
        has_failed = is_plain and (end.type == "fail" or is_silent)
        if begin.node in bad and (has_failed or attempts > 1):
            bad[begin.node].add(begin.time_ns // 10**9)
    return _ten_in_a_minute(bad)


def declined(ops: Sequence[Op], orderly: Sequence[str]) -> set[str]:
    """Consumers to which brokers made no copies in ten seconds of a minute, or once gave no answer, without any fault.

    In the simulation, and not of groups in order, whose members ask no broker to make one.
    """
    bad: dict[str, set[int]] = {}
    found: set[str] = set()
    for op in ops:
        if op.f != "send_back" or op.type == "invoke" or op.value["group"] in orderly:
            continue
        if op.value.get("code", "made") is None:
            found.add(op.node or "")
        if op.value.get("copied") is True or "code" in op.value:
            bad.setdefault(op.node or "", set()).add(op.time_ns // 10**9)
    return found | _ten_in_a_minute(bad)


def weak(ops: Sequence[Op], producers: Sequence[str]) -> set[str]:
    """Producers of which sends got weaker statuses in ten seconds of a minute, without any fault."""
    bad: dict[str, set[int]] = {node: set() for node in producers}
    for send in sends_of(ops):
        begin = ops[send.began]
        if begin.node in bad and send.outcome == "weak":
            bad[begin.node].add(begin.time_ns // 10**9)
    return _ten_in_a_minute(bad)


def overdue(ops: Sequence[Op], producers: Sequence[str], send_s: float) -> set[str]:
    """Producers of which a send took more than twice its time, in the simulation and without any fault."""
    return {
        ops[send.began].node or ""
        for send in sends_of(ops)
        if ops[send.began].node in producers
        and ops[send.ended].time_ns - ops[send.began].time_ns > 2 * send_s * 10**9
    }


def _ten_in_a_minute(bad: Mapping[str, set[int]]) -> set[str]:
    return {
        node
        for node, times in bad.items()
        if any(sum(since <= at < since + 60 for at in times) >= 10 for since in times)
    }


def _first_ops(ops: Sequence[Op]) -> list[Op]:
    return [ops[send.began] for send in sends_of(ops)]


def _lives(
    ops: Sequence[Op], node: str, faults: Sequence[FaultFacts], load_end_ns: int
) -> list[tuple[int, int]]:
    """Stretches between crashes: cut at every moment at which something changes, and keep those that live."""
    opened = [op.time_ns for op in ops if op.f == "open" and op.node == node]
    if not opened:
        return []
    down = [
        (fault.fired_ns or 0, 2**62 if fault.healed_ns is None else fault.healed_ns)
        for fault in faults
        if node in fault.targets
    ]
    cuts = sorted({opened[0], load_end_ns, *(at for times in down for at in times)})
    return [
        (since, until)
        for since, until in pairwise(cuts)
        if opened[0] <= since and until <= load_end_ns
        if not any(fired < until and since < healed for fired, healed in down)
    ]


def _sends(
    ops: Sequence[Op], node: str, nodes: Sequence[str | None], life: tuple[int, int]
) -> list[Wait]:
    """No two sends may begin at the same time."""
    mine = [
        send
        for send in sends_of(ops)
        if nodes[send.began] == node and life[0] <= ops[send.began].time_ns < life[1]
    ]
    mine.sort(key=lambda send: ops[send.began].time_ns)
    found, waiting = [], list[Send]()
    for send in mine:
        waiting.append(send)
        if send.outcome == "ok":
            wait_ns = ops[send.ended].time_ns - ops[waiting[0].began].time_ns
            found.append(("send_gap", waiting[0].key, wait_ns))
            waiting = []
    if waiting:
        found.append(("send_gap", waiting[0].key, life[1] - ops[waiting[0].began].time_ns))
    return found


def _queues(ops: Sequence[Op]) -> set[tuple[str, str, int]]:
    stored = {send.queue for send in sends_of(ops) if send.queue is not None}
    return stored | {given.queue for given in deliveries_of(ops)}


def _gains_ns(ops: Sequence[Op], node: str) -> list[int]:
    """When a process of the node got a queue that it did not have."""
    found: list[int] = []
    had: dict[tuple[Any, ...], list[Any]] = {}
    for op in ops:
        if op.f == "assign" and op.type == "ok":
            whose = op.process, op.value["group"], op.value["topic"]
            if any(queue not in had.get(whose, []) for queue in op.value["queues"]):
                found += [op.time_ns] if op.node == node else []
            had[whose] = op.value["queues"]
    return found


def _deliveries(
    ops: Sequence[Op], groups: Groups, load_start_ns: int, load_end_ns: int
) -> list[Wait]:
    """The longest wait in each queue."""
    found: list[Wait] = []
    for group, topics in groups.items():
        longest: dict[Any, int] = {}
        for send in sends_of(ops):
            acked_ns = ops[send.ended].time_ns
            if send.outcome != "ok" or send.topic not in topics or acked_ns >= load_end_ns:
                continue
            given = [
                ops[given.ended].time_ns
                for given in deliveries_of(ops)
                if (given.group, given.key) == (group, send.key) and given.consumed
            ]
            wait_ns = min([*given, load_end_ns]) - max(acked_ns, load_start_ns)
            longest[send.queue] = max(longest.get(send.queue, wait_ns), wait_ns)
        found += [("delivery_gap", (group, queue), wait) for queue, wait in longest.items()]
    return found
