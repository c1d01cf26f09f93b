"""The keys that clients saw at the offsets around a message in its queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from staticfire.checkers.guarantees.verdict import Finding, seconds
from staticfire.checkers.model.history import HistoryError, Op
from staticfire.checkers.model.message_ranges import messages_of, of_delivery, sends_of

DISTANCE = 4  # offsets on either side
KEYS_MAX = 4  # at one offset, in text
WAIT_MIN_NS = 1_000_000_000  # shorter waits are not shown

Keys = dict[int, list[str]]  # by queue offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A part of an explanation.

    Attributes:
        keys: keys by queue offset, ascending; acknowledged ones come first.
        unread: offsets with an acknowledged message and no delivery.
        waits_ns: by offset, the time from an acknowledgement to the first delivery.
    """

    keys: Mapping[int, tuple[str, ...]]
    unread: frozenset[int]
    waits_ns: Mapping[int, int]
    name: str = "surroundings"

    def lines(self) -> list[str]:
        return ["queue     " + ", ".join(self._text(offset) for offset in self.keys)]

    def _text(self, offset: int) -> str:
        there = self.keys[offset]
        more = len(there) - KEYS_MAX
        keys = " and ".join([*there[:KEYS_MAX], *([f"{more} more"] if more > 0 else [])])
        wait_ns = self.waits_ns.get(offset, 0)
        waited = f" (after {seconds(wait_ns)})" if wait_ns >= WAIT_MIN_NS else ""
        return f"{offset} {keys}{' (not delivered)' if offset in self.unread else waited}"

    def to_json(self) -> list[dict[str, object]]:
        return [
            {
                "offset": offset,
                "keys": list(keys),
                "delivered": offset not in self.unread,
                "wait_ns": self.waits_ns.get(offset),
            }
            for offset, keys in self.keys.items()
        ]


def surroundings_of(witness: Finding, ops: Iterable[Op]) -> Surroundings | None:
    """Return the surroundings of a finding; None if it names no offset or no key was seen near it.

    Raises HistoryError for an op without the fields of its kind.
    """
    if witness.queue_offset is None:
        return None
    sent: Keys = {}
    given: Keys = {}
    sent_ns: dict[tuple[int, str], int] = {}
    given_ns: dict[tuple[int, str], int] = {}
    for op in ops:
        try:
            for there, key, offset in _around(witness, op, sent, given):
                there.setdefault(offset, []).append(key)
                (sent_ns if there is sent else given_ns).setdefault((offset, key), op.time_ns)
        except (KeyError, TypeError, ValueError) as error:
            raise HistoryError(f"op {op.index} is no {op.f}: {op.value!r:.200}") from error
    offsets = sorted({*sent, *given})
    if offsets in ([], [witness.queue_offset]):
        return None
    keys = {
        offset: tuple(dict.fromkeys([*sent.get(offset, ()), *given.get(offset, ())]))
        for offset in offsets
    }
    waits_ns = {seen[0]: given_ns[seen] - sent_ns[seen] for seen in sent_ns if seen in given_ns}
    return Surroundings(keys=keys, unread=frozenset(sent) - frozenset(given), waits_ns=waits_ns)


def _around(witness: Finding, op: Op, sent: Keys, given: Keys) -> Iterator[tuple[Keys, str, int]]:
    """Yield the keys of an op with offsets near the message, each with the table that it belongs to."""
    queue = witness.topic, witness.broker, witness.queue
    if tuple(map(op.value.get, ("topic", "broker", "queue"))) != queue:
        return
    for there, key, offset in _offsets_in(op, sent, given):
        if key is None or offset is None or offset < 0:
            continue
        if abs(offset - (witness.queue_offset or 0)) <= DISTANCE:
            yield there, key, offset


def _offsets_in(op: Op, sent: Keys, given: Keys) -> Iterator[tuple[Keys, str | None, int | None]]:
    """Yield the keys of an op with their offsets, each with the table that it belongs to."""
    if op.f == "send" and op.type == "ok":
        yield sent, op.value.get("key"), op.value.get("queue_offset")
    elif op.f == "send_many" and op.type == "ok":
        for value in sends_of(op.value):
            yield sent, value.get("key"), value.get("queue_offset")
    elif op.f == "consume" and op.type in ("invoke", "ok"):
        yield from ((given, key, offset) for key, offset, *_ in op.value["messages"])
    elif op.f == "consume_many" and op.type == "invoke":
        for row in op.value["ranges"]:
            yield from ((given, key, offset) for key, offset, *_ in messages_of(of_delivery(row)))
