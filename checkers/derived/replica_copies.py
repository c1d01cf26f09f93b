"""Replica copies: the nodes that hold a message after the run, according to look-ups (`look_up`).

The harness queries the first living node of a replica set for every acknowledged message, and the other nodes for those
that it lacks. If the harness queried only one node, the history may have the observation `queue_entries` of another
one: a node that has more entries than the queried one may hold the message.
"""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.checkers.engine.kernel import Context, queue_of
from staticfire.checkers.guarantees.promises import FOREVER_NS, LossRule
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    MessageEvents,
    Transaction,
)

_Position = tuple[str, str, int, int, str | None]  # topic, broker, queue, queue offset, key


@dataclass(frozen=True, slots=True)
class Copies:
    """The known copies of one message."""

    held_by: tuple[str, ...] = ()
    absent_from: tuple[str, ...] = ()
    maybe_on: str = ""  # a node that was not queried, and has more entries than those that were
    text: str = ""  # where the message is, for readers

    @property
    def survive(self) -> bool:
        """Whether a node holds or may hold the message."""
        return bool(self.held_by or self.maybe_on)


class ReplicaCopies:
    """Finds the copies of given messages in look-ups."""

    def __init__(self, columns: Columns, context: Context, messages: Ints) -> None:
        """Read the look-ups of the messages with these ids."""
        self._asked: dict[_Position, dict[str, bool]] = {}
        wanted = set(map(columns.names.key, messages.tolist()))
        for look_up in context.timeline.look_ups:
            for found in look_up.found:
                if found.key in wanted:
                    position = (
                        look_up.topic,
                        look_up.broker,
                        found.queue,
                        found.queue_offset,
                        found.key,
                    )
                    self._asked.setdefault(position, {})[look_up.node] = found.in_queue
        self._entries: dict[str, dict[str, int]] = {}  # by replica set and node
        for seen in context.observations:
            if seen["kind"] == "queue_entries":
                self._entries.setdefault(seen["broker_name"], {})[seen["node"]] = seen["entries"]

    def of(self, columns: Columns, sends: MessageEvents, row: int) -> Copies:
        """Return the copies of a send with a position."""
        queue = queue_of(columns, sends, row)
        if queue is None:
            return Copies()
        asked = self._asked.get(
            (*queue, int(sends.queue_offset[row]), columns.names.key(int(sends.message[row]))), {}
        )
        held_by = tuple(node for node, in_queue in asked.items() if in_queue)
        absent_from = tuple(node for node, in_queue in asked.items() if not in_queue)
        if held_by:
            return Copies(held_by, absent_from, text=f"{', '.join(held_by)} holds it in its queue")
        return self._copies_when_absent(queue.stream, absent_from)

    def _copies_when_absent(self, broker: str, absent_from: tuple[str, ...]) -> Copies:
        entries = self._entries.get(broker, {})
        if not absent_from or not all(node in entries for node in absent_from):
            return Copies((), absent_from)
        most = max(absent_from, key=entries.__getitem__)
        fuller = max(
            (node for node in entries if node not in absent_from),
            key=entries.__getitem__,
            default=most,
        )
        if entries[fuller] <= entries[most]:
            return Copies((), absent_from)
        text = f"{most} has {entries[most]} queue entries, {fuller} has {entries[fuller]} and may hold it"
        return Copies((), absent_from, fuller, text)


def judge_lost(
    columns: Columns, context: Context, sends: MessageEvents, row: int, copies: Copies
) -> LossRule:
    """Return the rule for the loss of one acknowledged message with a position, given its copies."""
    queue = queue_of(columns, sends, row)
    assert queue is not None  # build_columns refuses an acknowledged send without one
    sent_ns = int(sends.invoke_ns[row])
    promises = context.promises
    rule = promises.rule(
        queue.stream,
        sent_ns,
        key=columns.names.key(int(sends.message[row])),
        stored_ns=stored_by_ns(sends, row),
    )
    return promises.explained(rule, queue.stream, sent_ns, copies.held_by, copies.absent_from)


def stored_by_ns(sends: MessageEvents, row: int) -> int:
    """Return the time in ns by which the broker had surely stored an acknowledged send.

    It is FOREVER_NS for delayed messages and halves of transactions, because the broker stores another copy later.
    """
    kept_back = sends.due_ns[row] != UNKNOWN or sends.transaction[row] != Transaction.NONE
    return FOREVER_NS if kept_back else int(sends.time_ns[row])


def loss_text(context: Context, rule: LossRule, copies: Copies) -> str:
    """Return the promise, the damage, and where the message is, as a text for readers."""
    text = context.promises.text(rule)
    return f"{text}; {copies.text}" if copies.text else text
