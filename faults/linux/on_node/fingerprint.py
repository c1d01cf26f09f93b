"""Takes fingerprints of the files of a folder, block by block, and later reports how much data is lost.

    fingerprint.py take FOLDER FILE     writes the fingerprints to FILE
    fingerprint.py compare FOLDER FILE  prints the difference between FILE and the present content

Holes are not read, since a store allocates more than it writes. Data in the page cache is not a hole.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from typing import Any
from zlib import crc32

BLOCK = 4096
CHUNK = 256 * BLOCK
ZEROS = bytes(BLOCK)

Fingerprint = dict[str, Any]  # {"size": bytes, "blocks": {"number": crc of the block}}


def files(folder: str) -> Iterator[str]:
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            full = os.path.join(path, name)
            if os.path.isfile(full) and not os.path.islink(full):
                yield os.path.relpath(full, folder)


def data_ranges(opened: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges that are no holes; each begins at the border of a block."""
    at = 0
    while at < size:
        try:
            begin = os.lseek(opened, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # the rest of the file is a hole
                return
            raise
        begin -= begin % BLOCK
        at = min(size, os.lseek(opened, begin, os.SEEK_HOLE))
        yield begin, at


def blocks_of(path: str) -> Fingerprint:
    opened = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(opened).st_size
        blocks: dict[str, int] = {}
        for begin, end in data_ranges(opened, size):
            for at in range(begin, end, CHUNK):
                chunk = memoryview(os.pread(opened, min(CHUNK, end - at), at))
                for offset in range(0, len(chunk), BLOCK):
                    block = chunk[offset : offset + BLOCK]
                    if block != ZEROS[: len(block)]:
                        blocks[str((at + offset) // BLOCK)] = crc32(block)
        return {"size": size, "blocks": blocks}
    finally:
        os.close(opened)


def take(folder: str) -> dict[str, Fingerprint]:
    return {name: blocks_of(os.path.join(folder, name)) for name in files(folder)}


def lost_of(before: Fingerprint, now: Fingerprint) -> int:
    """Return the size of the blocks that had data in `before` and have other data now, in bytes."""
    lost = 0
    for number, checksum in before["blocks"].items():
        if now["blocks"].get(number) != checksum:
            lost += min(BLOCK, before["size"] - int(number) * BLOCK)
    return lost


def compare(folder: str, before: dict[str, Fingerprint]) -> dict[str, object]:
    now = take(folder)
    nothing: Fingerprint = {"size": 0, "blocks": {}}
    lost = {name: lost_of(then, now.get(name, nothing)) for name, then in before.items()}
    return {
        "lost_bytes": sum(lost.values()),
        "files_changed": sorted(name for name, count in lost.items() if count),
        "files_gone": sorted(set(before) - set(now)),
    }


def main(arguments: list[str]) -> None:
    command, folder, name = arguments
    if command == "take":
        with open(name, "w", encoding="utf-8") as file:
            json.dump(take(folder), file)
    else:
        with open(name, encoding="utf-8") as file:
            print(json.dumps(compare(folder, json.load(file))))


if __name__ == "__main__":
    main(sys.argv[1:])
