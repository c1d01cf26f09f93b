"""A compact set of the message ids sent so far, because each key may be sent once only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from staticfire.checkers.model.columns import Ints

_BITS = 16
_BLOCK = 1 << _BITS
_SPARSE_MAX = 4096  # beyond it a bitmap is smaller


class SentKeys:
    """A set of message ids: blocks of 65,536 ids, each a sorted array or a bitmap (8 KiB)."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: dict[int, NDArray[np.uint16] | NDArray[np.uint8]] = {}

    def add(self, messages: Ints) -> int | None:
        """Add the message ids of some sends; return one that was sent twice, None if there is none."""
        ids = np.sort(messages)
        if len(twice := ids[1:][ids[1:] == ids[:-1]]):
            return int(twice[0])
        block = ids >> _BITS
        cuts = np.flatnonzero(np.diff(block)) + 1
        for part in np.split(ids, cuts) if len(ids) else ():
            number = int(part[0] >> _BITS)
            low = (part & (_BLOCK - 1)).astype(np.uint16)
            seen = self._blocks.get(number)
            flags = None if seen is None else _flags(seen)
            if flags is not None:
                if np.any(again := flags[low]):
                    return (number << _BITS) | int(low[again][0])
                flags[low] = True
            self._blocks[number] = low if flags is None else _packed(flags)
        return None


def _flags(seen: NDArray[np.uint16] | NDArray[np.uint8]) -> NDArray[np.bool_]:
    if seen.dtype == np.uint8:
        return np.unpackbits(seen.view(np.uint8)).view(np.bool_)
    flags = np.zeros(_BLOCK, np.bool_)
    flags[seen] = True
    return flags


def _packed(flags: NDArray[np.bool_]) -> NDArray[np.uint16] | NDArray[np.uint8]:
    if np.count_nonzero(flags) > _SPARSE_MAX:
        return np.packbits(flags)
    return np.flatnonzero(flags).astype(np.uint16)
