"""The log of a real node: JSON lines of our own nodes, Java's lines of RocketMQ, plain text of others."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from staticfire.harness.log_line import LogLine

TEXT_MAX = 2000  # characters of a line that is not JSON
TAIL_BYTES = 16384
_HEAD = ("time_ms", "level", "node", "event")
# The form that `staticfire.harness.targets.apache_files.LOGBACK` sets: time, level, thread, logger, message.
_JAVA = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?:Z|[+-]\d\d:\d\d)) (TRACE|DEBUG|INFO|WARN|ERROR) \[(.*?)\] (\S+) - (.*)"
)
_JAVA_ENDS = "Shutdown hook was invoked"  # errors that RocketMQ logs after this line are not the reason for its end
_THROWN = re.compile(r"(Exception in thread .*|Caused by: .*|[\w.$]+(Exception|Error)\b.*)")


def read_log(path: Path, start_wall_ms: int) -> list[LogLine]:
    """Return every line with its time by the run's clock; `start_wall_ms` is the wall clock when that was 0.

    A line that is not JSON becomes an event "text". A line of Java has its own time and level. Any other line, such as
    one of a traceback, gets the time of the line before it and, in a log of Java, its level.
    """
    lines: list[LogLine] = []
    if not path.exists():
        return lines
    for raw in path.read_bytes().splitlines():
        fields = _fields_of(raw)
        if fields is None:
            lines.append(_text_line(raw.decode(errors="replace")[:TEXT_MAX], lines, start_wall_ms))
        else:
            lines.append(_log_line(fields, start_wall_ms))
    return lines


def _text_line(text: str, before: list[LogLine], start_wall_ms: int) -> LogLine:
    found = _JAVA.fullmatch(text)
    if found is None:
        last = before[-1] if before else LogLine(0, "info", "text", {})
        is_of_java = last.event == "text"
        return LogLine(last.time_ns, last.level if is_of_java else "info", "text", {"text": text})
    at, level, thread, logger, message = found.groups()
    at_ns = (round(datetime.fromisoformat(at).timestamp() * 1000) - start_wall_ms) * 1_000_000
    return LogLine(
        at_ns, level.lower(), "text", {"text": message, "thread": thread, "logger": logger}
    )


def _log_line(fields: dict[str, Any], start_wall_ms: int) -> LogLine:
    at_ns = (int(fields["time_ms"]) - start_wall_ms) * 1_000_000
    rest = {name: value for name, value in fields.items() if name not in _HEAD}
    return LogLine(at_ns, str(fields["level"]), str(fields["event"]), rest)


def _fields_of(raw: bytes) -> dict[str, object] | None:
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    whole = isinstance(fields, dict) and all(name in fields for name in _HEAD)
    return fields if whole and isinstance(fields["time_ms"], int) else None


def last_error(path: Path) -> str:
    """Return the node's last log line about its own failure, or else its last line with a reason; empty if none.

    In a log of Java that is the last exception before the node began to shut down. Indented lines are skipped as parts
    of a stack, and so is the version that Node.js prints last.
    """
    tail = _tail(path)
    failures = (fields for raw in reversed(tail) if (fields := _fields_of(raw)) is not None)
    failed = next((fields for fields in failures if fields["event"] == "node failed"), None)
    if failed is not None:
        return str(failed.get("error", ""))
    texts = [raw.decode(errors="replace") for raw in tail if _fields_of(raw) is None]
    ends = [number for number, text in enumerate(texts) if _JAVA_ENDS in text]
    thrown = filter(_THROWN.fullmatch, reversed(texts[: ends[-1]] if ends else texts))
    said = [text for text in reversed(texts) if text.strip()]
    plain = (text for text in said if not text[0].isspace() and not text.startswith("Node.js v"))
    return next(thrown, next(plain, said[0] if said else ""))[:TEXT_MAX]


def _tail(path: Path) -> list[bytes]:
    if not path.exists():
        return []
    with path.open("rb") as log:
        log.seek(max(path.stat().st_size - TAIL_BYTES, 0))
        return log.read().splitlines()
