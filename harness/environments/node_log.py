"""The log of a real node: JSON lines of our own nodes, plain text of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from harness.log_line import LogLine

TEXT_MAX = 2000  # characters of a line that is not JSON
TAIL_BYTES = 16384
_HEAD = ("time_ms", "level", "node", "event")


def read_log(path: Path, start_wall_ms: int) -> list[LogLine]:
    """Every line, its time by the run's clock; `start_wall_ms` is the wall clock when that was 0.

    A line that is no JSON (another product's, or a traceback) is an event "text", at the time of the line before it.
    """
    lines: list[LogLine] = []
    if not path.exists():
        return lines
    for raw in path.read_bytes().splitlines():
        fields = _fields_of(raw)
        if fields is None:
            at_ns = lines[-1].time_ns if lines else 0
            text = raw.decode(errors="replace")[:TEXT_MAX]
            lines.append(LogLine(at_ns, "info", "text", {"text": text}))
        else:
            lines.append(_log_line(fields, start_wall_ms))
    return lines


def _log_line(fields: dict[str, Any], start_wall_ms: int) -> LogLine:
    at_ns = (int(fields["time_ms"]) - start_wall_ms) * 1_000_000
    rest = {name: value for name, value in fields.items() if name not in _HEAD}
    return LogLine(at_ns, str(fields["level"]), str(fields["event"]), rest)


def _fields_of(raw: bytes) -> dict[str, Any] | None:
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    whole = isinstance(fields, dict) and all(name in fields for name in _HEAD)
    return fields if whole and isinstance(fields["time_ms"], int) else None


def last_error(path: Path) -> str:
    """What the node said last about its own failure, or else its last line that is no JSON; empty if nothing."""
    tail = _tail(path)
    failures = (fields for raw in reversed(tail) if (fields := _fields_of(raw)) is not None)
    failed = next((fields for fields in failures if fields["event"] == "node failed"), None)
    if failed is not None:
        return str(failed.get("error", ""))
    text = (raw.decode(errors="replace") for raw in reversed(tail) if _fields_of(raw) is None)
    return next(filter(str.strip, text), "")[:TEXT_MAX]


def _tail(path: Path) -> list[bytes]:
    if not path.exists():
        return []
    with path.open("rb") as log:
        log.seek(max(path.stat().st_size - TAIL_BYTES, 0))
        return log.read().splitlines()
