"""Measures when the failure of one piece became inevitable, in a process that has the bug.

python -m staticfire.harness.museum.inevitable_worker < job.json
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.explain.command import Asked, explain_run
from staticfire.harness.cli.hunt.seeds import Judging, campaign_of
from staticfire.harness.cli.run import make_folder, run_in
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.museum.worker import recipe_of
from staticfire.harness.results.fingerprint import fingerprint_of
from staticfire.harness.results.run_result import RunResult

Fails = Callable[[Sequence[PlannedFault]], bool]


def sealing_fault(
    plan: Sequence[PlannedFault], kinds: Sequence[str], fails: Fails
) -> PlannedFault | None:
    """The first fault with which the run fails although no later one comes.

    Args:
        plan: by time.
        kinds: of the faults that have to come, in this order; "a|b" is either one. The last of them seals the failure.
        fails: whether the run with these faults alone fails as it did.
    """
    *before, last = (kind.split("|") for kind in kinds)
    for count, planned in enumerate(plan, start=1):
        if before:
            if planned.kind in before[0]:
                del before[0]
        elif planned.kind in last and fails(plan[:count]):
            return planned
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
        asked = Asked(no_return=True, budget_s=job["budget_s"], jobs=job["jobs"])
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
        "cpu_s": jump["jump_cpu_s"] if jump["jump_cpu_s"] is not None else jump["cpu_s"],
        **_cause(campaign, result, job["kinds"]),
    }


def _cause(campaign: Campaign, result: RunResult, kinds: Sequence[str]) -> dict[str, object]:
    """The kind of the fault that sealed the failure, and when it struck; without any kinds the start did."""
    if not kinds:
        return {"kind": "", "cause_ns": 0}
    wanted = fingerprint_of(result.verdict.violations())

    def fails(plan: Sequence[PlannedFault]) -> bool:
        from staticfire.harness.runs.simulated_runner import run_simulated

        used = tuple(dict.fromkeys(one.kind for one in plan))
        ended = run_simulated(replace(campaign, plan=tuple(plan), faults=used))
        return fingerprint_of(ended.verdict.violations()) == wanted

    plan = sorted(campaign.plan, key=lambda one: one.at_s)
    sealing = sealing_fault(plan, kinds, fails)
    if sealing is None:
        return {"kind": "", "cause_ns": None}
    [record] = [one for one in result.faults if one.planned.fault_id == sealing.fault_id]
    return {"kind": sealing.kind, "cause_ns": record.struck_ns}


def main() -> None:
    """Carry out the job of the standard input."""
    row = measured(orjson.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(orjson.dumps(row) + b"\n")


if __name__ == "__main__":
    main()
