"""Validates values of ops before they become columns. An error names the value that breaks the conventions.

Each check compares the set of types of a whole column. Only a bad column is searched for its first bad value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from staticfire.checkers.model.columns import Ints
from staticfire.checkers.model.history import INT64_MAX, HistoryError, Op

# key, queue offset, physical offset, body_ok, reconsume times; contents may follow
EVENT_WIDTH = 5


BAD_VALUE = (KeyError, TypeError, ValueError, AttributeError, IndexError)


def bad_op(op: Op, error: Exception) -> HistoryError:
    """Return the error of an op whose value breaks the conventions (one of BAD_VALUE)."""
    what = f"the value lacks {error}" if isinstance(error, KeyError) else str(error)
    return HistoryError(f"op {op.index} ({op.process} {op.type} {op.f}): {what}")


def ints(values: Sequence[object], what: str, at: Sequence[int] | Ints) -> Ints:
    """Return a column of integers, shape (values,); `at` holds the op index of each. Raises HistoryError."""
    check_types(values, {int}, what, at)
    try:
        return np.array(values, np.int64)
    except OverflowError as error:
        raise HistoryError(f"a {what} does not fit 64 bits: {error}") from error


def check_types(
    values: Sequence[object], wanted: set[type], what: str, at: Sequence[int] | Ints
) -> None:
    """Raise HistoryError for the first value of another type; `at` holds the op index of each."""
    if set(map(type, values)) <= wanted:
        return
    row = next(row for row, value in enumerate(values) if type(value) not in wanted)
    names = " or ".join(sorted(kind.__name__ for kind in wanted))
    raise HistoryError(f"op {at[row]}: {what} is {values[row]!r}; expected {names}")


def check_widths(events: Sequence[Sequence[object]], at: Ints) -> None:
    """Raise HistoryError for the first delivered message that does not have EVENT_WIDTH fields."""
    check_types(events, {list, tuple}, "message", at)
    if set(map(len, events)) <= {EVENT_WIDTH}:
        return
    row = next(row for row, event in enumerate(events) if len(event) != EVENT_WIDTH)
    raise HistoryError(
        f"op {at[row]}: message {events[row]!r} has {len(events[row])} fields; expected "
        "key, queue offset, physical offset, body_ok, reconsume times"
    )


def text(value: object) -> str:
    """Return the value if it is text. Raises HistoryError."""
    return value if type(value) is str else _refuse(value, "text")


def integer(value: object) -> int:
    """Return the value if it is an integer of 64 bits; a bool is not one. Raises HistoryError."""
    if type(value) is int and abs(value) <= INT64_MAX:
        return value
    return _refuse(value, "an integer of 64 bits")


def _refuse(value: object, wanted: str) -> NoReturn:
    raise HistoryError(f"{value!r} is not {wanted}")
