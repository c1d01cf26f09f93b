"""Measures the duration of an fsync by a process in a cgroup: the proof that a disk is slow.

    timed_sync.py FILE SECONDS TIMES [CGROUP]

Appends 4096 bytes and fsyncs, until SECONDS have passed or TIMES is reached, but at least 3 times. Prints {"count": n,
"total_ns": n}. Finally it empties the file again.
"""

from __future__ import annotations

import json
import os
import sys
import time

TIMES_MIN = 3


def timed(path: str, seconds: float, times: int) -> dict[str, object]:
    count, total_ns = 0, 0
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        while count < TIMES_MIN or (count < times and total_ns < seconds * 1e9):
            begun_ns = time.monotonic_ns()
            os.write(opened, b"s" * 4096)
            os.fsync(opened)
            total_ns += time.monotonic_ns() - begun_ns
            count += 1
        os.ftruncate(opened, 0)
    finally:
        os.close(opened)
    return {"count": count, "total_ns": total_ns}


def main(arguments: list[str]) -> None:
    path, seconds, times, *cgroup = arguments
    if cgroup:
        with open(f"{cgroup[0]}/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
    print(json.dumps(timed(path, float(seconds), int(times))))


if __name__ == "__main__":
    main(sys.argv[1:])
