"""Writes and fsyncs as a node would, and prints the errors: the proof that a disk fault bites.

    probe.py FILE BYTES [TIMES]

Prints {"write": errno name or null, "fsync": the same, "fsync_ns": [...]}. Finally it empties the file again.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from typing import Any


def errno_name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def written(opened: int, data: bytes) -> str | None:
    """Write all data, in as many writes as it takes; return the name of the error, or None."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(opened, rest) :]
    except OSError as error:
        return errno_name(error)
    return None


def probe(path: str, size_bytes: int, times: int = 1) -> dict[str, object]:
    answer: dict[str, Any] = {"write": None, "fsync": None, "fsync_ns": []}
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    except OSError as error:
        return {**answer, "write": errno_name(error)}
    try:
        for _ in range(times):
            answer["write"] = answer["write"] or written(opened, b"s" * size_bytes)
            begun_ns = time.monotonic_ns()
            try:
                os.fsync(opened)
            except OSError as error:
                answer["fsync"] = errno_name(error)
            answer["fsync_ns"].append(time.monotonic_ns() - begun_ns)
        with contextlib.suppress(OSError):  # the next probe overwrites it
            os.ftruncate(opened, 0)
    finally:
        os.close(opened)
    return answer


def main(arguments: list[str]) -> None:
    path, size_bytes = arguments[:2]
    times = int(arguments[2]) if len(arguments) > 2 else 1
    print(json.dumps(probe(path, int(size_bytes), times)))


if __name__ == "__main__":
    main(sys.argv[1:])
