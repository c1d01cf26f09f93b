"""Converts the reported contents of delivered messages into columns, in one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from staticfire.checkers.model.columns import UNKNOWN, Ints
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.model.message_contents import (
    CONTENTS,
    TAG,
    UNKNOWN_CONTENTS,
    Contents,
    check_contents,
)


class ContentsBuilder:
    """Collects the contents of delivered messages; `take` makes columns of them."""

    def __init__(self, tags: Mapping[str, int]) -> None:
        """Start empty. Looking up a tag in `tags` numbers it."""
        self._tags = tags
        self._ops: list[tuple[int, int, Sequence[Contents]]] = []

    def add(self, op_index: int, first: int, contents: Sequence[Contents]) -> None:
        """Take the contents that an op reports; `first` is the number of its first message since the last `take`."""
        self._ops.append((op_index, first, contents))

    def take(self, messages: int) -> dict[str, Ints]:
        """Return columns of shape (messages,) since the last call; empty if no op had contents. Raises HistoryError.

        `messages` is the number of messages delivered since the last call, with contents or without.
        """
        ops, self._ops = self._ops, []
        if not ops:
            return {}
        sizes = np.fromiter((len(contents) for _, _, contents in ops), np.int64, len(ops))
        firsts = np.fromiter((first for _, first, _ in ops), np.int64, len(ops))
        rows = [row for _, _, contents in ops for row in contents]
        within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        at = np.repeat(firsts, sizes) + within
        try:
            columns = dict(zip(CONTENTS, self._columns(rows), strict=True))
        except (TypeError, ValueError, OverflowError):
            raise _culprit(ops) from None
        if len(rows) == messages:
            return columns
        whole = {name: np.full(messages, UNKNOWN, np.int64) for name in columns}
        for name, column in columns.items():
            whole[name][at] = column
        return whole

    def _columns(self, rows: Sequence[Contents]) -> Iterator[Ints]:
        """Yield the columns. Raises TypeError, ValueError or OverflowError for a wrong value."""
        for number, values in enumerate(zip(*rows, strict=True)):
            kinds = set(map(type, values))
            if not kinds <= ({str, type(None)} if number == TAG else {int, type(None)}):
                raise TypeError
            if number == TAG:
                known = [UNKNOWN if tag is None else self._tags[tag] for tag in values]
                yield np.array(known, np.int64)
                continue
            has_all = kinds == {int}
            numbers = values if has_all else [UNKNOWN if of is None else of for of in values]
            column = np.array(numbers, np.int64)
            if np.count_nonzero(column < 0) != (0 if has_all else values.count(None)):
                raise ValueError
            yield column


def _culprit(ops: Sequence[tuple[int, int, Sequence[Contents]]]) -> HistoryError:
    """Return the error of the first value that is not valid contents."""
    for op_index, _, contents in ops:
        for row in contents:
            if row is not UNKNOWN_CONTENTS:
                try:
                    check_contents(row)
                except ValueError as error:
                    return HistoryError(f"op {op_index}: {error}")
    raise AssertionError("the contents of all ops are what they have to be")
