"""Contents of messages: a consumer receives the contents that the producer sent, and copies keep those of the original.

**tag_changed**, **properties_changed**, **size_changed**, **id_changed**: a delivery has another tag, other user
properties, another body size or another unique message id than the send of its key. This applies to every copy that
brokers and clients make of a message: delayed messages, half messages, retries and dead letters. If no broker answered
the send, the id of the first delivery counts as its id. The project's own consumers report two other errors as changed
properties: a lost or changed sharding key, and a born host that is the broker's address
(`harness/clients/contents.py`).

**born_time_changed**: a delivery has another born time than the first one from the message's own topic, although the
message was sent in one attempt. A retry counts only if, as the consumer reports (`send_back`), the broker made the copy
for each failed delivery before it, because a client that sends its own copy sets a new born time.
**store_time_changed**: an earlier delivery of the record at one position (queue, queue offset, physical offset) had
another store time. **origin_changed**: a retry or a dead letter names no original (ORIGIN_MESSAGE_ID), or an original
at a position from which the message was not delivered; or it does not name the topic to which the message was sent
(RETRY_TOPIC, which the client passes to the listener as the message's topic). Or a delivery from the message's own
topic names an original.

`provenance` compares bodies, with the key. This kernel compares only their size, because a shortened body may still be
valid.

Cannot see: contents that clients do not report (their columns are UNKNOWN); condensed deliveries (`consume_many`); a
RETRY_TOPIC that is another topic of producers; contents of a message without a send in the history, except for its id
and its store time.

Source: AbstractSendMessageProcessor.consumerSendMsgBack, ScheduleMessageService and TransactionalMessageBridge of
Apache RocketMQ 4.9, which copy properties, born time and flags, and set RETRY_TOPIC, REAL_TOPIC, ORIGIN_MESSAGE_ID.
"""

from __future__ import annotations

import numpy as np

from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, nothing_missing
from staticfire.checkers.engine.position_index import index_of
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    Mask,
    MessageEvents,
    Outcome,
    is_constant,
)
from staticfire.checkers.model.message_contents import CONTENTS, VALUE_MAX

WHAT = {
    "id_changed": "another message id than the send, or than an earlier delivery, had",
    "properties_changed": "other properties than it was sent with (or sharding key, or a broker as its born host)",
    "born_time_changed": "another born time than an earlier delivery of the message had",
    "store_time_changed": "another store time than the same record had before",
}


def tally_contents(columns: Columns, context: Context) -> Tally:
    """Judge the contents of the deliveries of whole messages (partition key: message)."""
    if not reports_contents(columns.deliveries):
        return Tally()
    judged = _Contents(columns, context)
    found = {
        "tag_changed": judged.other_tag(),
        "properties_changed": judged.other_properties(),
        "size_changed": judged.other_size(),
        "id_changed": judged.other_id(),
        "born_time_changed": judged.other_born_time(),
        "store_time_changed": judged.other_store_time(),
        "origin_changed": judged.other_origin(),
    }
    findings = [
        _finding(columns, context, judged, anomaly, row)
        for anomaly, rows in found.items()
        for row in np.flatnonzero(rows).tolist()
    ]
    identified = int(np.count_nonzero(columns.deliveries.message_id != UNKNOWN))
    return Tally.of(findings, **_counted(identified))


def _counted(identified: int) -> dict[str, int]:
    """Return the count of deliveries with a message id, or nothing if there are none."""
    return {"identified": identified} if identified else {}


def reports_contents(deliveries: MessageEvents) -> bool:
    """Whether any delivery has contents."""
    columns = [getattr(deliveries, name) for name in CONTENTS]
    return any(
        column[0] != UNKNOWN if is_constant(column) else bool((column != UNKNOWN).any())
        for column in columns
    )


