"""Samples CPU seconds and memory of a command and its descendants. Spark's workers lose their parent at the end."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.spark_cluster import descendants_of

EVERY_S = 0.2
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took. CPU of what lived shorter than a sample is missed."""

    wall_s: float
    cpu_s: float
    peak_mb: int  # resident memory of the tree, pages shared counted twice
    status: int
    said: str


def run_and_measure(command: Sequence[str]) -> Cost:
    """Run a command to its end."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    cpu: dict[int, float] = {}
    peak = 0
    while process.poll() is None:
        resident = 0
        for pid in (process.pid, *descendants_of(process.pid)):
            if sample := _sample(pid):
                cpu[pid], pages = sample
                resident += pages * PAGE
        peak = max(peak, resident)
        time.sleep(EVERY_S)
    assert process.stdout is not None
    said = process.stdout.read()
    return Cost(time.monotonic() - began, sum(cpu.values()), peak >> 20, process.returncode, said)


def _sample(pid: int) -> tuple[float, int] | None:
    """CPU seconds so far and resident pages; None: it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND, pages
