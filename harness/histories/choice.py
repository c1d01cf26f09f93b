"""Selects ops of a history; an invocation and its completion stay together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from staticfire.checkers.model.columns import LogKey
from staticfire.checkers.model.history import HistoryError, Op
from staticfire.checkers.op_kinds.consumer import CONSUME_MANY
from staticfire.checkers.op_kinds.producer import SEND_MANY


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The selection of a user. An op must fit every given option; without options every op fits."""

    since_ns: int | None = None
    until_ns: int | None = None  # exclusive
    processes: frozenset[int] = frozenset()
    queues: frozenset[LogKey] = frozenset()
    keys: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def fits(self, op: Op) -> bool:
        """Whether this op by itself fits."""
        return (
            (self.since_ns is None or op.time_ns >= self.since_ns)
            and (self.until_ns is None or op.time_ns < self.until_ns)
            and (not self.processes or op.process in self.processes)
            and (not self.functions or op.f in self.functions)
            and (not self.groups or op.value.get("group") in self.groups)
            and (not self.queues or not self.queues.isdisjoint(queues_of(op)))
            and (not self.keys or not self.keys.isdisjoint(keys_of(op)))
        )


def keys_of(op: Op) -> Iterator[str]:
    """Return the keys of an op's messages."""
    if isinstance(key := op.value.get("key"), str):
        yield key
    for message in _rows(op, "messages"):
        if isinstance(message[0], str):
            yield message[0]


def queues_of(op: Op) -> Iterator[LogKey]:
    """Return the message queues of an op, as far as it names them."""
    value = op.value
    topic = value.get("topic")
    if not isinstance(topic, str):
        return
    if isinstance(value.get("broker"), str) and isinstance(value.get("queue"), int):
        yield LogKey(topic, value["broker"], value["queue"])
    for name in ("queues", "offsets"):
        for row in _rows(op, name):
            if len(row) >= 2 and isinstance(row[0], str) and isinstance(row[1], int):
                yield LogKey(topic, row[0], row[1])


def _rows(op: Op, name: str) -> Iterator[list[object]]:
    rows = op.value.get(name)
    if isinstance(rows, list):
        yield from (row for row in rows if isinstance(row, list) and row)


def chosen(ops: Callable[[], Iterable[Op]], choice: Choice) -> Iterator[Op]:
    """Yield the selected ops with new indices. Reads all ops twice, at a byte of memory an op. Raises HistoryError."""
    wanted = _wanted(ops(), choice)
    index = 0
    for op in ops():
        if wanted[op.index]:
            yield replace(op, index=index, value=_about(op, choice.keys))
            index += 1


def _about(op: Op, keys: frozenset[str]) -> object:
    """Return the value; for a look-up of thousands of messages, only the part about the selected ones."""
    if op.f != "look_up" or not keys:
        return op.value
    found = [row for row in _rows(op, "messages") if row[0] in keys]
    return {**op.value, "messages": found}


def _wanted(ops: Iterable[Op], choice: Choice) -> bytearray:
    """Return for each index whether the op is selected."""
    wanted = bytearray()
    waiting: dict[object, tuple[int, bool]] = {}
    for op in ops:
        fits = choice.fits(op)
        wanted.append(fits)
        pair = pair_of(op)
        if pair is None:
            continue
        if op.type == "invoke":
            waiting[pair] = op.index, fits
        elif pair in waiting:
            invoked, did_fit = waiting.pop(pair)
            wanted[invoked] = wanted[op.index] = fits or did_fit
    return wanted


def pair_of(op: Op) -> object:
    """Return what an invocation and its completion have in common; None for an op without a partner."""
    try:
        pair = _identity(op)
        hash(pair)
    except (KeyError, TypeError, IndexError) as error:
        raise HistoryError(f"op {op.index} ({op.f}): its value is {op.value!r}") from error
    return pair


def _identity(op: Op) -> object:
    value = op.value
    if op.f in ("send", SEND_MANY, "probe"):
        return value.get("key")
    rows = {"consume": "messages", CONSUME_MANY: "ranges"}.get(op.f)
    if rows is not None and value[rows]:
        position = value["topic"], value["broker"], value["queue"], value[rows][0][1]
        return (op.process, value["group"], *position)
    return None