class _Contents:
    """The deliveries of whole messages with their sends; masks have shape (deliveries,)."""

    def __init__(self, columns: Columns, context: Context) -> None:
        self._columns, self._context = columns, context
        self.deliveries, sends = columns.deliveries, columns.sends
        message = self.deliveries.message
        order = np.argsort(sends.message, kind="stable")
        at = np.searchsorted(sends.message[order], message)
        at[at == len(order)] = 0
        self.send = order[at] if len(order) else np.full(len(message), UNKNOWN)
        self.is_sent: Mask = np.zeros(len(message), np.bool_)
        if len(order):
            self.is_sent = sends.message[self.send] == message
        self.is_sent &= message != UNKNOWN

    def sent(self, name: str) -> Ints:
        """Return the value of a column for the send of each delivery; UNKNOWN without a send."""
        column = getattr(self._columns.sends, name)
        if not len(column):
            return np.full(len(self.send), UNKNOWN)
        found: Ints = np.where(self.is_sent, column[self.send], UNKNOWN)
        return found

    def other_tag(self) -> Mask:
        tags = self._columns.names.tags
        untagged = tags.index("") if "" in tags else len(tags)
        sent = self.sent("tag")
        expected = np.where(sent == UNKNOWN, untagged, sent)
        got = self.deliveries.tag
        found: Mask = self.is_sent & (got != UNKNOWN) & (got != expected)
        return found

    def other_properties(self) -> Mask:
        return _differ(self.deliveries.properties, self.sent("properties"))

    def other_size(self) -> Mask:
        sent = self.sent("size")
        found = _differ(self.deliveries.size, sent)
        for row in np.flatnonzero(found):
            found[row] = self.deliveries.size[row] != body_size(
                self._columns, int(self.deliveries.message[row]), int(sent[row])
            )
        return found

    def other_id(self) -> Mask:
        got = self.deliveries.message_id
        sent = self.sent("message_id")
        first = self._first_known(got, self.deliveries.message, self.deliveries.message != UNKNOWN)
        return _differ(got, np.where(sent == UNKNOWN, first, sent))

    def other_born_time(self) -> Mask:
        """Whether the born time of each delivery differs; False for copies that a client may have made."""
        got = self.deliveries
        internal = self._columns.names.internal_topic[got.topic]
        once = self.sent("tries") == 1
        first = self._first_known(got.born_ms, got.message, once & ~internal)
        found: Mask = once & _differ(got.born_ms, first)
        for row in np.flatnonzero(found & internal).tolist():
            found[row] = self._is_by_broker(row)
        return found

    def _is_by_broker(self, row: int) -> bool:
        """Whether consumers report that brokers made this copy and all copies before it."""
        got, names = self.deliveries, self._columns.names
        group = int(got.group[row])
        reported = [
            sent
            for sent in self._context.timeline.sent_back.get(
                str(names.key(int(got.message[row]))), ()
            )
            if sent.group == names.groups[group]
        ]
        mine = (got.message == got.message[row]) & (got.group == group)
        failed = got.tries[mine & (got.outcome != Outcome.OK)]
        return all(
            len(of := [sent for sent in reported if sent.tries == tries]) > 0
            and all(sent.by_broker for sent in of)
            and len(of) >= int((failed == tries).sum())
            for tries in range(int(got.tries[row]))
        )

    def other_store_time(self) -> Mask:
        got = self.deliveries
        record = numbered(got.message, got.log, got.queue_offset, got.position)
        first = self._first_known(got.stored_ms, record, got.message != UNKNOWN)
        return _differ(got.stored_ms, first)

    def other_origin(self) -> Mask:
        got = self.deliveries
        internal = self._columns.names.internal_topic[got.topic]
        position = numbered(got.message, got.position)
        originals = position[~internal]
        named = _numbered_like(position, (got.message, got.position), (got.message, got.origin))
        right: Mask = np.isin(named, originals) | (got.origin == got.message_id)
        known: Mask = (got.message_id != UNKNOWN) & (got.message != UNKNOWN)
        copied = (got.message != UNKNOWN) & ~internal & (got.origin != UNKNOWN)
        found: Mask = (internal & known & ~right) | copied
        return found

    def _first_known(self, values: Ints, of: Ints, rows: Mask) -> Ints:
        """Return, for each delivery, the first known value, by op, among `rows` with the same `of`; UNKNOWN if none."""
        there = np.flatnonzero(rows & (values != UNKNOWN))
        there = there[np.argsort(self.deliveries.op_index[there], kind="stable")]
        ids, first = np.unique(of[there], return_index=True)
        if not len(ids):
            return np.full(len(values), UNKNOWN)
        at = np.minimum(np.searchsorted(ids, of), len(ids) - 1)
        found: Ints = np.where(ids[at] == of, values[there[first[at]]], UNKNOWN)
        return found


def _differ(got: Ints, expected: Ints) -> Mask:
    """Whether both are known and differ."""
    found: Mask = (got != expected) & (got != UNKNOWN) & (expected != UNKNOWN)
    return found


