"""Compares the consume queue files of a node with its commit log: no hole, no wrong entry, no missing entry.

It uses NumPy for many records at a time, since it runs after every seed of a hunt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from staticfire.checkers.model.columns import Ints, Mask

WITNESSES_MAX = 5
ENTRY = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tag", ">i8")])
# The compared fields at the beginning of a record (RocketMQ: CommitLog).
FRONT = np.dtype(
    [
        ("size", ">i4"),
        ("magic", ">u4"),
        ("crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("physical_offset", ">i8"),
        ("sys_flag", ">i4"),
    ]
)
MESSAGE_MAGICS = (0xDAA320A7, 0xDAA320AB)
FILLER_SIZE = 0x7FFFFFFF  # of blank entries before the first one (ConsumeQueue)
TRANSACTION_BITS, NOT_INDEXED = 0xC, (0x4, 0xC)  # prepared and rolled back messages are in no queue
_QUEUE_FILE = re.compile(r"/consumequeue/(?P<topic>[^/]+)/(?P<queue>\d+)/(?P<base>\d{20})$")


class QueueFile(NamedTuple):
    """One file of a queue, and the position of its entries."""

    topic: str
    queue: int
    first: int  # queue offset of its first entry


def inspect_queues(files: Mapping[str, bytes], log: bytes, start: int) -> dict[str, Any]:
    """Compare the queue files of a node with its log, which begins at physical offset `start`.

    Answers `entries`; `rolled_queues` (of more than one file); `holes` and `wrong` (how many), `hole_at` and `wrong_at`
    ([topic, queue, offset] of the first ones); and `missing`, how many records have no entry (None when old log files
    are gone).
    """
    holes: list[list[object]] = []
    wrong: list[list[Any]] = []
    entries = 0
    for file, content in _by_queue(files):
        found = np.frombuffer(content[: len(content) // ENTRY.itemsize * ENTRY.itemsize], ENTRY)
        is_there = (found["size"] != 0) & (found["size"] != FILLER_SIZE)
        numbers = np.flatnonzero(is_there)
        if not len(numbers):
            continue
        entries += len(numbers)
        within = np.arange(numbers[0], numbers[-1] + 1)
        holes += _positions_in(file, within[~is_there[within]])
        # Records before the log's first byte were deleted with its oldest files.
        kept = numbers[found["offset"][numbers] >= start]
        wrong += _positions_in(
            file, kept[~_agree(found[kept], kept + file.first, file, log, start)]
        )
    return {
        "entries": entries,
        "rolled_queues": sum(count > 1 for count in _files_of_queues(files).values()),
        "holes": len(holes),
        "hole_at": holes[:WITNESSES_MAX],
        "wrong": len(wrong),
        "wrong_at": wrong[:WITNESSES_MAX],
        "missing": None if start else _indexable(log) - entries,
    }


def _by_queue(files: Mapping[str, bytes]) -> Iterable[tuple[QueueFile, bytes]]:
    """Return the entries of each queue, joined from its files."""
    found: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    for path in sorted(files):
        if match := _QUEUE_FILE.search(path):
            name = (match["topic"], int(match["queue"]))
            found.setdefault(name, []).append((int(match["base"]), files[path]))
    for (topic, queue), parts in sorted(found.items()):
        first = parts[0][0] // ENTRY.itemsize
        yield QueueFile(topic, queue, first), b"".join(content for _, content in parts)


def _files_of_queues(files: Mapping[str, bytes]) -> Counter[tuple[str, str]]:
    found = filter(None, map(_QUEUE_FILE.search, files))
    return Counter((match["topic"], match["queue"]) for match in found)


def _positions_in(file: QueueFile, numbers: Ints) -> list[list[object]]:
    return [[file.topic, file.queue, file.first + number] for number in numbers.tolist()]


def _agree(
    entries: np.ndarray[Any, Any], offsets: Ints, file: QueueFile, log: bytes, start: int
) -> Mask:
    """Return which entries point to a record of the same message of the same queue."""
    at = entries["offset"].astype(np.int64) - start
    inside = at + FRONT.itemsize <= len(log)
    fronts = _fronts(log, np.where(inside, at, 0))
    agree: Mask = (
        inside
        & np.isin(fronts["magic"], MESSAGE_MAGICS)
        & (fronts["size"] == entries["size"])
        & (fronts["queue_id"] == file.queue)
        & (fronts["queue_offset"] == offsets)
        & (fronts["physical_offset"] == entries["offset"])
    )
    return agree


def _fronts(log: bytes, at: Ints) -> np.ndarray[Any, Any]:
    data = np.frombuffer(log.ljust(FRONT.itemsize, b"\0"), np.uint8)
    fronts: np.ndarray[Any, Any] = data[at[:, np.newaxis] + np.arange(FRONT.itemsize)].view(FRONT)
    return fronts[:, 0]


def _indexable(log: bytes) -> int:
    """Return the number of records of a log that belong into a queue."""
    fronts = _fronts(log, np.array(list(_positions(log)), np.int64))
    is_message = np.isin(fronts["magic"], MESSAGE_MAGICS)
    kind = fronts["sys_flag"] & TRANSACTION_BITS
    return int(np.count_nonzero(is_message & ~np.isin(kind, NOT_INDEXED)))


def _positions(log: bytes) -> Iterable[int]:
    """Return the positions of records and blanks, which fill the log."""
    position = 0
    while position + FRONT.itemsize <= len(log):
        size = int.from_bytes(log[position : position + 4], "big")
        yield position
        position += max(size, 8)
