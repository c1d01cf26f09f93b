"""Writes a file of OTLP JSON: lines of TracesData with spans grouped by service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import orjson

SPANS_MAX = 1000  # a line
INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = 1, 2, 3, 4, 5  # SpanKind
ERROR: Final = 2  # StatusCode
Value = str | int | bool | Sequence[str] | None  # None is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span. Ids are numbers of 16 and 8 bytes, times nanoseconds since 1970."""

    service: str
    trace_id: int
    span_id: int
    parent_id: int | None = None
    name: str
    kind: int
    begin_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the span in OTLP's JSON encoding: ids in hexadecimal, 64-bit integers as text."""
        parent = {} if self.parent_id is None else {"parentSpanId": f"{self.parent_id:016x}"}
        status = {} if self.error is None else {"status": {"code": ERROR, "message": self.error}}
        return {
            "traceId": f"{self.trace_id:032x}",
            "spanId": f"{self.span_id:016x}",
            **parent,
            "name": self.name,
            "kind": self.kind,
            "startTimeUnixNano": str(self.begin_ns),
            "endTimeUnixNano": str(self.end_ns),
            "attributes": _attributes(self.attributes),
            **status,
        }


class OtlpFile:
    """Writes spans as they come."""

    def __init__(self, file: BinaryIO, version: str, resource: Mapping[str, Value]) -> None:
        """`version` is Staticfire's; `resource` are the attributes of all services."""
        self._file = file
        self._scope = {"name": "staticfire", "version": version}
        self._resource = resource
        self._spans: defaultdict[str, list[dict[str, object]]] = defaultdict(list)
        self._count = 0

    def add(self, span: Span) -> None:
        """Raises OSError."""
        self._spans[span.service].append(span.to_json())
        self._count += 1
        if self._count >= SPANS_MAX:
            self._write()

    def close(self) -> None:
        """Write the rest. Raises OSError."""
        if self._count:
            self._write()

    def _write(self) -> None:
        resource_spans = [
            {
                "resource": {
                    "attributes": _attributes({"service.name": service, **self._resource})
                },
                "scopeSpans": [{"scope": self._scope, "spans": spans}],
            }
            for service, spans in self._spans.items()
        ]
        self._file.write(_line({"resourceSpans": resource_spans}))
        self._spans.clear()
        self._count = 0


def _line(document: Mapping[str, object]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def _attributes(values: Mapping[str, Value]) -> list[dict[str, object]]:
    return [
        {"key": key, "value": _value(value)} for key, value in values.items() if value is not None
    ]


def _value(value: str | int | bool | Sequence[str]) -> dict[str, object]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}
