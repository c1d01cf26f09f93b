"""A run as spans of OpenTelemetry: a trace a message, with the attributes of its semantic conventions for messaging."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from staticfire.checkers.model.history import Op
from staticfire.harness.exports.exchanges import Exchange, Message
from staticfire.harness.exports.flows import number_of
from staticfire.harness.exports.otlp_file import (
    CONSUMER,
    INTERNAL,
    PRODUCER,
    SERVER,
    OtlpFile,
    Span,
    Value,
)
from staticfire.harness.exports.recorded_run import Record, RecordedRun
from staticfire.harness.exports.selection import Selection
from staticfire.harness.version import version_line

TRACE_BYTES = 16


def write_otlp(
    run: RecordedRun, selection: Selection, ops: Callable[[], Iterable[Op]], file: BinaryIO
) -> None:
    """Write the spans of the selected exchanges and of the faults in the window. Raises HistoryError, OSError."""
    spans = _Spans(run, selection)
    out = OtlpFile(file, version_line(), {"staticfire.run": run.name})
    last_ns = 0
    for ended, exchange in selection.of(ops()):
        if ended:
            last_ns = max(last_ns, exchange.end_ns)
            for span in spans.of_exchange(exchange):
                out.add(span)
    for seen in run.observations():
        wanted = seen["kind"] == "ack_durability" and selection.has_key(seen["key"])
        if wanted and selection.has_time(seen["time_ns"]):
            for span in spans.of_acknowledgement(seen):
                out.add(span)
    for span in spans.of_faults(last_ns):
        out.add(span)
    out.close()


class _Spans:
    def __init__(self, run: RecordedRun, selection: Selection) -> None:
        self._run, self._selection = run, selection
        self._epoch_ns = (run.facts.wall_epoch_ms or 0) * 1_000_000

    def of_exchange(self, exchange: Exchange) -> Iterator[Span]:
        """Yield a span for each message: a send is the root of the message's trace, deliveries are its children."""
        for number, message in enumerate(exchange.messages):
            if message.key is None or not self._selection.has_key(message.key):
                continue
            root = self._id("send", message.key)
            operation = "send" if exchange.is_send else "consume"
            parts = (exchange.group, exchange.node, str(exchange.begin_ns), str(number))
            yield Span(
                service=exchange.node,
                trace_id=self._trace(message.key),
                span_id=root if exchange.is_send else self._id("consume", message.key, *parts),
                parent_id=None if exchange.is_send else root,
                name=f"{operation} {exchange.topic}",
                kind=PRODUCER if exchange.is_send else CONSUMER,
                begin_ns=self._epoch_ns + exchange.begin_ns,
                end_ns=self._epoch_ns + exchange.end_ns,
                attributes={
                    **self._common(exchange, message, operation),
                    **(_of_send(exchange) if exchange.is_send else self._of_delivery(exchange)),
                },
                error=None if exchange.outcome == "ok" else _error_text(exchange),
            )

    def _common(self, exchange: Exchange, message: Message, operation: str) -> dict[str, Value]:
        queue = exchange.whole("queue")
        digest = message.digest
        count = len(exchange.messages)
        return {
            "messaging.system": "rocketmq",
            "messaging.operation.name": operation,
            "messaging.operation.type": "send" if operation == "send" else "process",
            "messaging.destination.name": exchange.topic,
            "messaging.destination.partition.id": None if queue is None else str(queue),
            "messaging.client.id": exchange.node,
            "messaging.message.id": None if digest is None else f"{digest:016x}",
            "messaging.rocketmq.message.keys": [] if message.key is None else [message.key],
            "messaging.batch.message_count": count if count > 1 else None,
            "server.address": exchange.broker or None,
            "error.type": None if exchange.outcome == "ok" else exchange.outcome,
            "staticfire.broker": exchange.broker or None,
            "staticfire.queue_offset": message.queue_offset,
            "staticfire.physical_offset": message.physical_offset,
        }

    def _of_delivery(self, exchange: Exchange) -> dict[str, Value]:
        is_broadcast = exchange.group in self._run.facts.broadcasting
        return {
            "messaging.consumer.group.name": exchange.group,
            "messaging.rocketmq.consumption_model": "broadcasting"
            if is_broadcast
            else "clustering",
            "staticfire.reconsume_times": exchange.messages[0].tries,
        }

    def of_acknowledgement(self, seen: Record) -> Iterator[Span]:
        """Yield spans without a duration: the nodes with the message at its acknowledgement, and whether on disk."""
        key, durable = str(seen["key"]), seen["durable_on"]
        at_ns = self._epoch_ns + int(seen["time_ns"])
        for node in dict.fromkeys((*durable, *seen["cached_on"])):
            yield Span(
                service=node,
                trace_id=self._trace(key),
                span_id=self._id("store", key, node, str(seen["time_ns"])),
                parent_id=self._id("send", key),
                name="on disk" if node in durable else "in memory alone",
                kind=SERVER,
                begin_ns=at_ns,
                end_ns=at_ns,
                attributes={
                    "staticfire.broker": seen["broker_name"],
                    "staticfire.status": seen["status"],
                    "staticfire.durable": node in durable,
                },
            )

    def of_faults(self, end_ns: int) -> Iterator[Span]:
        """Yield the trace of the faults: a span for each fault that struck, with a child for each struck node."""
        trace_id = self._id("faults", size_bytes=TRACE_BYTES)
        for number, fault in enumerate(self._run.faults()):
            if fault.struck_ns is None:
                continue
            if not self._selection.overlaps(fault.struck_ns, fault.healed_ns):
                continue
            healed_ns = max(end_ns, fault.struck_ns) if fault.healed_ns is None else fault.healed_ns
            root = self._id("fault", str(number))
            for node in ("staticfire", *fault.targets):
                is_root = node == "staticfire"
                yield Span(
                    service=node,
                    trace_id=trace_id,
                    span_id=root if is_root else self._id("fault", str(number), node),
                    parent_id=None if is_root else root,
                    name=fault.kind,
                    kind=INTERNAL,
                    begin_ns=self._epoch_ns + fault.struck_ns,
                    end_ns=self._epoch_ns + healed_ns,
                    attributes={
                        "staticfire.fault.kind": fault.kind,
                        "staticfire.fault.targets": list(fault.targets),
                        "staticfire.fault.bitten": fault.bitten,
                        "staticfire.fault.evidence": fault.evidence,
                    },
                )

    def _trace(self, key: str) -> int:
        return self._id("message", key, size_bytes=TRACE_BYTES)

    def _id(self, *names: str, size_bytes: int = 8) -> int:
        return number_of(self._run.name, *names, size_bytes=size_bytes)


def _of_send(exchange: Exchange) -> dict[str, Value]:
    level = exchange.whole("delay_level")
    fifo = exchange.text("sharding_key")
    kind = "normal"
    if exchange.text("transaction"):
        kind = "transaction"
    elif level:
        kind = "delay"
    elif fifo:
        kind = "fifo"
    return {
        "messaging.message.body.size": exchange.whole("size"),
        "messaging.rocketmq.message.tag": exchange.text("tag") or None,
        "messaging.rocketmq.message.type": kind,
        "messaging.rocketmq.message.group": fifo or None,
        "messaging.rocketmq.message.delay_time_level": level or None,
        "staticfire.status": exchange.text("status") or None,
        "staticfire.attempts": exchange.whole("attempts"),
    }


def _error_text(exchange: Exchange) -> str:
    return exchange.error or exchange.text("status") or "has no completion"
