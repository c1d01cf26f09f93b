"""Measures a real node from outside: memory, descriptors, tasks, turns of its event loop."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWER_TIMEOUT_S = 600.0  # a node that is held up answers late


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a process holds now."""

    resident_bytes: int
    peak_bytes: int  # of resident memory, since `forget_peak`
    descriptors: int
    threads: int
    tasks: int


class NodeGauges:
    """Asks a `measured_node` and the kernel."""

    def __init__(self, pid: int, socket_path: Path) -> None:
        self._pid = pid
        self._path = socket_path

    def take_turns(self) -> dict[str, Any]:
        """What measured_node answers: about the turns since the last call."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            connection.connect(str(self._path))
            with connection.makefile("rw") as lines:
                lines.write("\n")
                lines.flush()
                turns: dict[str, Any] = json.loads(lines.readline())
        return turns

    def held(self) -> Held:
        """The turns begin anew, too."""
        fields = self._status()
        return Held(
            resident_bytes=fields["VmRSS"] << 10,
            peak_bytes=fields["VmHWM"] << 10,
            descriptors=len(os.listdir(f"/proc/{self._pid}/fd")),
            threads=fields["Threads"],
            tasks=self._tasks(),
        )

    def peak_bytes(self) -> int:
        """Of resident memory, since `forget_peak`; the turns go on."""
        return self._status()["VmHWM"] << 10

    def forget_peak(self) -> None:
        """The peak of resident memory begins anew; the kernel lets the owner of the process ask for it."""
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")

    def cpu_s(self) -> float:
        """CPU seconds of the process, all threads."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _status(self) -> dict[str, int]:
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        pairs = (line.split(":", 1) for line in lines)
        return {
            name: int(value.split()[0])
            for name, value in pairs
            if name in ("VmRSS", "VmHWM", "Threads")
        }

    def _tasks(self) -> int:
        return int(self.take_turns()["tasks"])
