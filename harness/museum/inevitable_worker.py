"""Measures when the failure of one piece became inevitable, in a process that has the bug.

    python -m staticfire.harness.museum.inevitable_worker < job.json

The worker reads the job from standard input.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.explain.command import Asked, explain_run
from staticfire.harness.cli.hunt.seeds import Judging, campaign_of
from staticfire.harness.cli.run import make_folder, run_in
from staticfire.harness.continuations.rewind import Rewind
from staticfire.harness.continuations.tree import Continuations
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.museum.worker import recipe_of
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.results.fingerprint import fingerprint_of
from staticfire.harness.results.run_result import RunResult

OF_CAUSE_S = 3600.0  # bound of the wall time of one continuation

Fails = Callable[[FaultRecord], bool]


def sealing_fault(
    faults: Sequence[FaultRecord], kinds: Sequence[str], fails: Fails
) -> FaultRecord | None:
    """Return the fault that seals the failure: the first one with which the run fails without any later fault.

    Args:
        faults: all faults, by the time at which they were fired.
        kinds: kinds of the faults that lead to the failure, in order; "a|b" is either kind. The last one seals it.
        fails: whether the run without faults after this one fails in the same way.
    """
    *before, last = (kind.split("|") for kind in kinds)
    for record in faults:
        if before:
            if record.planned.kind in before[0]:
                del before[0]
        elif record.planned.kind in last and fails(record):
            return record
    return None


def measured(job: Mapping[str, Any]) -> dict[str, object]:
    """Run the seed of the recipe, rewind it, and look for its cause.

    Args:
        job: `name` of the piece, `seed`, `kinds` of its cause, `jobs` and `budget_s` for the rewinding.
    """
    judging = Judging(client_only=False, provider=MachineOptions())
    campaign = campaign_of(job["seed"], recipe_of(job["name"]), judging)
    with TemporaryDirectory() as runs, redirect_stdout(io.StringIO()) as printed:
        folder = make_folder(campaign, Path(runs))
        result = run_in(folder, campaign, MachineOptions())
        asked = Asked(no_return=True, fills=False, budget_s=job["budget_s"], jobs=job["jobs"])
        printed.truncate(printed.seek(0))
        explain_run(folder.path, is_json=True, asked=asked)
    jump = orjson.loads(printed.getvalue())["point_of_no_return"]
    return {
        "seed": job["seed"],
        "end_ns": max(op.time_ns for op in result.ops),
        "before_ns": jump["before_ns"],
        "after_ns": jump["after_ns"],
        "is_complete": jump["is_complete"],
        "continuations": jump["continuations"],
        "cpu_s": jump["cpu_s"],
        "wall_s": jump["wall_s"],
        **_cause(campaign, result, job["kinds"]),
    }


def _cause(campaign: Campaign, result: RunResult, kinds: Sequence[str]) -> dict[str, object]:
    """Return the kind and the time of the fault that sealed the failure; the start of the run if there are no kinds."""
    if not kinds:
        return {"kind": "", "cause_ns": 0}
    wanted = fingerprint_of(result.verdict.violations())
    fired = sorted(
        (record for record in result.faults if record.fired_ns is not None), key=_fired_ns
    )
    with Continuations(campaign, jobs=1) as continuations:

        def fails(record: FaultRecord) -> bool:
            rewind = Rewind(_fired_ns(record) + 1, None, keeps_plan=False)
            until = time.monotonic() + OF_CAUSE_S
            [(_, outcome)] = continuations.outcomes([rewind], until)
            return outcome.fingerprint == wanted

        sealing = sealing_fault(fired, kinds, fails)
    if sealing is None:
        return {"kind": "", "cause_ns": None}
    return {"kind": sealing.planned.kind, "cause_ns": sealing.fired_ns}


def _fired_ns(record: FaultRecord) -> int:
    return record.fired_ns or 0


def main() -> None:
    """Carry out the job from standard input."""
    row = measured(orjson.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(orjson.dumps(row) + b"\n")


if __name__ == "__main__":
    main()
