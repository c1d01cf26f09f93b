"""The lines between the harness and a client process: one JSON object each, ended by a newline.

Both sides use this, and `docs/client-protocol.md` says what the objects hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from staticfire.checkers.op_kinds.fields import (
    KIND_NAMES,
    OBJECT,
    WHOLE_MAX,
    Field,
    Fields,
    Kind,
)

LINE_BYTES_MAX = 16 << 20
# Levels of nesting that are always allowed. Deeper values are refused if a history cannot hold them.
DEPTH_MAX = 200
LEVELS_OF_HISTORY = 8  # levels of a history around a value
SHOWN_MAX = 120  # characters of a line in an error message


class LineError(ValueError):
    """A line that breaks the protocol; the text is one sentence without a full stop."""


class LineSplitter:
    """Splits a stream of bytes into lines without their newline."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes. Raises LineError for one that is too long."""
        head, newline, rest = data.partition(b"\n")
        if not newline:
            self._keep(data)
            return []
        self._keep(head)
        lines = [b"".join(self._pieces), *rest.split(b"\n")]
        self._pieces, self._size = [], 0
        self._keep(lines.pop())
        return lines

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > LINE_BYTES_MAX:
            raise LineError(f"a line is longer than {LINE_BYTES_MAX} bytes")
        self._pieces.append(piece)


def encode_line(fields: Mapping[str, object]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def decode_line(line: bytes) -> dict[str, Any]:
    """Return the object of a line. Raises LineError."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise LineError(f"{show(line)} is no JSON ({error.msg})") from None
    if not isinstance(fields, dict):
        raise LineError(f"{show(line)} is no JSON object")
    if line.count(b"[") + line.count(b"{") > DEPTH_MAX:
        _check_depth(line, fields)
    return fields


def _check_depth(line: bytes, fields: dict[str, object]) -> None:
    """Raises LineError for a value that could not be written again: the library reads deeper nesting than it writes."""
    deeper: object = fields
    for _ in range(LEVELS_OF_HISTORY):
        deeper = [deeper]
    try:
        orjson.dumps(deeper)
    except TypeError:  # which is no JSONDecodeError: "Recursion limit reached"
        raise LineError(f"{show(line)} is nested deeper than {DEPTH_MAX} levels") from None


def show(line: bytes) -> str:
    """Return the line for an error message: quoted, and cut if it is long."""
    text = line[:SHOWN_MAX].decode("utf-8", errors="replace")
    return repr(text if len(line) <= SHOWN_MAX else f"{text}...")


def check_fields(
    what: str,
    fields: Mapping[str, object],
    needed: Mapping[str, Kind],
    optional: Mapping[str, Kind] | None = None,
) -> None:
    """Raises LineError if a required field is missing or a field has the wrong type; other fields are allowed."""
    for name, kind in needed.items():
        if name not in fields:
            raise LineError(f"{what} lacks {name!r}")
        check_value(f"{name!r} of {what}", fields[name], kind)
    for name, kind in (optional or {}).items():
        if name in fields:
            check_value(f"{name!r} of {what}", fields[name], kind)


def check_value(what: str, value: Any, kind: Kind) -> None:
    """Raises LineError. Types are exact: true is not a number. Whole numbers must fit columns."""
    if type(value) not in kind:
        allowed = " or ".join(KIND_NAMES[one] for one in kind)
        raise LineError(f"{what} is {value!r:.{SHOWN_MAX}}; expected {allowed}")
    if type(value) is int and abs(value) > WHOLE_MAX:
        raise LineError(f"{what} is {value}; allowed are whole numbers from -2^63 + 1 to 2^63 - 1")


def check_declared(what: str, fields: Mapping[str, Any], declared: Fields) -> None:
    """Do what `check_fields` does, for declared fields. It does not check items of lists; see `check_items`."""
    for name, field in declared.items():
        if name in fields:
            check_kind(fields[name], field.kind, name, what)
        elif not field.is_optional:
            raise LineError(f"{what} lacks {name!r}")


def check_kind(value: object, kind: Kind, name: str, what: str) -> None:
    """Raises LineError. The error's text is made only when it is needed, since most values are right."""
    if type(value) not in kind or (type(value) is int and abs(value) > WHOLE_MAX):
        check_value(f"{name!r} of {what}", value, kind)


def check_items(what: str, items: Sequence[Any], field: Field) -> None:
    """Raises LineError unless each item of a list is as the field declares; `what` names an item.

    The optional contents at the end of a row are not checked.
    """
    for item in items:
        if field.objects is not None:
            check_value(what, item, OBJECT)
            check_declared(what, item, field.objects)
        elif field.row is not None:
            _check_row(what, item, field)
        elif field.item is not None:
            check_value(what, item, field.item.kind)


def _check_row(what: str, row: object, field: Field) -> None:
    columns = field.row or {}
    if type(row) is list and field.contents is not None and len(row) == len(columns) + 1:
        row = row[:-1]
    if type(row) is not list or len(row) != len(columns):
        raise LineError(f"{what} is {row!r:.80}; expected a list of {len(columns)}")
    for number, (item, column) in enumerate(zip(row, columns.values(), strict=True)):
        if type(item) not in column.kind or (type(item) is int and abs(item) > WHOLE_MAX):
            check_value(f"item {number} of {what}", item, column.kind)


def check_bounds(what: str, fields: Mapping[str, Any], declared: Fields) -> None:
    """Raises LineError for a number beyond its bounds. The types of the fields must be right."""
    for name, field in declared.items():
        if field.is_bounded and name in fields:
            check_range(f"{name!r} of {what}", fields[name], field)


def check_range(what: str, value: int, field: Field) -> None:
    """Raises LineError for a number beyond the bounds of its field."""
    low, high = field.least, field.most
    if (low is not None and value < low) or (high is not None and value > high):
        raise LineError(
            f"{what} is {value}; allowed are {low} {'and more' if high is None else f'to {high}'}"
        )
