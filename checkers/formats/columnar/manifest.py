"""`manifest.json`: the files that belong to a history, and the dictionaries of its ids.

    {"format": "staticfire-history", "version": 2, "run_id": "20261121-101500-queue-1",
     "complete": true,
     "ops": 7111,                           ops of the history, invocations and completions: the next index
     "dictionaries": {
       "topics": ["orders"], "groups": ["g"], "queues": [["orders", "broker-a", 0]],
       "processes": [[0, "producer-1"]],    where a process ran
       "other_keys": ["warm-up-broker-a-0"], "tags": [], "sharding_keys": []},
     "message_events": [{"path": "message_events/queue-0/part-0.parquet", "queue": 0, "rows": 1000, "bytes": 13000,
                         "crc32": 1, "first": 0, "last": 2310, "low": 0, "high": 999}],
     "op_parts": [{"path": "ops/part-0.parquet", "queue": -1, ...}],
     "events": {"rows": 53, "bytes": 70000, "crc32": 1},
     "source": {"rows": 14222, "bytes": 1642662, "crc32": 1} or null,  the JSON lines with the same ops
     "crc32": 1}

Version 1, which is still read, calls the message events `touches`.

`first` and `last` are the lowest and highest op_index in a part, `low` and `high` the lowest and highest queue offset
(-1 if no row has one). `crc32` is that of the rest, as this module writes it.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson

from staticfire.checkers.formats.columnar.files import write_durably
from staticfire.checkers.formats.columnar.schema import (
    FORMAT,
    FORMER_NAMES,
    MANIFEST,
    VERSION,
    VERSIONS_READ,
)
from staticfire.checkers.model.building.column_arrays import names_of
from staticfire.checkers.model.columns import LogKey, Names
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.model.plain_files import read_plain

Line = bytes  # in classes with a field of that name


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One Parquet file."""

    path: str  # from the folder of the manifest
    queue: int
    rows: int
    bytes: int
    crc32: int
    first: int  # op_index
    last: int
    low: int  # queue offset
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A file of JSON lines: rows, bytes and CRC-32 of the lines written so far."""

    rows: int = 0
    bytes: int = 0
    crc32: int = 0

    def plus(self, line: Line) -> Lines:
        """Return the file with one more line."""
        return Lines(
            rows=self.rows + 1,
            bytes=self.bytes + len(line),
            crc32=zlib.crc32(line, self.crc32),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dictionaries:
    """The names of the ids."""

    topics: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    queues: list[LogKey] = field(default_factory=list)
    processes: Mapping[int, str] = field(default_factory=dict)
    other_keys: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    sharding_keys: list[str] = field(default_factory=list)

    def names(self) -> Names:
        return names_of(
            other_keys=self.other_keys,
            topics=self.topics,
            queues=self.queues,
            groups=self.groups,
            tags=self.tags,
            sharding_keys=self.sharding_keys,
        )

    def to_json(self) -> dict[str, object]:
        return {
            "topics": self.topics,
            "groups": self.groups,
            "queues": list(map(list, self.queues)),
            "processes": sorted(map(list, self.processes.items())),
            "other_keys": self.other_keys,
            "tags": self.tags,
            "sharding_keys": self.sharding_keys,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The parts, dictionaries and counts of a history, without its rows."""

    run_id: str
    complete: bool
    ops: int
    dictionaries: Dictionaries
    message_events: Sequence[Part]
    op_parts: Sequence[Part]
    events: Lines = Lines()
    source: Lines | None = None

    @property
    def rows(self) -> int:
        """The number of rows of message events."""
        return sum(part.rows for part in self.message_events)

    def parts_of(self, queue: int) -> list[Part]:
        """Return the parts of one queue, in order."""
        return [part for part in self.message_events if part.queue == queue]

    def to_json(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "run_id": self.run_id,
            "complete": self.complete,
            "ops": self.ops,
            "dictionaries": self.dictionaries.to_json(),
            "message_events": [asdict(part) for part in self.message_events],
            "op_parts": [asdict(part) for part in self.op_parts],
            "events": asdict(self.events),
            "source": None if self.source is None else asdict(self.source),
        }

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read the output of to_json. Raises HistoryError with the reason, KeyError, TypeError or ValueError."""
        if document["format"] != FORMAT:
            raise HistoryError(f"format is {document['format']!r}; expected {FORMAT}")
        if (version := document["version"]) not in VERSIONS_READ:
            known = " and ".join(map(str, VERSIONS_READ))
            raise HistoryError(f"version is {version!r}; this reader knows {known}")
        source = document["source"]
        message_events = document[
            FORMER_NAMES["message_events"] if version == 1 else "message_events"
        ]
        parts = [_part(fields) for fields in (*message_events, *document["op_parts"])]
        paths = [part.path for part in parts]
        if len(set(paths)) < len(paths):
            twice = next(path for path, times in Counter(paths).items() if times > 1)
            raise HistoryError(f"part {twice!r} is named twice")
        return cls(
            run_id=_typed(document, "run_id", str),
            complete=_typed(document, "complete", bool),
            ops=_typed(document, "ops", int),
            dictionaries=_dictionaries(document["dictionaries"]),
            message_events=parts[: len(message_events)],
            op_parts=parts[len(message_events) :],
            events=_lines(document["events"]),
            source=None if source is None else _lines(source),
        )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest into `folder`. Raises OSError."""
    document = manifest.to_json()
    document["crc32"] = _crc32(document)
    write_durably(folder / MANIFEST, orjson.dumps(document))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the history in `folder`. Raises HistoryError, and OSError for an unreadable file."""
    path = folder / MANIFEST
    try:
        return _checked(orjson.loads(read_plain(path)))
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise
        raise HistoryError(
            f"{folder} holds no {MANIFEST}: it is no history, or not a whole one"
        ) from error
    except orjson.JSONDecodeError as error:
        raise HistoryError(f"{path} is not JSON ({error.msg})") from error
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise HistoryError(f"{path} is no manifest of a history: {what}") from error


def _checked(document: Any) -> Manifest:
    claimed = document.pop("crc32")
    manifest = Manifest.from_json(
        document
    )  # before the checksum, whose definition depends on format and version
    if claimed != _crc32(document):
        raise HistoryError("its checksum does not fit: it was damaged or edited")
    return manifest


def _crc32(document: Mapping[str, object]) -> int:
    return zlib.crc32(orjson.dumps(document))


def _dictionaries(fields: Any) -> Dictionaries:
    queues = [
        LogKey(_is(topic, str), _is(broker, str), _is(number, int))
        for topic, broker, number in fields["queues"]
    ]
    topics = _texts(fields, "topics")
    if unknown := {queue.topic for queue in queues} - set(topics):
        raise HistoryError(f"a queue is of topic {min(unknown)!r}, which is not among the topics")
    return Dictionaries(
        topics=topics,
        groups=_texts(fields, "groups"),
        queues=queues,
        processes={_is(process, int): _is(node, str) for process, node in fields["processes"]},
        other_keys=_texts(fields, "other_keys"),
        tags=_texts(fields, "tags"),
        sharding_keys=_texts(fields, "sharding_keys"),
    )


def _texts(fields: Mapping[str, Any], name: str) -> list[str]:
    values = fields[name]
    if type(values) is not list or set(map(type, values)) > {str}:
        raise HistoryError(f"{name} is no list of text")
    if len(set(values)) < len(values):
        raise HistoryError(f"{name} holds a name twice")
    return values


def _part(fields: Any) -> Part:
    part = Part(**{name: _typed(fields, name, kind) for name, kind in _PART_TYPES.items()})
    if ".." in part.path or part.path.startswith("/"):
        raise HistoryError(f"part {part.path!r} lies outside of the history")
    return part


_PART_TYPES: dict[str, type] = {
    name: str if name == "path" else int for name in Part.__dataclass_fields__
}


def _lines(fields: Any) -> Lines:
    return Lines(**{name: _typed(fields, name, int) for name in ("rows", "bytes", "crc32")})


def _typed(fields: Any, name: str, wanted: type) -> Any:
    value = fields[name]
    if type(value) is not wanted:
        raise HistoryError(f"{name} is {value!r}; expected {wanted.__name__}")
    return value


def _is(value: Any, wanted: type) -> Any:
    if type(value) is not wanted:
        raise HistoryError(f"a dictionary holds {value!r}; expected {wanted.__name__}")
    return value
