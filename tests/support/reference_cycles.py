"""Transactional anomalies in plain Python: every pair of transactions, every path. Slow, obvious, no segments, no
graphs.

Shares nothing with the kernels; reads the ops themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

from staticfire.checkers.model.history import Op

LEVELS = ("", "-process", "-realtime")
PATHS = {
    "G0": ("ww", {"ww"}),
    "G1c": ("wr", {"ww", "wr"}),
    "G-single": ("rw", {"ww", "wr"}),
    "G2": ("rw", {"ww", "wr", "rw"}),
}


class Txn:
    def __init__(self, begin: Op, end: Op | None) -> None:
        op = end or begin
        self.begin, self.end, self.process = begin.index, op.index, op.process
        self.type = op.type if end else "info"
        self.sends: list[tuple[str, Any, Any]] = []  # key, value, offset or None
        self.reads: list[tuple[str, Any, int]] = []
        self.polls: list[tuple[str, list[int]]] = []  # key, offsets as they came
        for f, *rest in op.value["mops"]:
            if f == "send":
                key, sent = rest
                offset, value = sent if isinstance(sent, list) else (None, sent)
                self.sends.append((key, value, offset))
            elif rest:
                for key, messages in rest[0].items():
                    self.reads += [(key, value, offset) for offset, value in messages]
                    self.polls.append((key, [offset for offset, _ in messages]))


def txns_of(ops: Sequence[Op]) -> list[Txn]:
    open_ops: dict[int, Op] = {}
    found = []
    for op in ops:
        if op.type == "invoke":
            open_ops[op.process] = op
        else:
            found.append(Txn(open_ops.pop(op.process), op))
    return sorted([*found, *(Txn(op, None) for op in open_ops.values())], key=lambda txn: txn.end)


def committed(txns: list[Txn]) -> list[Txn]:
    seen = {(key, value) for txn in txns if txn.type == "ok" for key, value, _ in txn.reads}
    return [
        txn
        for txn in txns
        if txn.type == "ok"
        or (txn.type == "info" and any((key, value) in seen for key, value, _ in txn.sends))
    ]


def logs(txns: list[Txn]) -> dict[str, list[Any]]:
    """The values of each key in the order of their offsets."""
    happened = committed(txns)
    machines: dict[str, dict[int, Any]] = {}
    for txn in txns:
        sends = txn.sends if txn in happened else []
        for key, value, offset in [*sends, *txn.reads]:
            if offset is not None:
                machines.setdefault(key, {}).setdefault(offset, value)
    return {
        key: list(dict.fromkeys(held[offset] for offset in sorted(held)))
        for key, held in machines.items()
    }


def edges(ops: Sequence[Op]) -> tuple[list[Txn], set[tuple[int, int, str]]]:
    txns = txns_of(ops)
    happened = committed(txns)
    order = logs(txns)
    found: set[tuple[int, int, str]] = set()
    for (a, one), (b, other) in product(enumerate(happened), repeat=2):
        if a == b:
            continue
        for key, held in order.items():
            sent_one = {value for k, value, _ in one.sends if k == key}
            sent_other = {value for k, value, _ in other.sends if k == key}
            read_one = [held.index(v) for k, v, _ in one.reads if k == key and v in held]
            if any(x in sent_one and y in sent_other for x, y in pairwise(held)):
                found.add((a, b, "ww"))
            if other.type == "ok" and sent_one & {v for k, v, _ in other.reads if k == key}:
                found.add((a, b, "wr"))
            behind = held[max(read_one) + 1 :][:1] if read_one else []
            if one.type == "ok" and sent_other.intersection(behind):
                found.add((a, b, "rw"))
        if one.type == "ok" and one.end < other.begin:
            found.add((a, b, "realtime"))
            if one.process == other.process:
                found.add((a, b, "process"))
    return happened, found


def phenomena(ops: Sequence[Op]) -> set[str]:
    """The phenomena of a history, each with the fewest orders that it needs."""
    happened, found = edges(ops)
    names = set()
    for name, (starts, goes_on) in PATHS.items():
        for level, extra in zip(LEVELS, (set(), {"process"}, {"process", "realtime"}), strict=True):
            paths = closure(len(happened), {e[:2] for e in found if e[2] in goes_on | extra})
            plain = closure(len(happened), {e[:2] for e in found if e[2] in {"ww", "wr"} | extra})
            if any(
                kind == starts and (b, a) in paths and not (name == "G2" and (b, a) in plain)
                for a, b, kind in found
            ):
                names.add(name + level)
                break
    return names


def closure(size: int, pairs: set[tuple[int, int]]) -> set[tuple[int, int]]:
    reached = set(pairs)
    for middle, a, b in product(range(size), repeat=3):
        if (a, middle) in reached and (middle, b) in reached:
            reached.add((a, b))
    return reached


def reads(ops: Sequence[Op]) -> set[tuple[str, int, str]]:
    """(G1a | G1b | precommitted_read | txn_phantom | txn_nonmonotonic_poll, op index of who polled, key)."""
    txns = txns_of(ops)
    ever_sent = {(key, value) for txn in txns for key, value, _ in txn.sends}
    order = logs(txns)
    found = set()
    for txn in txns:
        for key in {key for key, _, _ in txn.reads}:
            values = {v for k, v, _ in txn.reads if k == key}
            offsets = [offset for k, _, offset in txn.reads if k == key]
            if not {(key, value) for value in values} <= ever_sent:
                found.add(("txn_phantom", txn.end, key))
            if any(k == key and of != sorted(set(of)) for k, of in txn.polls):
                found.add(("txn_nonmonotonic_poll", txn.end, key))
            if values & {v for k, v, _ in txn.sends if k == key}:
                found.add(("precommitted_read", txn.end, key))
            for other in txns:
                sent = {v for k, v, _ in other.sends if k == key}
                if txn.type != "ok" or other is txn or not values & sent:
                    continue
                if other.type == "fail":
                    found.add(("G1a", txn.end, key))
                held = machines(txns, key, order)
                between = {v for v in held if min(offsets) < held[v] < max(offsets)}
                if (sent - values) & between:
                    found.add(("G1b", txn.end, key))
    return found


def machines(txns: list[Txn], key: str, order: dict[str, list[Any]]) -> dict[Any, int]:
    """value -> the lowest offset at which it was known first."""
    happened = committed(txns)
    held: dict[int, Any] = {}
    for txn in txns:
        for k, value, offset in [*(txn.sends if txn in happened else []), *txn.reads]:
            if k == key and offset is not None:
                held.setdefault(offset, value)
    return {value: min(o for o in held if held[o] == value) for value in order.get(key, ())}


def writes(ops: Sequence[Op]) -> set[tuple[str, int, str]]:
    """(lost_write | txn_duplicate | txn_nonmonotonic_send, op index of who sent, key); and
    (txn_inconsistent_offsets, op index of who first showed a second value at an offset, key).
    """
    txns = txns_of(ops)
    order, happened = logs(txns), committed(txns)
    drains = [op.type for op in ops if op.f == "drain"]
    is_read = bool(drains) and set(drains) == {"ok"}
    polled = [read for txn in txns if txn.type == "ok" for read in txn.reads]
    found = set()
    for txn in txns:
        for key, value, _ in txn.sends if txn in happened else []:
            place = machines(txns, key, order).get(value)
            skipped = (
                is_read if place is None else any(k == key and o >= place for k, _, o in polled)
            )
            if skipped and (key, value) not in {(k, v) for k, v, _ in polled}:
                found.add(("lost_write", txn.end, key))
        for key, value, _ in txn.sends:
            seen = {(k, v, o) for of in txns for k, v, o in of.reads}
            seen |= {sent for of in happened for sent in of.sends if sent[2] is not None}
            if len({o for k, v, o in seen if (k, v) == (key, value)}) > 1:
                found.add(("txn_duplicate", txn.end, key))
            mine = [o for k, _, o in txn.sends if k == key and o is not None]
            if mine != sorted(mine):
                found.add(("txn_nonmonotonic_send", txn.end, key))
    return found | two_values(txns, happened)


def two_values(txns: list[Txn], happened: list[Txn]) -> set[tuple[str, int, str]]:
    seen = [
        (txn.end, *sight)
        for txn in txns
        for sight in [*(txn.sends if txn in happened else []), *txn.reads]
        if sight[2] is not None
    ]
    found = set()
    for place in {(key, offset) for _, key, _, offset in seen}:
        here = [(end, value) for end, key, value, offset in seen if (key, offset) == place]
        others = [end for end, value in here if value != here[0][1]]
        if others:
            found.add(("txn_inconsistent_offsets", others[0], place[0]))
    return found
