"""The op, and history files with one JSON object a line, with Jepsen's keys.

The harness writes a history while the run goes on, so a crash may cut its last line short. Such a file is read up to
its last whole line and marked (`History.torn`). Any other error in a file is a HistoryError that names the line,
because a verdict over a misread history would be worthless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from os import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, get_args

import orjson

from staticfire.checkers.model.gc_pause import collector_paused
from staticfire.checkers.op_kinds.catalogue import RECORDED
from staticfire.checkers.op_kinds.former_fields import with_current_fields

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    V = TypeVar("V", default=Any, covariant=True)
else:
    from typing import TypeVar

    V = TypeVar("V")

OpType = Literal["invoke", "ok", "fail", "info"]
NEMESIS = -1

INT64_MAX = 2**63 - 1  # columns hold 64-bit integers

OP_TYPES = frozenset(get_args(OpType))
CLUSTER_GONE = "cluster_gone"
OBSERVED_BYTES_MAX = 256 << 20  # of observations: about 1.1 million acknowledgements
# the nemesis begins to inject a fault; `start_` follows when the fault is in effect
FIRING = "fire_"
NEMESIS_PREFIXES = (FIRING, "start_", "stop_", "node_exit", CLUSTER_GONE)
# The fields of each kind of observation that checkers or explanations read; others are for people.
_OBSERVED: dict[str, dict[str, str]] = {
    "ack_durability": {
        "key": "text",
        "status": "text",
        "broker_name": "text",
        "end_offset": "an integer or null",
        "durable_on": "a list of text",
        "cached_on": "a list of text",
        "unobserved": "a list of text",
    },
    "replica": {
        "broker_name": "text",
        "master": "text",
        "slave": "text",
        "master_end": "an integer",
        "slave_end": "an integer",
        "first_difference": "an integer or null",
    },
    "recovery": {"node": "text"},
    "route": {"node": "text", "up": "a list of text"},
    "topic_route": {"node": "text", "broker_name": "text", "topic": "text"},
    "route_table": {
        "node": "text",
        "life": "an integer",
        "broker_name": "text",
        "addresses": "texts by name",
        "topics": "numbers by name",
    },
    "topic_table": {"node": "text", "topics": "numbers by name"},
    "topic_removal": {"node": "text", "topic": "text"},
    "administration": {
        "node": "text",
        "broker_name": "text",
        "topic": "text",
        "queue": "an integer or null",
        "step": "text",
    },
    "server_life": {"node": "text", "life": "an integer", "ended": "text or null"},
    "server_table": {
        "node": "text",
        "life": "an integer",
        "table": "text",
        "version": "text",
        "changes": "an integer",
        "ready": "true or false",
        "emptied": "true or false",
        "entries": "texts or numbers by name",
    },
    "restored_table": {
        "node": "text",
        "broker_name": "text",
        "table": "text",
        "follower": "text",
        "copy": "texts or numbers by name",
        "own": "texts or numbers by name",
    },
    "future_stamp": {"node": "text", "ahead_ms": "an integer"},
    "queue_entries": {
        "node": "text",
        "broker_name": "text",
        "entries": "an integer",
        "holes": "an integer",
        "wrong": "an integer",
        "missing": "an integer or null",
    },
}
_KEYS = frozenset({"index", "time_ns", "process", "type", "f", "value", "error", "node", "stamp"})

T = TypeVar("T")


class HistoryError(ValueError):
    """A history or a file of observations cannot be read. The text is one sentence that names the location."""


class Stamp(NamedTuple):
    """The time of an event according to the client, on the clock of the run: `at_ns`, plus or minus `within_ns`."""

    at_ns: int
    within_ns: int


_NO_VALUE: Callable[[], Any] = dict


@dataclass(frozen=True, slots=True, kw_only=True)
class Op(Generic[V]):
    """One event of a history: an invocation, or the completion that answers it.

    `fail` promises that the op did not happen. An op with an unknown outcome is `info`. The type parameter is the type
    of the value: the value of an `Op[CommitReport]` is what checkers/op_kinds/values.py declares.
    """

    index: int  # position in the history: 0, 1, 2, ... without gaps
    time_ns: int  # from the run's own clock, real or simulated
    process: int  # one logical client thread; NEMESIS is the fault injector
    type: OpType
    f: str  # "send", "consume", "drain", "start_partition"
    value: V = field(default_factory=_NO_VALUE)
    error: str | None = None  # the reason; only of "fail" and "info"
    node: str | None = None  # where the process runs
    stamp: Stamp | None = None  # when it happened; `time_ns` is when the harness recorded it


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The ops of a file, and whether its last line was cut short."""

    ops: list[Op]
    torn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Observations that the harness made inside nodes, and whether the file's last line was cut short."""

    records: list[dict[str, Any]]
    torn: bool
    unread: str = ""  # why nothing was read


