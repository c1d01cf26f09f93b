"""Searches by crashes of the store alone, for bugs that a broker hides from clients."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

from staticfire.faults.defects import Defect
from staticfire.harness.museum.searches import Search

INVALID = 1  # exit status


def search_store(defect: Defect, found: Search) -> None:
    """Run `staticfire crash-store` with the bug, and with as many cycles without it."""
    if found.is_found:
        return
    before_s = _children_cpu_s()
    status, text = crash_store(defect.store_crashes, defect.name)
    found.cpu_s = round(_children_cpu_s() - before_s, 2)
    found.seeds = defect.store_crashes
    found.workload = "crash-store"
    if status == INVALID:
        found.seed = 1
        found.off = "valid" if crash_store(defect.store_crashes, "")[0] == 0 else "invalid"
    elif status:
        found.failed, found.failure = 1, json.dumps(text[-200:])


def crash_store(cycles: int, defect: str) -> tuple[int, str]:
    """Exit status and output of so many cycles, from seed 1."""
    command = [sys.executable, "-m", "staticfire", "crash-store", "--seed", "1", "--jobs", "1"]
    command += ["--cycles", str(cycles), *(("--defect", defect) if defect else ())]
    ran = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
