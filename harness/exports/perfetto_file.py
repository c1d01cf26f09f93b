"""Writes a trace file of Perfetto: tracks, slices, instants, flows and counters as TracePackets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, BinaryIO, NamedTuple

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

PACKETS_MAX = 4096  # held until they are written
SEQUENCE = 1
BEGIN, END = TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END
INSTANT, COUNTER = TrackEvent.TYPE_INSTANT, TrackEvent.TYPE_COUNTER
Arguments = Mapping[str, str | int | bool | None]  # None is left out
_NO_ARGUMENTS: Arguments = {}


class _Row(NamedTuple):
    """A row of slices. Rows of one name are drawn as one track by Perfetto."""

    process: str
    name: str
    number: int


class PerfettoFile:
    """Writes packets as they come, in any order: Perfetto sorts them by time. Times are nanoseconds of the run."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._trace = Trace()
        self._uuids: dict[object, int] = {}
        self._free: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._rows: defaultdict[tuple[str, str], int] = defaultdict(int)

    def take_row(self, process: str, name: str) -> int:
        """Return a row of a track without an open slice; `free_row` gives it back."""
        free = self._free[process, name]
        if free:
            return heappop(free)
        self._rows[process, name] += 1
        return self._rows[process, name] - 1

    def free_row(self, process: str, name: str, row: int) -> None:
        """Give a row back for further slices."""
        heappush(self._free[process, name], row)

    def slice(
        self,
        process: str,
        track: str,
        name: str,
        begin_ns: int,
        end_ns: int,
        *,
        row: int = 0,
        category: str = "",
        arguments: Arguments = _NO_ARGUMENTS,
        flows: Sequence[int] = (),
    ) -> None:
        """Write a slice on a row of a track. Slices of a row must not overlap."""
        uuid = self._track(_Row(process, track, row))
        self._event(BEGIN, uuid, begin_ns, name, category, arguments, flows)
        self._event(END, uuid, end_ns)

    def instant(
        self,
        process: str,
        track: str,
        name: str,
        time_ns: int,
        *,
        category: str = "",
        arguments: Arguments = _NO_ARGUMENTS,
        flows: Sequence[int] = (),
    ) -> None:
        """Write an instant on a track."""
        uuid = self._track(_Row(process, track, 0))
        self._event(INSTANT, uuid, time_ns, name, category, arguments, flows)

    def counter(self, process: str, name: str, unit: str, time_ns: int, value: float) -> None:
        """Write the value of a counter from this moment on."""
        key = ("counter", process, name)
        if key not in self._uuids:
            descriptor = self._describe(key, self._process(process), name)
            descriptor.counter.unit_name = unit
        event = self._packet(time_ns).track_event
        event.type, event.track_uuid = COUNTER, self._uuids[key]
        event.double_counter_value = value

    def close(self) -> None:
        """Write the rest. Raises OSError."""
        self._file.write(self._trace.SerializeToString())
        self._trace = Trace()

    def _event(
        self,
        kind: int,
        uuid: int,
        time_ns: int,
        name: str = "",
        category: str = "",
        arguments: Arguments = _NO_ARGUMENTS,
        flows: Sequence[int] = (),
    ) -> None:
        event = self._packet(time_ns).track_event
        event.type, event.track_uuid = kind, uuid
        if name:
            event.name = _utf8(name)
        if category:
            event.categories.append(category)
        if flows:
            event.flow_ids.extend(flows)
        for key, value in arguments.items():
            if value is None:
                continue
            argument = event.debug_annotations.add(name=_utf8(key))
            if isinstance(value, bool):
                argument.bool_value = value
            elif isinstance(value, int):
                argument.int_value = value
            else:
                argument.string_value = _utf8(value)

    def _packet(self, time_ns: int) -> Any:
        if len(self._trace.packet) >= PACKETS_MAX:
            self.close()
        packet = self._trace.packet.add()
        packet.timestamp, packet.trusted_packet_sequence_id = time_ns, SEQUENCE
        return packet

    def _process(self, name: str) -> int:
        """Return the uuid of a node's group of tracks."""
        key = ("process", name)
        if key not in self._uuids:
            descriptor = self._trace.packet.add().track_descriptor
            uuid = self._new_uuid(key)
            descriptor.uuid, descriptor.process.pid = uuid, uuid
            descriptor.process.process_name = _utf8(name)
        return self._uuids[key]

    def _track(self, row: _Row) -> int:
        if row not in self._uuids:
            self._describe(row, self._process(row.process), row.name)
        return self._uuids[row]

    def _describe(self, key: object, parent: int, name: str) -> Any:
        descriptor = self._trace.packet.add().track_descriptor
        descriptor.uuid, descriptor.parent_uuid = self._new_uuid(key), parent
        descriptor.name = _utf8(name)
        return descriptor

    def _new_uuid(self, key: object) -> int:
        return self._uuids.setdefault(key, len(self._uuids) + 1)


def _utf8(text: str) -> str:
    """Encode text; surrogates become question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()