def numbered(*columns: Ints) -> Ints:
    """Number the rows, shape (rows,). Rows that are equal in all columns get the same number."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, at = np.unique(column, return_inverse=True)
        _, number = np.unique(number * len(values) + at, return_inverse=True)
    return number


def _numbered_like(numbers: Ints, like: tuple[Ints, Ints], columns: tuple[Ints, Ints]) -> Ints:
    """Return, for each row of `columns`, the number of an equal row of `like`; UNKNOWN if there is none.

    `numbers` are those of the rows of `like`.
    """
    size = len(numbers)
    both = numbered(*(np.concatenate(pair) for pair in zip(like, columns, strict=True)))
    table = np.full(int(both.max()) + 1 if size else 0, UNKNOWN)
    table[both[:size]] = numbers
    found: Ints = table[both[size:]]
    return found


def body_size(columns: Columns, message: int, size: int) -> int:
    """Return the body size in bytes of a message that was sent with `size`. A body always holds its key and a space."""
    key = columns.names.key(message)
    return size if key is None else max(size, len(key.encode()) + 1)


def changed_among(columns: Columns, _context: Context, cleared: Mask) -> Ints:
    """Select cleared messages (`screening.py`) with contents that differ between deliveries, or from the send."""
    deliveries, sends = columns.deliveries, columns.sends
    if not reports_contents(deliveries):
        return np.zeros(0, np.int64)
    index = index_of(columns)
    rows = np.flatnonzero(cleared & index.placed)
    candidate = np.zeros(len(deliveries), np.bool_)
    position = index.delivery_position
    for name in ("message_id", "properties"):
        candidate |= _differ(
            getattr(deliveries, name),
            _at_positions(index.size, index.send_position, sends, name, rows)[position],
        )
    size = _at_positions(index.size, index.send_position, sends, "size", rows)[position]
    candidate |= _differ(deliveries.size, size)
    tag = _at_positions(index.size, index.send_position, sends, "tag", rows)[position]
    tags = columns.names.tags
    untagged = tags.index("") if "" in tags else len(tags)
    candidate |= (deliveries.tag != UNKNOWN) & (
        deliveries.tag != np.where(tag == UNKNOWN, untagged, tag)
    )
    candidate |= (deliveries.origin != UNKNOWN) & ~columns.names.internal_topic[deliveries.topic]
    every = np.arange(len(deliveries))
    for name in ("message_id", "born_ms", "stored_ms"):
        any_of = _at_positions(index.size, position, deliveries, name, every)
        candidate |= _differ(getattr(deliveries, name), any_of[position])
    found: Ints = np.unique(deliveries.message[candidate & (deliveries.message != UNKNOWN)])
    return found


def _at_positions(size: int, position: Ints, events: MessageEvents, name: str, rows: Ints) -> Ints:
    """Return a value of one of the events at each position, UNKNOWN without an event; shape (size,)."""
    table = np.full(size, UNKNOWN)
    table[position[rows]] = getattr(events, name)[rows]
    return table


def _finding(
    columns: Columns, context: Context, judged: _Contents, anomaly: str, row: int
) -> Finding:
    deliveries = columns.deliveries
    return finding_at(
        columns,
        deliveries,
        row,
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        detail=_detail(columns, judged, anomaly, row),
        group=columns.names.groups[deliveries.group[row]],
        at_invocation=True,
    )


def _detail(columns: Columns, judged: _Contents, anomaly: str, row: int) -> str:
    got = columns.deliveries
    if anomaly == "tag_changed":
        sent = int(judged.sent("tag")[row])
        tags = columns.names.tags
        was = "" if sent == UNKNOWN else tags[sent]
        return f"{_tagged(tags[got.tag[row]])}, sent {_tagged(was)}"
    if anomaly == "size_changed":
        size = body_size(columns, int(got.message[row]), int(judged.sent("size")[row]))
        return f"a body of {got.size[row]} bytes, sent with {size}"
    if anomaly == "origin_changed":
        # clients report an invalid origin by this value (docs/history.md)
        if got.origin[row] == VALUE_MAX:
            return (
                "a copy whose ORIGIN_MESSAGE_ID is no id of a message, or whose RETRY_TOPIC is no topic to which "
                "producers send"
            )
        if not columns.names.internal_topic[got.topic[row]]:
            return f"named as a copy of a message at physical offset {got.origin[row]}, and it was never sent back"
        if got.origin[row] == UNKNOWN:
            return "a copy that names no original (ORIGIN_MESSAGE_ID)"
        return f"a copy of a message at physical offset {got.origin[row]}, where this one was never delivered from"
    return WHAT[anomaly]


def _tagged(tag: str) -> str:
    return f"with the tag {tag!r}" if tag else "without a tag"


CONTENTS_KEPT = Kernel(
    name="contents",
    partition_by="message",
    screened=True,
    anomalies=(
        "tag_changed",
        "properties_changed",
        "size_changed",
        "id_changed",
        "born_time_changed",
        "store_time_changed",
        "origin_changed",
    ),
    partial=tally_contents,
    unknown_reason=nothing_missing,
    counts_of_screened_out=lambda screened_out: _counted(screened_out.identified),
    more_candidates=changed_among,
)
