"""The neighbourhood of a message in its log: acknowledged messages, and the records on each node at the end.

The acknowledged messages come from the history. The records come from the files of brokers, which an invalid run keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.columns import UNKNOWN, Names, Outcome
from staticfire.harness.html_report.history_rows import QueueEvents, key_of
from staticfire.harness.html_report.svg import at_s
from staticfire.harness.recording.stored_logs import LogRange, StoredLogs, StoredRecord

NEIGHBOURS = 5  # acknowledged messages on each side
BEFORE, BEHIND = 8192, 8192  # bytes of a log that are decoded around the log position
NODES_MAX = 6
EVENTS_MAX = 12
HEX_LINES, HEX_WIDTH = 9, 16
STORE = "store"


@dataclass(slots=True, kw_only=True)
class Acknowledged:
    """The acknowledged messages nearest to a position in a broker's log."""

    broker: str
    position: int  # physical offset
    found: list[tuple[int, int, int]] = field(default_factory=list)  # offset, message, time

    def take(self, events: QueueEvents, names: Names) -> None:
        """Keep the acknowledged messages of one queue that are nearer to the position than those kept so far."""
        if events.queue == UNKNOWN or names.logs[events.queue].stream != self.broker:
            return
        sends = events.sends
        stored = sends["outcome"] == Outcome.OK
        stored |= sends["outcome"] == Outcome.WEAK
        stored &= sends["physical_offset"] >= 0
        rows = np.flatnonzero(stored)
        before = rows[sends["physical_offset"][rows] < self.position]
        behind = rows[sends["physical_offset"][rows] >= self.position]
        for side, offsets in ((before, -1), (behind, 1)):
            order = np.argsort(offsets * sends["physical_offset"][side], kind="stable")
            for row in side[order[: 2 * NEIGHBOURS]].tolist():
                values = (sends[name][row] for name in ("physical_offset", "message", "time_ns"))
                self.found.append(tuple(map(int, values)))  # type: ignore[arg-type]
        self.found = self._nearest()

    def _nearest(self) -> list[tuple[int, int, int]]:
        """Return the messages at the NEIGHBOURS offsets before the position, and at as many from it on."""
        offsets = sorted({offset for offset, _, _ in self.found})
        before = [offset for offset in offsets if offset < self.position][-NEIGHBOURS:]
        behind = [offset for offset in offsets if offset >= self.position][: NEIGHBOURS + 1]
        kept = {*before, *behind}
        return sorted(one for one in self.found if one[0] in kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """A position in the log, or, with `event`, an event of the log there."""

    offset: int
    event: str = ""
    acknowledged: str = ""
    held: Sequence[tuple[str, str]] = ()  # for each node: a word for its colour, and a text
    is_place: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBytes:
    """The table of the neighbourhood, and the bytes of each node around the position as lines of a hex dump."""

    position: int
    nodes: Sequence[str]
    rows: Sequence[LogRow]
    dumps: Sequence[tuple[str, Sequence[str]]]


def log_bytes(
    run: Path,
    finding: Finding,
    acknowledged: Acknowledged | None,
    names: Names,
    nodes: Sequence[str],
    observations: Sequence[Mapping[str, object]],
    faults: Sequence[Mapping[str, object]],
    logs: StoredLogs | None,
) -> LogBytes | None:
    """Return the neighbourhood; None for a finding without a log position, or one without data. Raises OSError.

    `logs` reads the logs of the run's system; None: they cannot be read.
    """
    if acknowledged is None or finding.physical_offset is None:
        return None
    position = finding.physical_offset
    log_ranges = {} if logs is None else dict(_log_ranges(run, nodes, position, logs))
    if not acknowledged.found and not log_ranges:
        return None
    starts = {position, *(offset for offset, _, _ in acknowledged.found)}
    held = (
        {} if logs is None else {node: logs.records(of, starts) for node, of in log_ranges.items()}
    )
    begin, end = min(starts), max(starts)
    offsets = sorted(
        starts | {at for records in held.values() for at in records if begin <= at <= end}
    )
    events = list(_events(begin, end, nodes, observations, faults, logs))[:EVENTS_MAX]
    rows = [_row(at, acknowledged, names, held, position) for at in offsets]
    rows += [LogRow(offset=at, event=text) for at, text in events]
    return LogBytes(
        position=position,
        nodes=list(log_ranges),
        rows=sorted(rows, key=lambda row: (row.offset, not row.event)),
        dumps=[(node, list(_dump(of, position))) for node, of in log_ranges.items()],
    )


def place_of(finding: Finding) -> Acknowledged | None:
    """Return the collector of a finding's neighbours; None if the finding has no log position."""
    if finding.broker is None or finding.physical_offset is None or finding.physical_offset < 0:
        return None
    return Acknowledged(broker=finding.broker, position=finding.physical_offset)


def _log_ranges(
    run: Path, nodes: Sequence[str], position: int, logs: StoredLogs
) -> Iterator[tuple[str, LogRange]]:
    for node in nodes[:NODES_MAX]:
        store = run / "nodes" / node / STORE
        if "/" in node or node in ("", ".", "..") or not store.is_dir():
            continue
        if any(folder.is_symlink() for folder in (store, store.parent, store.parent.parent)):
            continue
        begin = max(position - BEFORE, 0)
        if (found := logs.read(store, begin, position + BEHIND)) is not None:
            yield node, found


def _row(
    at: int,
    acknowledged: Acknowledged,
    names: Names,
    held: Mapping[str, Mapping[int, StoredRecord]],
    position: int,
) -> LogRow:
    keys = [
        (time, key_of(names, message))
        for offset, message, time in acknowledged.found
        if offset == at
    ]
    keys.sort(key=lambda one: one[0])
    return LogRow(
        offset=at,
        acknowledged="; ".join(f"{key or 'no key'} at {at_s(time)}" for time, key in keys),
        held=[_held(records.get(at), [key for _, key in keys]) for records in held.values()],
        is_place=at == position,
    )


def _held(record: StoredRecord | None, keys: Sequence[str | None]) -> tuple[str, str]:
    """Describe a record. `keys` were acknowledged at its position, the first one first."""
    if record is None:
        return "", "no record begins here"
    if not record.size:
        return ("gone" if keys else ""), record.text
    if keys and record.key != keys[0]:
        return "other", record.text
    return ("kept" if keys else ""), record.text


def _events(
    begin: int,
    end: int,
    nodes: Sequence[str],
    observations: Sequence[Mapping[str, Any]],
    faults: Sequence[Mapping[str, Any]],
    logs: StoredLogs | None,
) -> Iterator[tuple[int, str]]:
    """Yield (offset, text): where recoveries ended the log, and where a power cut began to remove bytes."""
    for seen in observations:
        at, cut = seen.get("end_offset"), seen.get("cut_bytes")
        if (
            seen.get("kind") != "recovery"
            or seen.get("node") not in nodes
            or not isinstance(at, int)
        ):
            continue
        if begin <= at <= end and seen.get("clean") is False:
            words = f"{seen['node']} recovers at {at_s(seen['time_ns'])}: its log ends at {at}"
            yield at, f"{words}, {cut} bytes cut" if cut else words
    for fault in faults:
        for incident in fault.get("incidents") or ():
            for dropped in incident["dropped"]:
                file_begin = None if logs is None else logs.begin_of(str(dropped["path"]))
                if file_begin is None:
                    continue
                first, last = file_begin + dropped["start"], file_begin + dropped["end"]
                if incident["node"] in nodes and begin <= first <= end:
                    when = at_s(incident["at_ns"])
                    yield (
                        first,
                        f"{incident['node']} loses its power at {when}: bytes {first} to {last} are gone",
                    )


def _dump(log_range: LogRange, position: int) -> Iterator[str]:
    """Return lines of 16 bytes. The line that begins at the position is marked."""
    before = HEX_LINES // 2 * HEX_WIDTH
    for at in range(position - before, position + before + 1, HEX_WIDTH):
        data = log_range.slice(at, at + HEX_WIDTH) if at >= log_range.begin else b""
        if not data:
            continue
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
        mark = ">" if at == position else " "
        yield f"{mark} {at:>10}  {data.hex(' '):<47}  {letters}"
