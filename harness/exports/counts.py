"""Counts of a run over time: rates, messages not yet delivered, lag of groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from staticfire.checkers.model.message_ids import MessageIds
from staticfire.harness.exports.exchanges import Exchange

STEP_NS = 1_000_000_000
_SHIFT, _MASK = 10, (1 << 10) - 1  # 1,024 messages an integer
_FORGET_AT = 1 << 16  # keys

# (counter, unit, time, value)
Report = Callable[[str, str, int, float], None]


class MessageSet:
    """A set of message keys: about a bit a message for keys of generators."""

    def __init__(self) -> None:
        self._ids = MessageIds()
        self._bits: defaultdict[int, int] = defaultdict(int)

    def add(self, key: str) -> bool:
        """Add a key; return whether it is new."""
        word, bit = self._where(key)
        is_new = not self._bits[word] & bit
        self._bits[word] |= bit
        return is_new

    def __contains__(self, key: str) -> bool:
        word, bit = self._where(key)
        return bool(self._bits.get(word, 0) & bit)

    def _where(self, key: str) -> tuple[int, int]:
        message = self._ids[key]
        if len(self._ids) > _FORGET_AT:
            self._ids.forget()
        return message >> _SHIFT, 1 << (message & _MASK)


class Counts:
    """Reports counters once a second of the run.

    acknowledged: sends a second. delivered: messages a second of each group. unseen: acknowledged messages that no
    consumer has got yet. lag: messages acknowledged in a group's queues behind its last delivered ones.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._next_ns = STEP_NS
        self._acknowledged = 0
        self._delivered: dict[str, int] = {}  # by group, in this second
        self._acked, self._seen = MessageSet(), MessageSet()
        self._unseen = 0
        self._ends: dict[tuple[str, str, int], int] = {}  # the next offset of each queue
        self._positions: dict[str, dict[tuple[str, str, int], int]] = {}  # next offsets of groups

    def add(self, ended: bool, exchange: Exchange) -> None:
        """Count an exchange of the history, in its order."""
        self._advance(exchange.end_ns if ended else exchange.begin_ns)
        if exchange.is_send:
            if ended and exchange.outcome == "ok":
                self._add_send(exchange)
        elif not ended:
            self._add_delivery(exchange)

    def finish(self, end_ns: int) -> None:
        """Report all remaining seconds."""
        self._advance(end_ns + STEP_NS)

    def _add_send(self, exchange: Exchange) -> None:
        self._acknowledged += len(exchange.messages)
        queue = exchange.whole("queue")
        for message in exchange.messages:
            if message.key is not None and self._acked.add(message.key):
                self._unseen += message.key not in self._seen
            if message.queue_offset is not None and queue is not None:
                log_key = (exchange.topic, exchange.broker, queue)
                self._ends[log_key] = max(self._ends.get(log_key, 0), message.queue_offset + 1)

    def _add_delivery(self, exchange: Exchange) -> None:
        group, queue = exchange.group, exchange.whole("queue")
        self._delivered[group] = self._delivered.get(group, 0) + len(exchange.messages)
        positions = self._positions.setdefault(group, {})
        for message in exchange.messages:
            if message.key is not None and self._seen.add(message.key):
                self._unseen -= message.key in self._acked
            if message.queue_offset is not None and queue is not None:
                log_key = (exchange.topic, exchange.broker, queue)
                positions[log_key] = max(positions.get(log_key, 0), message.queue_offset + 1)

    def _advance(self, time_ns: int) -> None:
        if time_ns >= self._next_ns + 3600 * STEP_NS:  # a gap of hours gets one value
            self._write()
            self._next_ns = time_ns - time_ns % STEP_NS
        while time_ns >= self._next_ns:
            self._write()
            self._next_ns += STEP_NS

    def _write(self) -> None:
        at_ns = self._next_ns
        self._report("acknowledged", "messages/s", at_ns, self._acknowledged)
        self._report("unseen", "messages", at_ns, self._unseen)
        for group, count in self._delivered.items():
            self._report(f"delivered to {group}", "messages/s", at_ns, count)
        for group, positions in self._positions.items():
            topics = {topic for topic, _, _ in positions}
            lag = sum(
                max(0, end - positions.get(log_key, 0))
                for log_key, end in self._ends.items()
                if log_key[0] in topics
            )
            self._report(f"lag of {group}", "messages", at_ns, lag)
        self._acknowledged = 0
        self._delivered = dict.fromkeys(self._delivered, 0)