def encode_op(op: Op) -> bytes:
    """Return the op as one JSON line, newline included; the same op always gives the same bytes."""
    fields: dict[str, object] = {
        "index": op.index,
        "time_ns": op.time_ns,
        "process": op.process,
        "type": op.type,
        "f": op.f,
        "value": op.value,
    }
    if op.error is not None:
        fields["error"] = op.error
    if op.node is not None:
        fields["node"] = op.node
    if op.stamp is not None:
        fields["stamp"] = list(op.stamp)
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def write_history(path: Path, ops: Iterable[Op]) -> None:
    """Write a whole history to `path`, replacing any file there."""
    path.write_bytes(b"".join(map(encode_op, ops)))


def read_history(path: Path) -> History:
    """Read a file of ops. Raises HistoryError; a file that cannot be opened raises OSError."""
    return decode_history(path.read_bytes(), name=path.name)


def decode_history(data: bytes, *, name: str = "history") -> History:
    """Read the bytes of a history. Raises HistoryError with `name` and the line number."""
    with collector_paused():
        ops, torn = _decode_lines(data, name, _decode_op)
    _check_indices(ops, name)
    _check_times(ops, name)
    return History(ops=ops, torn=torn)


def decode_ops(data: bytes, *, name: str) -> list[Op]:
    """Read whole lines with some ops of a history. Raises HistoryError with `name` and the line number."""
    ops, torn = _decode_lines(data, name, _decode_op)
    if torn:
        raise HistoryError(f"{name} ends in half a line")
    return ops


def decode_line(line: bytes, location: str) -> Op:
    """Read one line. Raises HistoryError with `location`."""
    try:
        return _decode_op(orjson.loads(line))
    except ValueError as error:
        raise HistoryError(f"{location}: {_sentence(error)}") from error


def read_observations(path: Path) -> Observations:
    """Read a file of observations. Raises HistoryError, OSError.

    All observations are held in memory, so a file of more than OBSERVED_BYTES_MAX is not read: `unread` says so.
    """
    size = path.stat().st_size
    if not path.is_file():
        raise HistoryError(f"{path} is no plain file; a history is made of plain files")
    if unread := unread_reason(path.name, size):
        return Observations(records=[], torn=False, unread=unread)
    records, torn = _decode_lines(path.read_bytes(), path.name, decode_observation)
    return Observations(records=records, torn=torn)


def unread_reason(name: str, size: int) -> str:
    """Return the reason why a file of observations of this size is not read; empty if it is read."""
    if size <= OBSERVED_BYTES_MAX:
        return ""
    return f"{name} has {size} bytes; at most {OBSERVED_BYTES_MAX} are taken into memory"


def torn_reason(path: Path) -> str:
    """Return a sentence if a file of observations ends in half a line; empty if it does not. Raises OSError."""
    with path.open("rb") as file:
        if file.seek(0, SEEK_END):
            file.seek(-1, SEEK_END)
        is_whole = file.read(1) in (b"", b"\n")
    return "" if is_whole else f"{path.name} ends in half a line: what came after it is not known"


def check_function(f: str, process: int) -> None:
    """Raise HistoryError unless `f` is known for this kind of process."""
    if process == NEMESIS:
        if not f.startswith(NEMESIS_PREFIXES):
            raise HistoryError(
                f"f is {f!r}; the nemesis has only fire_<fault>, start_<fault> and stop_<fault>"
            )
    elif f not in RECORDED:
        raise HistoryError(f"f is {f!r}; known are {', '.join(sorted(RECORDED))}")


def _decode_lines(data: bytes, name: str, decode: Callable[[object], T]) -> tuple[list[T], bool]:
    values = []
    *whole, tail = data.split(b"\n")
    for number, line in enumerate(whole, start=1):
        try:
            values.append(decode(orjson.loads(line)))
        except ValueError as error:
            raise HistoryError(f"{name} line {number}: {_sentence(error)}") from error
    # The writer ends each line with a newline, so bytes after the last one are half a line.
    return values, bool(tail)


def _sentence(error: ValueError) -> str:
    if isinstance(error, orjson.JSONDecodeError):
        return f"not JSON ({error.msg} at column {error.colno})"
    return str(error)


