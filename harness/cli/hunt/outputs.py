"""Writes a hunt as JUnit XML, Markdown and JSON: a case a seed, and a line a cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from staticfire.harness.cli.hunt.seeds import SeedResult
from staticfire.harness.cli.hunt.summary import answers_text, causes_of, command_of
from staticfire.harness.cli.outputs import Outputs, print_json
from staticfire.harness.report.junit import Case, outcome_of
from staticfire.harness.report.summary import SCHEMA_VERSION, escaped, fenced

ANSWERS = {"True": "valid", "False": "invalid", "unknown": "unknown"}


def say_hunt(
    outputs: Outputs,
    results: Sequence[SeedResult],
    options: dict[str, object],
    status: int,
    wall_s: float,
) -> None:
    """Write and print the hunt in the requested forms. Raises HarnessError."""
    outputs.write_junit("hunt", lambda: [_case(result) for result in results], wall_s)
    causes = {
        (result.workload, cause): found
        for result in results
        for cause, found in causes_of(
            [of for of in results if of.workload == result.workload]
        ).items()
    }
    if outputs.is_markdown:
        print(_markdown(results, causes, options), end="")
    if outputs.is_json:
        counts = Counter(str(result.valid) for result in results)
        print_json(
            {
                "title": "hunt",
                "schema_version": SCHEMA_VERSION,
                "exit_status": status,
                "wall_s": round(wall_s, 3),
                "seeds": len(results),
                "answers": {word: counts[valid] for valid, word in ANSWERS.items()},
                "causes": [
                    {
                        "workload": workload,
                        "cause": cause,
                        "seeds": [result.seed for result in found],
                    }
                    for (workload, cause), found in causes.items()
                ],
            }
        )


def _case(result: SeedResult) -> Case:
    return Case(
        classname=result.workload,
        name=f"seed {result.seed}",
        outcome="error" if result.failed else outcome_of(result.valid),
        message=result.fingerprint or (result.summary[0] if result.summary else ""),
        text="\n".join(result.summary),
        time_s=result.wall_s,
    )


def _markdown(
    results: Sequence[SeedResult],
    causes: Mapping[tuple[str, str], Sequence[SeedResult]],
    options: dict[str, object],
) -> str:
    lines = [f"## Hunt: {len(results)} seeds: {answers_text(results)}", ""]
    for (workload, cause), found in causes.items():
        given = {**options, "workload": workload} if options.get("workload") else options
        command = command_of(found[0], given)
        times = f"{len(found)} seed{'s' if len(found) > 1 else ''}"
        lines += [f"- {escaped(cause or 'unnamed')} in {times} of {escaped(workload)}:", ""]
        lines += [*fenced([command]), ""]
    return "\n".join(lines) + "\n"
