"""The keys at the offsets around a message in its queue, as far as clients saw them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import messages_of, of_delivery

DISTANCE = 4  # offsets on either side
KEYS_MAX = 4  # at one offset, in text


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A part of an explanation.

    Attributes:
        keys: by queue offset, ascending; what was acknowledged there comes first.
        unread: offsets at which a message was acknowledged and none was delivered.
    """

    keys: Mapping[int, tuple[str, ...]]
    unread: frozenset[int]
    name: str = "surroundings"

    def lines(self) -> list[str]:
        return ["queue     " + ", ".join(self._text(offset) for offset in self.keys)]

    def _text(self, offset: int) -> str:
        there = self.keys[offset]
        more = len(there) - KEYS_MAX
        keys = " and ".join([*there[:KEYS_MAX], *([f"{more} more"] if more > 0 else [])])
        return f"{offset} {keys}{' (not delivered)' if offset in self.unread else ''}"

    def to_json(self) -> list[dict[str, object]]:
        return [
            {"offset": offset, "keys": list(keys), "delivered": offset not in self.unread}
            for offset, keys in self.keys.items()
        ]


def surroundings_of(witness: Finding, ops: Iterable[Op]) -> Surroundings | None:
    """None if the finding names no place in a queue, or nothing lies around it."""
    at = witness.queue_offset
    if at is None:
        return None
    sent: dict[int, list[str]] = {}
    given: dict[int, list[str]] = {}
    for op in ops:
        value = op.value
        if (value.get("topic"), value.get("broker"), value.get("queue")) != (
            witness.topic,
            witness.broker,
            witness.queue,
        ):
            continue
        for where, key, offset in _places(op):
            if key is None or offset is None or offset < 0 or abs(offset - at) > DISTANCE:
                continue
            there = (sent if where == "sent" else given).setdefault(offset, [])
            if key not in there:
                there.append(key)
    offsets = sorted({*sent, *given})
    if offsets in ([], [at]):
        return None
    keys = {
        offset: tuple(dict.fromkeys([*sent.get(offset, ()), *given.get(offset, ())]))
        for offset in offsets
    }
    return Surroundings(keys=keys, unread=frozenset(sent) - frozenset(given))


def _places(op: Op) -> Iterator[tuple[str, str | None, int | None]]:
    """Where an op says that a message is: whether it was sent or given, its key and its queue offset."""
    if op.f == "send" and op.type == "ok":
        yield "sent", op.value.get("key"), op.value.get("queue_offset")
    elif op.f == "consume" and op.type in ("invoke", "ok"):
        yield from (("given", key, offset) for key, offset, *_ in op.value["messages"])
    elif op.f == "consume_many" and op.type == "invoke":
        for row in op.value["stretches"]:
            for key, offset, *_ in messages_of(of_delivery(row)):
                yield "given", key, offset
