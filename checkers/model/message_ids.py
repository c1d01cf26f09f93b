"""Message ids: 64-bit integers that are the same in every partition and in every run.

The key `p<process>-<n>`, which the generators write, has the id `process << 40 | n` and needs no dictionary. Any other
key has the id `1 << 62 | number`, with its number in the dictionary of its history (`Names.other_keys`). So ids are
neither dense nor usable as array indices; `dense_numbers` maps them to numbers that are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
UNKNOWN: Final = -1
PROCESS_SHIFT: Final = 40
NUMBER_MASK: Final = (1 << PROCESS_SHIFT) - 1
NUMBER_DIGITS: Final = len(str(NUMBER_MASK))
OTHER: Final = 1 << 62  # this bit marks a number in the dictionary
PROCESS_MAX: Final = (1 << (62 - PROCESS_SHIFT)) - 1


class MessageIds(dict[str, int]):
    """Maps keys to ids; look up with []. It caches the keys that it looked up until `forget`.

    `others` is the initial content of the dictionary of other keys.
    """

    __slots__ = ("_bases", "_numbers", "others")

    def __init__(self, others: Sequence[str] = ()) -> None:
        super().__init__()
        self.others = list(others)  # the dictionary
        self._numbers = {key: number for number, key in enumerate(others)}
        self._bases: dict[str, int | None] = {}

    def __missing__(self, key: str) -> int:
        """Return the id of a key that is not cached. Raises TypeError or AttributeError for a value other than text."""
        prefix, _, digits = key.rpartition("-")
        base = self._bases.get(prefix, UNKNOWN)
        if base == UNKNOWN:
            base = self._bases[prefix] = _base_of(prefix)
        message = None
        if base is not None and len(digits) <= NUMBER_DIGITS and _is_plain(digits):
            number = int(digits)
            if number <= NUMBER_MASK:
                message = base | number
        if message is None:
            message = self._other(key)
        self[key] = message
        return message

    def _other(self, key: str) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.others)
            self.others.append(key)
        return OTHER | number

    def forget(self) -> None:
        """Empty the cache. The dictionary of other keys remains, so ids do not change."""
        self.clear()
        self._bases.clear()


def _is_plain(digits: str) -> bool:
    """Whether `str` of the number returns these digits; if it does not, the key does not follow from its id."""
    return digits.isdecimal() and digits.isascii() and (digits[0] != "0" or digits == "0")


def _base_of(prefix: str) -> int | None:
    digits = prefix[1:]
    if prefix[:1] != "p" or not digits.isdecimal() or len(digits) > 7 or str(int(digits)) != digits:
        return None
    process = int(digits)
    return process << PROCESS_SHIFT if process <= PROCESS_MAX else None


def key_of(message: int, others: list[str]) -> str:
    """Return the key of an id that is not UNKNOWN. Raises IndexError for a number beyond the dictionary."""
    if message & OTHER:
        return others[message ^ OTHER]
    return f"p{message >> PROCESS_SHIFT}-{message & NUMBER_MASK}"


def dense_numbers(*columns: Ints) -> tuple[int, list[Ints]]:
    """Number the messages of several columns from 0 on.

    Return an upper bound of the numbers, and each column with ids replaced by numbers, same shapes. Equal ids get equal
    numbers. UNKNOWN stays UNKNOWN. Some numbers may be unused.
    """
    together = np.concatenate(columns) if columns else np.zeros(0, np.int64)
    known = together != UNKNOWN
    size, numbers = _number(together[known])
    dense = np.full(len(together), UNKNOWN, np.int64)
    dense[known] = numbers
    cuts = np.cumsum([len(column) for column in columns])[:-1]
    return size, np.split(dense, cuts)


def _number(ids: Ints) -> tuple[int, Ints]:
    """Number ids: by a table if they are dense, which is usual, otherwise by sorting."""
    if not len(ids):
        return 0, ids
    others = ids >= OTHER
    process = np.where(others, -1, ids >> PROCESS_SHIFT)
    process -= int(process.min())
    rows = int(process.max()) + 1
    if rows <= 4 * len(ids) + 1024:
        number = np.where(others, ids ^ OTHER, ids & NUMBER_MASK)
        width = np.zeros(rows, np.int64)
        np.maximum.at(width, process, number + 1)
        ends = np.cumsum(width)
        if int(width.max()) <= 8 * len(ids) + 1024 and int(ends[-1]) <= 8 * len(ids) + 1024:
            return int(ends[-1]), (ends - width)[process] + number
    distinct, numbers = np.unique(ids, return_inverse=True)
    return len(distinct), numbers.astype(np.int64, copy=False)
