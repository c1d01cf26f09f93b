"""Counts the resources of a server's process, in environments that can inspect it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SOCKET = "socket:"
OTHERS = ("pipe:", "anon_inode:", "/dev/")
REMOVED = " (deleted)"


class Resources(NamedTuple):
    """The resources of one process at a moment; None for values that its environment cannot read."""

    life: int  # identifies the process: its pid or, in the simulation, its number
    tasks: int | None  # asyncio tasks that are not done
    threads: int | None
    sockets: int | None
    surplus_files: (
        int | None
    )  # descriptors of removed files, and all but the first of each other file
    memory_bytes: int | None  # resident


def of_process(pid: int) -> Resources | None:
    """Return the resources of a process of this machine, from /proc; None if it has ended or there is no /proc."""
    folder = Path(f"/proc/{pid}")
    try:
        targets = list(_targets(folder / "fd"))
        status = dict(
            line.split(":", 1)
            for line in (folder / "status").read_text().splitlines()
            if ":" in line
        )
        return Resources(
            life=pid,
            tasks=None,
            threads=int(status["Threads"]),
            sockets=sum(target.startswith(SOCKET) for target in targets),
            surplus_files=surplus(
                target for target in targets if not target.startswith((SOCKET, *OTHERS))
            ),
            memory_bytes=int(status["VmRSS"].split()[0]) << 10,
        )
    except (OSError, KeyError):
        return None


def cpu_s_of_process(pid: int) -> float | None:
    """Return the CPU time of a process of this machine, in seconds; None if it has ended or there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _targets(folder: Path) -> Iterator[str]:
    """Yield the targets of the descriptors, some of which may be closed meanwhile."""
    for entry in sorted(os.listdir(folder)):
        with suppress(FileNotFoundError):
            yield os.readlink(folder / entry)


def surplus(paths: Iterable[str]) -> int:
    """Count open files that were removed, and all but the first of each other path."""
    paths = list(paths)
    return len(paths) - len({path for path in paths if not path.endswith(REMOVED)})
