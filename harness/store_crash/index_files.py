"""Checks the index files that follow from the keys of a log, byte by byte (RocketMQ: IndexFile)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from staticfire.harness.store_crash.raw_record import IndexKey

_HEADER = struct.Struct(">qqqqii")  # times, offsets, slots used, number of the next entry
_ENTRY = struct.Struct(">iqii")  # hash, physical offset, seconds since the first entry, previous
_SECONDS_MAX = (1 << 31) - 1


class IndexWrong(Exception):
    """An index file differs from the one that follows from the log; the text names the file and the position."""


class IndexShape(NamedTuple):
    """The size of all index files: number of slots, and number of entries plus one."""

    slots: int
    numbers: int


def check_index(
    files: Sequence[tuple[str, bytes]], keys: Sequence[IndexKey], kept_from: int, shape: IndexShape
) -> None:
    """Check the index files of a cleanly closed store, in the order of their names.

    `keys` are all keys that the log ever had. The files must end with the keys of messages at or behind `kept_from`;
    before them they may hold keys of deleted messages, since a file is deleted with its last message. Raises
    IndexWrong.
    """
    used = [(path, content) for path, content in files if _next_number(content) > 1]
    known = {key[:2]: key for key in keys}
    found = [_keys_in(path, content, known, shape) for path, content in used]
    kept = [key for key in keys if key.physical_offset >= kept_from]
    indexed = [key for part in found for key in part]
    if indexed[len(indexed) - len(kept) :] != kept or len(indexed) < len(kept):
        raise IndexWrong(
            f"the index has {len(indexed)} entries, and not the {len(kept)} of the log"
        )
    if any(key.physical_offset >= kept_from for key in indexed[: len(indexed) - len(kept)]):
        raise IndexWrong(f"the index has a message twice: {len(indexed)} entries, {len(kept)} keys")
    for number, (path, content) in enumerate(used):
        count = len(found[number])
        if number < len(used) - 1 and count != shape.numbers - 1:
            raise IndexWrong(
                f"{path} has {count} entries and is not the last; full are {shape.numbers - 1}"
            )
        _check_file(path, content, found[number], kept_from, shape)


def _keys_in(
    path: str, content: bytes, known: Mapping[tuple[int, int], IndexKey], shape: IndexShape
) -> list[IndexKey]:
    """Return the keys of the entries of one file. Raises IndexWrong."""
    entries_at, count = _HEADER.size + 4 * shape.slots, _next_number(content)
    found = []
    for number in range(1, count):
        entry = content[entries_at + number * _ENTRY.size :][: _ENTRY.size]
        hash_and_offset = _ENTRY.unpack(entry)[:2] if len(entry) == _ENTRY.size else (0, 0)
        if hash_and_offset not in known:
            raise IndexWrong(f"entry {number} of {count - 1} of {path} is of no message")
        found.append(known[hash_and_offset])
    return found


def _next_number(content: bytes) -> int:
    return int(_HEADER.unpack_from(content)[5]) if len(content) >= _HEADER.size else 0


def _check_file(
    path: str, content: bytes, keys: Sequence[IndexKey], kept_from: int, shape: IndexShape
) -> None:
    """Compare one file with the file that follows from these keys. Raises IndexWrong."""
    begin_ms, last_ms = keys[0].stored_ms, keys[-1].stored_ms
    found_begin_ms, found_end_ms = _HEADER.unpack_from(content)[:2]
    ends_ms = {
        last_ms,
        max(begin_ms, last_ms),
    }  # if the clock was set back, the later time is right, too
    if keys[-1].physical_offset < kept_from:
        ends_ms.add(begin_ms)  # the messages are deleted, so only the order of the times matters
    if found_begin_ms != begin_ms or found_end_ms not in ends_ms:
        raise IndexWrong(
            f"{path} is of {found_begin_ms} to {found_end_ms};"
            f" its messages are of {begin_ms} to {last_ms}"
        )
    expected = _file_of(keys, begin_ms, found_end_ms, shape)
    if content == expected:
        return
    if len(content) != len(expected):
        raise IndexWrong(f"{path} has {len(content)} bytes, not {len(expected)}")
    at = next(
        at for at, pair in enumerate(zip(content, expected, strict=True)) if pair[0] != pair[1]
    )
    raise IndexWrong(f"{path} differs at {_part_at(at, shape)} from the index that the log makes")


def _file_of(keys: Sequence[IndexKey], begin_ms: int, end_ms: int, shape: IndexShape) -> bytes:
    slots = [0] * shape.slots
    entries = [bytes(_ENTRY.size)]  # number 0 is not used
    for number, key in enumerate(keys, start=1):
        slot = key.key_hash % shape.slots
        seconds = min(max((key.stored_ms - begin_ms) // 1000, 0), _SECONDS_MAX)
        entries.append(_ENTRY.pack(key.key_hash, key.physical_offset, seconds, slots[slot]))
        slots[slot] = number
    used = sum(number > 0 for number in slots)
    first, last = keys[0].physical_offset, keys[-1].physical_offset
    header = _HEADER.pack(begin_ms, end_ms, first, last, used, len(keys) + 1)
    content = header + struct.pack(f">{shape.slots}i", *slots) + b"".join(entries)
    return content.ljust(_HEADER.size + 4 * shape.slots + _ENTRY.size * shape.numbers, b"\0")


def _part_at(at: int, shape: IndexShape) -> str:
    if at < _HEADER.size:
        return f"byte {at} of the header"
    entries_at = _HEADER.size + 4 * shape.slots
    if at < entries_at:
        return f"slot {(at - _HEADER.size) // 4}"
    return f"entry {(at - entries_at) // _ENTRY.size}"
