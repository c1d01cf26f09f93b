"""Shrinks the run of one piece in a process that has the bug.

    python -m staticfire.harness.museum.shrink_worker < job.json

The worker reads the job from standard input.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import orjson

from staticfire.harness.cli.hunt.seeds import Judging, campaign_of
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.museum.worker import recipe_of
from staticfire.harness.shrink.search import Search
from staticfire.harness.shrink.trials import Trial, run_trial
from staticfire.harness.store_crash.shrinking import Played, cause_of, drawn, played, shrink
from staticfire.system_under_test.store.assembly.store_policy import HARDENED_STORE

FAULTS_MAX, OPS_MAX = 3, 10  # the limits of a run that counts as small


def is_small(trial: Trial) -> bool:
    """Whether at most 3 faults and 10 ops are left."""
    return len(trial.campaign.plan) <= FAULTS_MAX and len(trial.ops) <= OPS_MAX


def shrunk(job: Mapping[str, Any]) -> dict[str, object]:
    """Run the seed of the recipe and shrink it; return the sizes, and when they were reached.

    Args:
        job: `name` of the piece, `seed`, `jobs` and `budget_s` of the shrink. With `is_cycle` the seed is that of a
            cycle of `staticfire crash-store`, which is shrunk until nothing simpler is found.
    """
    if job["is_cycle"]:
        return _shrunk_cycle(job["seed"])
    judging = Judging(client_only=False, provider=MachineOptions())
    first = best = run_trial(campaign_of(job["seed"], recipe_of(job["name"]), judging))
    assert first.fingerprint is not None
    started = time.monotonic()
    reached: tuple[float, float] | None = None
    last = (0.0, 0.0)

    def now() -> tuple[float, float]:
        return round(search.cpu_s, 1), round(time.monotonic() - started, 1)

    def improved(_name: str, trial: Trial) -> None:
        nonlocal best, reached, last
        best, last = trial, now()
        if reached is None and is_small(trial):
            reached = last

    search = Search(first.fingerprint, job["jobs"], started + job["budget_s"], improved)
    improved("the run", first)
    is_complete = search.run(first)
    return {
        "seed": job["seed"],
        "failure": str(first.fingerprint),
        "faults": (len(first.campaign.plan), len(best.campaign.plan)),
        "ops": (len(first.ops), len(best.ops)),
        "reached": reached,
        "last": last,
        "whole": now(),
        "is_complete": is_complete,
        "is_repeated": run_trial(best.campaign).digest == best.digest,
    }


def _shrunk_cycle(seed: int) -> dict[str, object]:
    """Shrink a cycle of crash-store; its ops are the steps of load."""
    first = best = drawn(seed)
    started, cpu_started = time.monotonic(), time.process_time()
    reached: tuple[float, float] | None = None
    last = (0.0, 0.0)

    def now() -> tuple[float, float]:
        return round(time.process_time() - cpu_started, 1), round(time.monotonic() - started, 1)

    def improved(cycle: Played) -> None:
        nonlocal best, reached, last
        best, last = cycle, now()
        if reached is None and cycle.faults <= FAULTS_MAX and cycle.works <= OPS_MAX:
            reached = last

    improved(first)
    shrink(first, HARDENED_STORE, improved)
    return {
        "seed": seed,
        "failure": cause_of(best.failure.rpartition(", at ")[0]),
        "faults": (first.faults, best.faults),
        "ops": (first.works, best.works),
        "reached": reached,
        "last": last,
        "whole": now(),
        "is_complete": True,
        "is_repeated": played(best.script) == best,
    }


def main() -> None:
    """Carry out the job from standard input."""
    row = shrunk(orjson.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(orjson.dumps(row) + b"\n")


if __name__ == "__main__":
    main()
