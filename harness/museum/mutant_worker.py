"""Judges one mutant in a process that has it: crashes of its store, short hunts, and the conformance suite.

    python -m staticfire.harness.museum.mutant_worker < job.json

It prints a line for each stage, and ends at the first stage that finds the mutant.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from staticfire.harness.museum.worker import judged

CPU_S_MAX = 300  # CPU limit, after which a mutant that spins is killed
SHORT_S = 12.0  # of load in a hunt
NODES = ("broker-", "ns-", "producer-", "consumer-", "name server")


def stages(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the result of each stage: `stage`, `found` (empty: nothing), and the digests of the hunts."""
    if job["cycles"]:
        yield (row := crashed_store(job["cycles"]))
        if row["found"]:
            return
    digests: list[str] = []
    for seed, workload in job["hunts"]:
        row = judged(seed, {"workload": workload, "time_s": SHORT_S})
        digests.append(row.get("digest", ""))
        if found := finding(row):
            yield {"stage": f"hunt {workload}", "found": found, "digests": digests}
            return
    yield {"stage": "hunts", "found": "", "digests": digests}
    yield conformance(job["skipped_cases"])


def finding(row: Mapping[str, Any]) -> str:
    """Return the finding of a judged seed about the mutant; empty: none. A failure of the harness must name a node."""
    if row["valid"] is False:
        return ", ".join(row["checkers"])
    failure: str = row.get("failed", "")
    return failure if any(node in failure for node in NODES) else ""


def crashed_store(cycles: int) -> dict[str, Any]:
    """Crash the store alone, many times."""
    from staticfire.harness.store_crash.cycles import run_cycles

    try:
        failures = run_cycles(0, cycles).failures
        found = failures[0].text if failures else ""
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return {"stage": "store crashes", "found": found[:200], "digests": []}


def conformance(skipped: Sequence[str]) -> dict[str, Any]:
    """Run the cases of the suite in the simulation, up to the first that does not pass."""
    from staticfire.harness.conformance.case import cases
    from staticfire.harness.conformance.result import Outcome
    from staticfire.harness.conformance.sites.simulated import SimulatedSite, run_in_world

    for case in cases().values():
        if case.clause.id in skipped:
            continue
        try:
            result = run_in_world(case, SimulatedSite().campaign)
        except Exception as error:
            text = f"{case.clause.id}: {type(error).__name__}: {error}"
            return {"stage": "conformance", "found": text[:200], "digests": []}
        if result.outcome is not Outcome.PASSED:
            text = f"{case.clause.id}: {result.reason}"
            return {"stage": "conformance", "found": text[:200], "digests": []}
    return {"stage": "conformance", "found": "", "digests": []}


def main() -> None:
    """Carry out the job of the standard input."""
    job = orjson.loads(sys.stdin.buffer.read())
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
    for row in stages(job):
        row["cpu_s"] = round(time.process_time(), 2)
        sys.stdout.buffer.write(orjson.dumps(row) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
