"""Judges one mutant in a process that has it: crashes of its store, short hunts, and the conformance suite.

    python -m staticfire.harness.museum.mutant_worker < job.json

It prints a line for each stage, and stops after the first stage that finds the mutant.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import orjson

from staticfire.harness.raised_text import raised_text

STEP_CPU_S_MAX = 60.0  # CPU time of one hunt or case; clean ones take less than 4 s
# After that time the worker samples the running code. Most samples are of a node that spins, and some of the scheduler,
# which is no node. In a run that never ends all nodes work on, and no node has half of the samples.
SAMPLES = 20
SAMPLE_CPU_S = 0.25
WALL_S_MAX = 3600  # of the whole process
MEMORY_MAX = 6 << 30  # bytes of address space
SHORT_S = 12.0  # of load in a hunt
NODE = re.compile(r"\b(broker-[a-z](-\d)?|ns-\d|producer-\d|consumer-\d)\b")  # also a broker name
SYSTEM = "system_under_test/"
FINDING_MAX = 200  # characters


def stages(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the result of each stage: `stage`, `found` (empty: nothing), and the digests of the hunts."""
    if job["cycles"]:
        yield (row := crashed_store(job["cycles"]))
        if row["found"]:
            return
    digests: list[str] = []
    for seed, given in job["hunts"]:
        judgement = hunted(seed, given)
        digests.append(judgement.get("digest", ""))
        if found := finding(judgement):
            yield {"stage": f"hunt {given['workload']}", "found": found, "digests": digests}
            return
    yield {"stage": "hunts", "found": "", "digests": digests}
    if job["conforms"]:
        yield conformance()


def hunted(seed: int, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run and judge one short hunt with the given options."""
    from staticfire.harness.museum.worker import judged

    _allow_step()
    return judged(seed, {**given, "time_s": SHORT_S})


def finding(row: Mapping[str, Any]) -> str:
    """Return the finding of a judged seed about the mutant; empty: none. A failure of the harness must name a node."""
    if row["valid"] is False:
        return ", ".join(row["checkers"])
    return named_failure(row.get("failed", ""))


def named_failure(failure: str) -> str:
    """Return a failure of the harness if it names a node, else nothing."""
    return failure if NODE.search(failure) else ""


def crashed_store(cycles: int) -> dict[str, Any]:
    """Crash the store alone, many times."""
    from staticfire.harness.store_crash.cycles import run_cycles

    _allow_step()
    failures = run_cycles(0, cycles).failures
    found = failures[0].text if failures else ""
    return {"stage": "store crashes", "found": shortened(found), "digests": []}


def conformance() -> dict[str, object]:
    """Run the cases of the suite in the simulation, up to the first one that fails.

    An error of the suite itself counts only if its text names a node.
    """
    from staticfire.harness.conformance.case import cases
    from staticfire.harness.conformance.result import Outcome
    from staticfire.harness.conformance.sites.simulated import SimulatedSite, run_in_world

    for case in cases().values():
        _allow_step()
        try:
            result = run_in_world(case, SimulatedSite().campaign)
        except Exception as error:
            found = named_failure(f"{type(error).__name__}: {error}")
        else:
            found = result.reason
            if result.outcome is not Outcome.FAILED:
                found = named_failure(found)
        if found:
            text = f"{case.clause.id}: {found}"
            return {"stage": "conformance", "found": shortened(text), "digests": []}
    return {"stage": "conformance", "found": "", "digests": []}


def shortened(text: str) -> str:
    """Return a finding, without its last words if it is long, since docs/data/mutants.json keeps it."""
    return textwrap.shorten(text, FINDING_MAX, placeholder=" ...")


def start_failure(error: BaseException) -> str:
    """Return the error of a system that does not start, if the system's own code raised it; else an empty text."""
    text = raised_text(error)
    return text if f"at {SYSTEM}" in text else ""


def spin_of(node: str, frame: FrameType | None) -> str:
    """Return a sentence on a node that keeps the processor; empty if no node, or no code of the system, runs."""
    while frame is not None and f"/{SYSTEM}" not in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is None or not NODE.search(node):
        return ""
    module = frame.f_code.co_filename.rpartition(f"/{SYSTEM}")[2]
    return f"{node} spins at {SYSTEM}{module}:{frame.f_lineno} in {frame.f_code.co_name}"


def spin_in(samples: Sequence[tuple[str, str]]) -> str:
    """Return the sentence on the node that at least half of the samples name; empty if there is none.

    Args:
        samples: the node that ran, and its `spin_of`.
    """
    said = {node: text for node, text in samples if text}
    counts = Counter(node for node, text in samples if text)
    return next((said[node] for node, named in counts.items() if 2 * named >= len(samples)), "")


def _allow_step() -> None:
    samples: list[tuple[str, str]] = []

    def sample(_number: int, frame: FrameType | None) -> None:
        node = running_node()
        samples.append((node, spin_of(node, frame)))
        if len(samples) == SAMPLES:
            _end_of_step(spin_in(samples))

    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, STEP_CPU_S_MAX, SAMPLE_CPU_S)


def running_node() -> str:
    """Return the name of the simulated process whose code runs; empty: none."""
    from staticfire.harness.simulation.scheduling.run_queue import OWNER

    queue = OWNER.get(None)
    return queue.process.name if queue is not None and queue.process is not None else ""


def _end_of_step(found: str) -> None:
    """End the process with a row, because the step has used up its CPU time."""
    row = {"stage": "process", "found": found, "digests": []}
    _say({**row, "failed": f"a step took more than {STEP_CPU_S_MAX:g} CPU s"})
    os._exit(0)


def _say(row: dict[str, object]) -> None:
    row["cpu_s"] = round(time.process_time(), 2)
    sys.stdout.buffer.write(orjson.dumps(row) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Carry out the job from standard input."""
    job = orjson.loads(sys.stdin.buffer.read())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    signal.alarm(WALL_S_MAX)
    try:
        for row in stages(job):
            _say(row)
    except Exception as error:
        found = start_failure(error)
        _say({"stage": "process", "found": found, "digests": [], "failed": raised_text(error)})


if __name__ == "__main__":
    main()
