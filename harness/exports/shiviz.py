"""Writes a run as a log with vector clocks for ShiViz, whose hosts are clients, brokers and the nemesis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from typing import BinaryIO, NamedTuple

import orjson

from staticfire.checkers.model.history import HistoryError, Op
from staticfire.harness.exports.counts import MessageSet
from staticfire.harness.exports.exchanges import Exchange, Message
from staticfire.harness.exports.recorded_run import RecordedRun
from staticfire.harness.exports.selection import Selection
from staticfire.harness.truncated_repr import printable

# The first line of the file, in ShiViz's form; the empty second line means that there is one execution.
REGEX = r"(?<host>\S+) (?<clock>\{.*\})\n(?<time>\d+\.\d+) (?<event>.*)"
EVENTS_MAX = 20_000  # ShiViz draws each event
NAMES_MAX = 8  # keys in one text
NEMESIS = "nemesis"
Clock = dict[str, int]


class _Happening(NamedTuple):
    """A step of the history, or a fault that begins or ends."""

    time_ns: int
    order: int  # faults come before other events of the same time
    exchange: Exchange | None = None
    ended: bool = False
    text: str = ""
    targets: tuple[str, ...] = ()


class TooManyEvents(HistoryError):
    """The selection has more events than ShiViz can draw."""


def write_shiviz(
    run: RecordedRun, selection: Selection, ops: Callable[[], Iterable[Op]], file: BinaryIO
) -> None:
    """Write the log of the selected exchanges. Raises TooManyEvents, HistoryError, OSError."""
    file.write(f"{REGEX}\n\n".encode())
    log = _Log(run, selection, file)
    for happening in merge(_steps(selection, ops()), _fault_steps(run, selection)):
        if happening.exchange is None:
            log.add_fault(happening)
        elif happening.exchange.is_send:
            log.add_send(happening.exchange, happening.ended, happening.time_ns)
        else:
            log.add_delivery(happening.exchange, happening.ended, happening.time_ns)


def _steps(selection: Selection, ops: Iterable[Op]) -> Iterator[_Happening]:
    for number, (ended, exchange) in enumerate(selection.of(ops), start=1):
        time_ns = exchange.end_ns if ended else exchange.begin_ns
        yield _Happening(time_ns, number, exchange, ended)


def _fault_steps(run: RecordedRun, selection: Selection) -> Iterator[_Happening]:
    found = []
    for fault in run.faults():
        for time_ns, text in (
            (fault.struck_ns, f"{fault.kind} strikes"),
            (fault.healed_ns, f"{fault.kind} is over"),
        ):
            if time_ns is not None and fault.struck_ns is not None and selection.has_time(time_ns):
                found.append(_Happening(time_ns, 0, text=text, targets=fault.targets))
    return iter(sorted(found, key=lambda one: one.time_ns))


class _Log:
    """Keeps a clock for each host. A message carries the clock of its sender until its answer is known."""

    def __init__(self, run: RecordedRun, selection: Selection, file: BinaryIO) -> None:
        self._run, self._selection, self._file = run, selection, file
        self._clocks: dict[str, Clock] = {}
        self._sent: dict[str, Clock] = {}  # of messages that no broker is known to have
        self._stored = MessageSet()
        self._events = 0

    def add_send(self, exchange: Exchange, ended: bool, time_ns: int) -> None:
        """Add a send of a producer; a broker that answered has stored the message before."""
        host, keys = exchange.node, self._keys(exchange)
        text = _names(keys)
        if not ended:
            self._event(host, time_ns, f"sends {text} to {exchange.topic}")
            self._sent.update((key, dict(self._clocks[_host(host)])) for key in keys)
            return
        if exchange.outcome == "ok" and exchange.broker:
            for key, message in self._wanted(exchange):
                self._store(key, message, exchange, time_ns)
            self._event(host, time_ns, f"{text} is acknowledged", exchange.broker)
            return
        why = exchange.error or exchange.text("status") or "no completion"
        self._event(host, time_ns, f"{text} has the outcome {exchange.outcome}: {why}")
        if exchange.outcome == "fail":
            for key in keys:
                self._sent.pop(key, None)

    def add_delivery(self, exchange: Exchange, ended: bool, time_ns: int) -> None:
        """Add a broker's delivery and the call of the listener."""
        text = _names(self._keys(exchange))
        if ended:
            self._event(exchange.node, time_ns, f"listener ends {exchange.outcome}: {text}")
            return
        for key, message in self._wanted(exchange):
            self._store(key, message, exchange, time_ns)
        self._event(exchange.broker, time_ns, f"hands {text} to {exchange.group}")
        said = f"listener of {exchange.group} is given {text}"
        self._event(exchange.node, time_ns, said, exchange.broker)

    def add_fault(self, happening: _Happening) -> None:
        """Add a fault: the nemesis acts on nodes. A broker's nodes share the host of the broker."""
        self._event(NEMESIS, happening.time_ns, happening.text)
        hosts = {
            node: name for name, nodes in self._run.facts.replica_sets.items() for node in nodes
        }
        for target in dict.fromkeys(hosts.get(node, node) for node in happening.targets):
            self._event(target, happening.time_ns, happening.text, NEMESIS)

    def _store(self, key: str, message: Message, exchange: Exchange, time_ns: int) -> None:
        """Add the event that the broker has the message, at the first evidence of that; once for each message."""
        if not self._stored.add(key):
            return
        position = f"queue {exchange.whole('queue')} offset {message.queue_offset}"
        sent = self._sent.pop(key, None)
        self._event(exchange.broker, time_ns, f"has {key}: {position}", clock=sent)

    def _event(
        self, host: str, time_ns: int, text: str, cause: str = "", clock: Clock | None = None
    ) -> None:
        """Write an event of a host, after the latest of `cause` and after `clock`. Raises TooManyEvents, OSError."""
        self._events += 1
        if self._events > EVENTS_MAX:
            raise TooManyEvents(
                f"the selection has more than {EVENTS_MAX} events, too many for ShiViz to draw; "
                "choose fewer with --key, or --from and --to"
            )
        host = _host(host)
        own = self._clocks.setdefault(host, {})
        for seen in (self._clocks.get(_host(cause), {}), clock or {}):
            for other, count in seen.items():
                own[other] = max(own.get(other, 0), count)
        own[host] = own.get(host, 0) + 1
        seconds = f"{time_ns // 10**9}.{time_ns % 10**9:09d}"
        clock_text = orjson.dumps(own, option=orjson.OPT_SORT_KEYS).decode()
        line = f"{host} {clock_text}\n{seconds} {printable(text)}\n"
        self._file.write(line.encode(errors="replace"))

    def _wanted(self, exchange: Exchange) -> Iterator[tuple[str, Message]]:
        for message in exchange.messages:
            if message.key is not None and self._selection.has_key(message.key):
                yield message.key, message

    def _keys(self, exchange: Exchange) -> list[str]:
        return [key for key, _ in self._wanted(exchange)]


def _names(keys: list[str]) -> str:
    if not keys:
        return "a message without a key"
    more = f" and {len(keys) - NAMES_MAX} more" if len(keys) > NAMES_MAX else ""
    return ", ".join(keys[:NAMES_MAX]) + more


def _host(name: str) -> str:
    """Return the name of a host as one word."""
    return "_".join(printable(name).split()) or "unknown"
