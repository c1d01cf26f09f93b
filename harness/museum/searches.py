"""Searches for one planted bug: by its recipe, or blind, each in a process of its own within a bound of CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from staticfire.faults.defects import Defect
from staticfire.harness.cli.options import given_options
from staticfire.harness.defect_loader import VARIABLE, planted
from staticfire.harness.museum.worker import judged
from staticfire.harness.workloads.catalogue import WORKLOADS

NO_OPTIONS: Mapping[str, Any] = dict.fromkeys(("campaign", "slaves", "masters", "faults"))
SEEDS_MAX = 100_000  # the bound of CPU time ends a search long before
WORKER = "staticfire.harness.museum.worker"


@dataclass(slots=True, kw_only=True)
class Search:
    """What a search has come to so far. A larger bound goes on where the smaller one ended.

    Attributes:
        bound_cpu_s: processor time that the search may take, seconds.
        seeds: seeds judged, the last one included.
        checkers: of the run that shows the bug, those that are invalid.
        off: without the bug the same seed is "valid", "invalid" or "unknown"; empty: not tried.
        failed: seeds that the harness could not carry out, and why the first of them was one.
    """

    bound_cpu_s: float = 0.0
    seeds: int = 0
    cpu_s: float = 0.0
    seed: int | None = None
    workload: str = ""
    anomalies: list[str] = field(default_factory=list)
    checkers: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    off: str = ""
    failed: int = 0
    failure: str = ""

    @property
    def is_found(self) -> bool:
        return self.seed is not None

    def take(self, row: Mapping[str, Any]) -> None:
        """Count one judged seed."""
        self.seeds += 1
        self.cpu_s = round(self.cpu_s + row["cpu_s"], 2)
        if "failed" in row:
            self.failed += 1
            self.failure = self.failure or row["failed"]
        if row["valid"] is False:
            self.seed, self.workload = row["seed"], row["workload"]
            self.anomalies, self.checkers, self.faults = (
                row["anomalies"],
                row["checkers"],
                row["faults"],
            )


def recipe_of(name: str) -> dict[str, Any]:
    """The options of the campaign that stands in the bug's file."""
    return given_options(**NO_OPTIONS, defect=name)


def blind_options(name: str) -> list[dict[str, Any]]:
    """The workloads in turn; everything else is drawn from the seed."""
    return [{"workload": workload, "defect": name} for workload in WORKLOADS]


def search(defect: Defect, so_far: Search, given: Sequence[Mapping[str, Any]]) -> None:
    """Judge seeds in a process with the bug until one is invalid or the bound is reached. Raises DefectError."""
    if so_far.is_found or so_far.cpu_s >= so_far.bound_cpu_s:
        return
    job = {
        "given": given,
        "first": so_far.seeds,
        "seeds_max": SEEDS_MAX,
        "cpu_s": so_far.bound_cpu_s - so_far.cpu_s,
        "stops": True,
    }
    with planted(defect.name) as folders:
        for row in rows_of(job, folders, {VARIABLE: defect.name}):
            so_far.take(row)


def judge_without(given: Mapping[str, Any], so_far: Search) -> None:
    """Run the seed that shows the bug on the clean system."""
    assert so_far.seed is not None
    valid = judged(so_far.seed, {**given, "defect": ""})["valid"]
    so_far.off = {True: "valid", False: "invalid"}.get(valid, "unknown")


def rows_of(
    job: Mapping[str, Any], folders: Sequence[str], variables: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The rows of a worker that finds the patched system in `folders`. A worker that dies is a row that failed."""
    paths = [*folders, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-P", "-m", WORKER]
    with _process(command, environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(orjson.dumps(job))
        process.stdin.close()
        for line in process.stdout:
            yield orjson.loads(line)
        status = process.wait()
    if status:
        text = f"the worker ended with status {status}"
        yield {"valid": "unknown", "failed": text, "cpu_s": float(job["cpu_s"])}


@contextmanager
def _process(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        with process:
            yield process
    except BaseException:
        process.kill()
        raise
