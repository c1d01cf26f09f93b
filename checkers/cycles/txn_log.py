"""The logs of a transactional history: the sender and the position of each message, and the messages that were polled.

The inferences are Jepsen's: an unclear transaction has committed if a successful one polled any of its sends (all or
nothing). The position of a message is known from sends of committed transactions and from polls with any outcome. If
two messages are at one position, the first reported one counts. If a message is at two positions, the lower one counts.
Both are anomalies (`txn_inconsistent_offsets`, `txn_duplicate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from staticfire.checkers.model.timeline import Polled, Sent, Txn

Value = int | str
Message = tuple[str, Value]  # key and value: values are unique in a key


class Next(NamedTuple):
    """Two neighbours in the log of a key."""

    key: str
    value: Value
    next_value: Value


def sends_of(txn: Txn) -> Iterator[Sent]:
    return (mop for mop in txn.mops if isinstance(mop, Sent))


def reads_of(txn: Txn) -> Iterator[tuple[str, int, Value]]:
    """Yield (key, offset, value) of every message that a transaction polled, in the order of the polls."""
    for mop in txn.mops:
        if isinstance(mop, Polled):
            for key, messages in mop.messages.items():
                for offset, value in messages:
                    yield key, offset, value


class TxnLog:
    """The transactions of a history, numbered in the order of their completions."""

    def __init__(self, txns: Sequence[Txn]) -> None:
        self.txns = sorted(txns, key=lambda txn: txn.op_index)

    @cached_property
    def writer_of(self) -> dict[Message, int]:
        """The number of the transaction that sent each message; transactions of any outcome count."""
        return {
            (sent.key, sent.value): number
            for number, txn in enumerate(self.txns)
            for sent in sends_of(txn)
        }

    @cached_property
    def committed(self) -> list[bool]:
        """Whether each transaction has certainly committed, by its number."""
        happened = [txn.type == "ok" for txn in self.txns]
        for txn in self.txns:
            if txn.type == "ok":
                for key, _, value in reads_of(txn):
                    writer = self.writer_of.get((key, value))
                    if writer is not None and self.txns[writer].type == "info":
                        happened[writer] = True
        return happened

    def sightings(self) -> Iterator[tuple[int, str, int, Value]]:
        """Yield (number of the transaction, key, offset, value) of committed sends and all polls, by transaction."""
        for number, txn in enumerate(self.txns):
            if self.committed[number]:
                for sent in sends_of(txn):
                    if sent.offset is not None:
                        yield number, sent.key, sent.offset, sent.value
            for key, offset, value in reads_of(txn):
                yield number, key, offset, value

    @cached_property
    def logs(self) -> dict[str, list[tuple[int, Value]]]:
        """The known messages of each key as (offset, value), ascending."""
        positions: dict[str, dict[int, Value]] = {}
        for _, key, offset, value in self.sightings():
            positions.setdefault(key, {}).setdefault(offset, value)
        return {key: _each_once(sorted(held.items())) for key, held in sorted(positions.items())}

    @cached_property
    def offset_of(self) -> dict[Message, int]:
        return {(key, value): offset for key, held in self.logs.items() for offset, value in held}

    def neighbours(self) -> Iterator[Next]:
        """Yield all pairs of known messages with no known message in between."""
        for key, held in self.logs.items():
            for (_, value), (_, next_value) in pairwise(held):
                yield Next(key, value, next_value)


def _each_once(held: list[tuple[int, Value]]) -> list[tuple[int, Value]]:
    lowest: dict[Value, int] = {}
    for offset, value in held:
        lowest.setdefault(value, offset)
    return [(offset, value) for offset, value in held if lowest[value] == offset]
