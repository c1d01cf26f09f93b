"""`events.jsonl`: the ops without a message, and the timeline made of these ops and the commits."""

from __future__ import annotations

import zlib
from pathlib import Path

from staticfire.checkers.formats.columnar.manifest import Manifest
from staticfire.checkers.formats.columnar.schema import EVENTS
from staticfire.checkers.model.building.timeline_builder import TimelineBuilder
from staticfire.checkers.model.columns import Commits, Names
from staticfire.checkers.model.history import HistoryError, Op, decode_ops
from staticfire.checkers.model.plain_files import read_plain
from staticfire.checkers.model.timeline import Commit, Timeline


def read_events(folder: Path, manifest: Manifest) -> list[Op]:
    """Return the events that the manifest lists, by index. Raises HistoryError."""
    path, expected = folder / EVENTS, manifest.events
    try:
        data = read_plain(path)
    except FileNotFoundError as error:
        if not expected.rows:
            return []
        raise HistoryError(f"{path} is missing; the manifest names it") from error
    # A writer that died after it wrote the manifest may have left bytes beyond the end.
    if len(data) < expected.bytes or (manifest.complete and len(data) != expected.bytes):
        raise HistoryError(f"{path} has {len(data)} bytes; the manifest says {expected.bytes}")
    data = data[: expected.bytes]
    if zlib.crc32(data) != expected.crc32:
        raise HistoryError(f"{path} is damaged: its checksum is not that of the manifest")
    events = sorted(decode_ops(data, name=str(path)), key=lambda op: op.index)
    if len(events) != expected.rows:
        raise HistoryError(f"{path} has {len(events)} events; the manifest says {expected.rows}")
    return events


def timeline_of(events: list[Op], commits: Commits, names: Names, manifest: Manifest) -> Timeline:
    """Build the timeline. Raises HistoryError for an event that breaks the conventions of values."""
    builder = TimelineBuilder()
    for op in events:
        builder.add(op)
    rows = zip(
        commits.op_index.tolist(),
        commits.time_ns.tolist(),
        commits.process.tolist(),
        commits.offset.tolist(),
        commits.group.tolist(),
        commits.log.tolist(),
        strict=True,
    )
    for *commit, group, queue in rows:
        pair = names.groups[group], names.logs[queue]
        builder.commits.setdefault(pair, []).append(Commit(*commit))
    builder.nodes.update(manifest.dictionaries.processes)
    return builder.timeline()
