"""A wall clock that steps for processes that were started for it, and monotonic clocks that do not notice."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from staticfire.faults.linux.clock import ClockError, FakeClock, library_path, offset_text
from staticfire.faults.linux.machine import LinuxMachine
from tests.support.recording_executor import recording_machine

HOUR_MS = 3_600_000

# A busy machine may keep a process waiting for so long; what would be wrong is an hour.
LATE_S = 60.0
# Says its clocks at each line on stdin: wall clock, monotonic clock, how long 0.05 s last for asyncio and a lock.
CLOCKS = """
import asyncio, sys, threading, time
async def slept():
    begun = time.perf_counter()
    await asyncio.sleep(0.05)
    return time.perf_counter() - begun
def waited():
    begun = time.perf_counter()
    threading.Event().wait(0.05)
    return time.perf_counter() - begun
for line in sys.stdin:
    print(time.time(), time.monotonic(), asyncio.run(slept()), waited(), flush=True)
"""


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "+0.000s"), (1500, "+1.500s"), (-7250, "-7.250s"), (-3_600_001, "-3600.001s")],
)
def test_offsets(milliseconds: int, text: str) -> None:
    assert offset_text(milliseconds) == text


def test_no_library(tmp_path: Path) -> None:
    machine, _ = recording_machine(tmp_path)
    with pytest.raises(ClockError, match="install the package libfaketime"):
        asyncio.run(library_path(machine))
    machine.inventory.close()


def test_no_folder_for_the_file(machine: LinuxMachine, tmp_path: Path) -> None:
    clock = FakeClock(machine, f"{tmp_path}/missing/offset", "/l")
    with pytest.raises(ClockError, match="offset cannot be written"):
        asyncio.run(clock.create())


@pytest.mark.real
@pytest.mark.needs_root("libfaketime")
def test_a_process_sees_each_step_and_its_timers_do_not(
    machine: LinuxMachine, tmp_path: Path
) -> None:
    library = asyncio.run(library_path(machine))
    clock = FakeClock(machine, f"{tmp_path}/offset", library)
    asyncio.run(clock.create())
    process = subprocess.Popen(
        [sys.executable, "-c", CLOCKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **clock.environment},
    )
    with process:
        try:
            assert abs(wall_offset_s(process)) < LATE_S
            moved_ms = asyncio.run(clock.step(HOUR_MS))
            assert abs(moved_ms - HOUR_MS) < LATE_S * 1000
            assert abs(wall_offset_s(process) - 3600) < LATE_S
            asyncio.run(clock.step(-2 * HOUR_MS))
            assert abs(wall_offset_s(process) + 3600) < LATE_S
            asyncio.run(clock.reset())
            assert abs(wall_offset_s(process)) < LATE_S
        finally:
            process.kill()


def wall_offset_s(process: subprocess.Popen[str]) -> float:
    """How far its wall clock is ahead of ours; everything else must be right."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    wall, monotonic, slept, waited = map(float, process.stdout.readline().split())
    assert abs(monotonic - time.monotonic()) < LATE_S
    assert 0.049 < slept < LATE_S
    assert 0.049 < waited < LATE_S
    return wall - time.time()
