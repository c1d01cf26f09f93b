"""Reads the logs of the servers of a recorded run: `nodes/<name>/log.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from staticfire.checkers.model.history import INT64_MAX, HistoryError
from staticfire.checkers.model.plain_files import plain_size

LINE_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A line of a server's log. `time_ns` is by the clock of the run."""

    time_ns: int
    node: str
    level: str  # info, warning, error; "" if the line has none
    event: str
    fields: Mapping[str, Any]


def node_lines(folder: Path) -> Iterator[NodeLine]:
    """Yield the logs of all servers, one after the other. `folder`: of the run. Raises HistoryError, OSError."""
    nodes = folder / "nodes"
    if not nodes.is_dir() or nodes.is_symlink():
        return
    for node in sorted(nodes.iterdir()):
        for _, line in json_lines(node / "log.jsonl"):
            time_ns, event, fields = line.get("time_ns"), line.get("event"), line.get("fields")
            if type(time_ns) is int and 0 <= time_ns <= INT64_MAX and isinstance(event, str):
                yield NodeLine(
                    time_ns=time_ns,
                    node=node.name,
                    level=str(line.get("level", "")),
                    event=event,
                    fields=fields if isinstance(fields, dict) else {},
                )


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (number, object) of a file of JSON lines; nothing if it is missing. Half a line at the end is skipped.

    Raises HistoryError, OSError.
    """
    if not path.exists():
        return
    plain_size(path)
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, LINE_BYTES_MAX), b""), start=1):
            if not line.endswith(b"\n"):
                if len(line) < LINE_BYTES_MAX:
                    return
                raise HistoryError(f"{path} line {number}: longer than {LINE_BYTES_MAX} bytes")
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise HistoryError(f"{path} line {number}: not JSON ({error})") from error
            if not isinstance(record, dict):
                raise HistoryError(f"{path} line {number}: not a JSON object")
            yield number, record
