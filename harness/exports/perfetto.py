"""Writes a run as a trace of Perfetto: tracks by node, faults as bands, arrows along the life of a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import orjson

from staticfire.checkers.model.history import Op
from staticfire.harness.exports.counts import Counts
from staticfire.harness.exports.exchanges import Exchange, exchanges
from staticfire.harness.exports.flows import flow_of
from staticfire.harness.exports.perfetto_file import PerfettoFile
from staticfire.harness.exports.recorded_run import Fault, RecordedRun
from staticfire.harness.exports.selection import Selection

RUN, FAULTS, VERDICT = "run", "faults", "verdict"  # groups of tracks that are no node
FLOWS_MAX = 100  # arrows of one slice
_OUTCOMES = {"ok": "", "fail": "refused: ", "info": "unclear: ", "open": "open: "}


def write_perfetto(
    run: RecordedRun, selection: Selection, ops: Callable[[], Iterable[Op]], file: BinaryIO
) -> None:
    """Write the trace of the selected exchanges, with all faults, logs and counters of the window.

    Memory grows with the number of open exchanges, and by a bit for each message. Raises HistoryError, OSError.
    """
    trace = PerfettoFile(file)
    writer = _Writer(run, selection, trace)
    end_ns = writer.add_exchanges(ops())
    writer.add_observations()
    writer.add_logs()
    writer.add_faults(end_ns)
    writer.add_findings()
    trace.close()


class _Writer:
    def __init__(self, run: RecordedRun, selection: Selection, trace: PerfettoFile) -> None:
        self._run, self._selection, self._trace = run, selection, trace

    def add_exchanges(self, ops: Iterable[Op]) -> int:
        """Add sends, deliveries and counters. Return the end of the history."""
        last_ns = 0
        rows: dict[int, int] = {}  # id of an open exchange -> its row
        counts = Counts(self._count)
        for ended, exchange in exchanges(ops):
            last_ns = exchange.end_ns if ended else exchange.begin_ns
            counts.add(ended, exchange)
            if not self._selection.fits(exchange):
                continue
            track = "sends" if exchange.is_send else f"listener of {exchange.group}"
            if not ended:
                rows[id(exchange)] = self._trace.take_row(exchange.node, track)
                continue
            row = rows.pop(id(exchange))
            self._trace.free_row(exchange.node, track, row)
            self._add_exchange(exchange, track, row)
        counts.finish(last_ns)
        return last_ns

    def _count(self, name: str, unit: str, time_ns: int, value: float) -> None:
        if self._selection.has_time(time_ns):
            self._trace.counter(RUN, name, unit, time_ns, value)

    def _add_exchange(self, exchange: Exchange, track: str, row: int) -> None:
        keys = [
            message.key
            for message in exchange.messages
            if message.key is not None and self._selection.has_key(message.key)
        ]
        more = f" and {len(exchange.messages) - 1} more" if len(exchange.messages) > 1 else ""
        name = f"{_OUTCOMES[exchange.outcome]}{keys[0] if keys else 'message without a key'}{more}"
        flows = list(self._flows(exchange))
        first = exchange.messages[0] if exchange.messages else None
        self._trace.slice(
            exchange.node,
            track,
            name,
            exchange.begin_ns,
            exchange.end_ns,
            row=row,
            category="send" if exchange.is_send else "delivery",
            arguments={
                "topic": exchange.topic,
                "broker": exchange.broker or None,
                "queue": exchange.whole("queue"),
                "queue offset": first.queue_offset if first else None,
                "messages": len(exchange.messages) if more else None,
                "status": exchange.text("status") or None,
                "attempts": exchange.whole("attempts"),
                "reconsume times": first.tries if first and first.tries else None,
                "error": exchange.error,
            },
            flows=flows,
        )
        if exchange.is_send and exchange.broker and first and first.queue_offset is not None:
            self._trace.instant(
                self._run.nodes_of(exchange.broker)[0],
                "store",
                name,
                exchange.end_ns,
                category="append",
                arguments={
                    "queue": exchange.whole("queue"),
                    "queue offset": first.queue_offset,
                    "physical offset": first.physical_offset,
                },
                flows=flows,
            )

    def _flows(self, exchange: Exchange) -> Iterator[int]:
        """Return the arrows of an exchange: one for each message and group."""
        groups = self._run.groups_of(exchange.topic) if exchange.is_send else [exchange.group]
        for message in exchange.messages[:FLOWS_MAX]:
            if message.key is not None and self._selection.has_key(message.key):
                yield from (flow_of(message.key, group) for group in groups)

    def add_observations(self) -> None:
        """Add the nodes that had a message when it was acknowledged, and recoveries."""
        for seen in self._run.observations():
            if not self._selection.has_time(seen["time_ns"]):
                continue
            if seen["kind"] == "ack_durability" and self._selection.has_key(seen.get("key")):
                self._add_acknowledgement(
                    str(seen["key"]),
                    str(seen["broker_name"]),
                    seen["time_ns"],
                    list(map(str, seen["durable_on"])),
                    list(map(str, seen["cached_on"])),
                )
            elif seen["kind"] == "recovery":
                arguments = {name: _argument(value) for name, value in seen.items()}
                text = f"recovery: log ends at {seen.get('end_offset')}"
                self._trace.instant(
                    str(seen["node"]), "store", text, seen["time_ns"], arguments=arguments
                )

    def _add_acknowledgement(
        self, key: str, broker: str, time_ns: int, durable_on: list[str], cached_on: list[str]
    ) -> None:
        for node in durable_on:
            self._trace.instant(node, "flush", f"{key} on disk at its answer", time_ns)
        for node in dict.fromkeys((*durable_on, *cached_on)):
            if node != self._run.nodes_of(broker)[0]:
                self._trace.instant(node, "replication", f"{key} copied at its answer", time_ns)
        if not durable_on:
            leader = self._run.nodes_of(broker)[0]
            self._trace.instant(leader, "flush", f"{key} on no disk at its answer", time_ns)

    def add_logs(self) -> None:
        """Add lines of the servers' logs."""
        for line in self._run.node_lines():
            if self._selection.has_time(line.time_ns):
                arguments = {name: _argument(value) for name, value in line.fields.items()}
                self._trace.instant(line.node, "log", line.event, line.time_ns, arguments=arguments)

    def add_faults(self, end_ns: int) -> None:
        """Add faults as bands, all together and by node; a fault that never struck is an instant."""
        found = self._run.faults()
        for fault in found:
            fired_ns = fault.fired_ns
            if fault.struck_ns is not None or fired_ns is None:
                continue
            if self._selection.has_time(fired_ns):
                self._trace.instant(FAULTS, "fired", f"{fault.kind}: never struck", fired_ns)
        for process in dict.fromkeys((FAULTS, *(node for one in found for node in one.targets))):
            self._add_bands(process, found, end_ns)

    def _add_bands(self, process: str, found: Iterable[Fault], end_ns: int) -> None:
        open_until: list[tuple[int, int]] = []  # (end, row)
        wanted = [
            (fault.struck_ns, fault)
            for fault in found
            if fault.struck_ns is not None
            and (process == FAULTS or process in fault.targets)
            and self._selection.overlaps(fault.struck_ns, fault.healed_ns)
        ]
        for struck_ns, fault in sorted(wanted, key=lambda one: one[0]):
            for end, row in [one for one in open_until if one[0] <= struck_ns]:
                open_until.remove((end, row))
                self._trace.free_row(process, "faults", row)
            row = self._trace.take_row(process, "faults")
            healed_ns = max(end_ns, struck_ns) if fault.healed_ns is None else fault.healed_ns
            open_until.append((healed_ns, row))
            self._trace.slice(
                process,
                "faults",
                fault.kind if fault.bitten else f"{fault.kind} (no effect)",
                struck_ns,
                healed_ns,
                row=row,
                category="fault",
                arguments={
                    "targets": ", ".join(fault.targets),
                    "bitten": fault.bitten,
                    "evidence": fault.evidence,
                },
            )

    def add_findings(self) -> None:
        """Add findings of the verdict."""
        for finding in self._run.findings():
            if self._selection.has_time(finding.time_ns) and self._selection.has_key(finding.key):
                self._trace.instant(
                    VERDICT,
                    finding.judgement,
                    f"{finding.anomaly} {finding.key or ''}".rstrip(),
                    finding.time_ns,
                    category="finding",
                    arguments={"detail": finding.detail},
                )


def _argument(value: object) -> str | int | bool | None:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return value
    return orjson.dumps(value, default=str).decode()
