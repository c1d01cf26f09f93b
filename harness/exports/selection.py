"""The part of a run that an export shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from staticfire.checkers.model.history import Op
from staticfire.harness.exports.exchanges import Exchange, exchanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected part. An exchange must fit every given field; without any field all exchanges fit.

    Attributes:
        keys: messages with one of these keys.
        since_ns, until_ns: exchanges that begin in this window; the end is exclusive.
    """

    keys: frozenset[str] = frozenset()
    since_ns: int = 0
    until_ns: int | None = None

    def has_time(self, time_ns: int) -> bool:
        """Whether a moment lies in the window."""
        return self.since_ns <= time_ns and (self.until_ns is None or time_ns < self.until_ns)

    def overlaps(self, begin_ns: int, end_ns: int | None) -> bool:
        """Whether an interval, which may be open-ended, overlaps the window."""
        begins_before = self.until_ns is None or begin_ns < self.until_ns
        return begins_before and (end_ns is None or end_ns >= self.since_ns)

    def has_key(self, key: str | None) -> bool:
        """Whether a message is selected."""
        return not self.keys or key in self.keys

    def fits(self, exchange: Exchange) -> bool:
        """Whether an exchange begins in the window and has one of the messages."""
        if not self.has_time(exchange.begin_ns):
            return False
        return not self.keys or any(message.key in self.keys for message in exchange.messages)

    def of(self, ops: Iterable[Op]) -> Iterator[tuple[bool, Exchange]]:
        """Yield the exchanges that fit. Raises HistoryError."""
        return ((ended, one) for ended, one in exchanges(ops) if self.fits(one))
