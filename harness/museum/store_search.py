"""Searches by crashes of the store alone, for bugs that a broker hides from clients."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys

from staticfire.faults.defects import Defect
from staticfire.harness.museum.searches import Search

INVALID = 1  # exit status
CYCLES = 100  # of one process
FAILED = re.compile(r"FAILED seed (\d+):")  # the first of them is the smallest


def search_store(defect: Defect, found: Search) -> None:
    """Run `staticfire crash-store` with the bug until a cycle fails, and those cycles without it."""
    found.workload = "crash-store"
    while (
        not found.is_found
        and not found.failed
        and found.seeds < defect.store_crashes
        and found.cpu_s < found.bound_cpu_s
    ):
        first, cycles = 1 + found.seeds, min(CYCLES, defect.store_crashes - found.seeds)
        before_s = _children_cpu_s()
        status, text = crash_store(first, cycles, defect.name)
        found.cpu_s = round(found.cpu_s + _children_cpu_s() - before_s, 2)
        failed = FAILED.search(text)
        if status == INVALID and failed is not None:
            found.seed = found.seeds = int(failed[1])
            found.off = "invalid" if crash_store(first, cycles, "")[0] else "valid"
        elif status:
            found.failed, found.failure = 1, json.dumps(text[-200:])
        else:
            found.seeds += cycles


def crash_store(first: int, cycles: int, defect: str) -> tuple[int, str]:
    """Run cycles from the seed `first` on; return exit status and output."""
    command = [sys.executable, "-m", "staticfire", "crash-store", "--seed", str(first)]
    command += ["--jobs", "1", "--cycles", str(cycles)]
    command += ("--defect", defect) if defect else ()
    ran = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