def _decode_op(fields: object) -> Op:
    if not isinstance(fields, dict):
        raise HistoryError(f"an op is a JSON object, not {type(fields).__name__}")
    if unknown := fields.keys() - _KEYS:
        raise HistoryError(f"unknown key {min(unknown)!r}; known are {', '.join(sorted(_KEYS))}")
    op = Op(
        index=_typed(fields, "index", int),
        time_ns=_integer(fields, "time_ns", 0),
        process=_integer(fields, "process", NEMESIS),
        type=_op_type(fields),
        f=(f := _typed(fields, "f", str)),
        value=with_current_fields(f, _typed(fields, "value", dict)) if "value" in fields else {},
        error=_typed(fields, "error", str) if fields.get("error") is not None else None,
        node=_typed(fields, "node", str) if fields.get("node") is not None else None,
        stamp=_stamp(fields["stamp"]) if "stamp" in fields else None,
    )
    check_function(op.f, op.process)
    return op


def _stamp(value: object) -> Stamp:
    if type(value) is list and len(value) == 2:
        at_ns, within_ns = value
        if _is_whole(at_ns) and _is_whole(within_ns):
            return Stamp(at_ns, within_ns)
    raise HistoryError(
        f"stamp is {value!r}; expected [at_ns, within_ns], both 0 to {INT64_MAX >> 1}"
    )


def _is_whole(value: object) -> bool:
    """Whether the value is an integer from 0 to half of INT64_MAX, so that a sum of two still fits."""
    return type(value) is int and 0 <= value <= INT64_MAX >> 1


def _op_type(fields: dict[str, object]) -> OpType:
    value = _typed(fields, "type", str)
    if value not in OP_TYPES:
        raise HistoryError(f"type is {value!r}; allowed are {', '.join(get_args(OpType))}")
    return value  # type: ignore[return-value]  # it is in OP_TYPES


def _typed(fields: dict[str, object], key: str, wanted: type[T]) -> T:
    if key not in fields:
        raise HistoryError(f"{key} is missing")
    value = fields[key]
    if type(value) is not wanted:  # not isinstance: true is no integer
        raise HistoryError(f"{key} is {value!r}; expected {wanted.__name__}")
    return value


def _integer(fields: dict[str, object], key: str, low: int) -> int:
    value = _typed(fields, key, int)
    if not low <= value <= INT64_MAX:
        raise HistoryError(f"{key} is {value}; allowed are {low} to {INT64_MAX}")
    return value


def decode_observation(fields: object) -> dict[str, object]:
    """Check the fields of one observation that the checkers read. Raises HistoryError."""
    if not isinstance(fields, dict):
        raise HistoryError(f"an observation is a JSON object, not {type(fields).__name__}")
    _integer(fields, "time_ns", 0)
    for key, wanted in _OBSERVED.get(_typed(fields, "kind", str), {}).items():
        if key not in fields:
            raise HistoryError(f"{fields['kind']} lacks {key}")
        if not _is(fields[key], wanted):
            raise HistoryError(f"{key} of {fields['kind']} is {fields[key]!r}; expected {wanted}")
    end = fields.get("end_offset", 0)
    if fields["kind"] == "recovery" and not _is(end, "an integer"):
        raise HistoryError(f"end_offset of recovery is {end!r}; expected an integer")
    return fields


def _is(value: object, wanted: str) -> bool:
    if wanted == "text":
        return type(value) is str
    if wanted == "a list of text":
        return type(value) is list and all(type(item) is str for item in value)
    if wanted == "text or null":
        return value is None or type(value) is str
    if wanted == "texts by name":
        return type(value) is dict and all(type(item) is str for item in value.values())
    if wanted == "texts or numbers by name":
        return type(value) is dict and all(
            type(item) is str or _is(item, "an integer") for item in value.values()
        )
    if wanted == "true or false":
        return type(value) is bool
    if wanted == "numbers by name":  # read queues, write queues, permission
        return type(value) is dict and all(
            type(item) is list and len(item) == 3 and all(_is(one, "an integer") for one in item)
            for item in value.values()
        )
    integer = type(value) is int and abs(value) <= INT64_MAX
    return integer or (wanted == "an integer or null" and value is None)


def _check_times(ops: Sequence[Op], name: str) -> None:
    """Raise HistoryError if a time is before the one above it, because verdicts depend on the order of events."""
    for number, (before, op) in enumerate(pairwise(ops), start=2):
        if op.time_ns < before.time_ns:
            raise HistoryError(
                f"{name} line {number}: time_ns {op.time_ns} is before {before.time_ns}, the time of "
                "the line above; a history is in the order of time"
            )


def _check_indices(ops: Sequence[Op], name: str) -> None:
    for number, op in _out_of_place(ops):
        what = "appears twice" if op.index < number - 1 else f"follows {number - 2}"
        raise HistoryError(
            f"{name} line {number}: index {op.index} {what}; indices are 0, 1, 2, ..."
        )


def _out_of_place(ops: Sequence[Op]) -> Iterator[tuple[int, Op]]:
    return ((number, op) for number, op in enumerate(ops, start=1) if op.index != number - 1)
