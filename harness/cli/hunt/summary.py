"""Prints the summary of a hunt, for each workload and for all of them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from staticfire.checkers.measures.coverage import missed
from staticfire.harness.cli.hunt.pace import growth_text
from staticfire.harness.cli.hunt.seeds import SeedResult
from staticfire.harness.console.terminal import fitted
from staticfire.harness.report.quantities import with_noun
from staticfire.harness.truncated_repr import printable


def as_given(options: dict[str, Any]) -> str:
    """Return the options of the campaign as on a command line."""
    words = []
    for name, given in options.items():
        if name == "broker_properties":
            words += [f"--broker-property {shlex.quote(value)}" for value in given]
        elif given is not None:
            option = name.removesuffix("_s").replace("_", "-")
            words.append(f"--{option} {shlex.quote(str(given))}")
    return "".join(f" {word}" for word in words)


def print_summary(results: Sequence[SeedResult], options: dict[str, object]) -> None:
    """Print the summary of one workload with at least one result."""
    kinds = Counter(kind for result in results for kind in result.bitten)
    _print(f"seeds     {len(results)}: {answers_text(results)}")
    _print(
        f"acked     median {median(r.acked for r in results):.0f}, least {min(r.acked for r in results)}, "
        f"all {sum(r.acked for r in results)}"
    )
    _print(f"power     {sum(r.dirty_power_cut for r in results)} seeds cut power with dirty data")
    _print(
        f"cpu       median {median(r.cpu_s for r in results):.2f} s a seed, all {sum(r.cpu_s for r in results):.0f} s"
    )
    _print("bitten    " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    _print_coverage(results, _reaching(results, options))
    caveats = Counter(caveat for result in results for caveat in result.caveats)
    for caveat, seeds in caveats.items():
        _print(printable(f"note      {seeds} seeds: {caveat}"))
    for cause, found in causes_of(results).items():
        count = with_noun(len(found), "seed")
        again = command_of(found[0], options)
        print(f"cause     {cause or 'unnamed'} in {count}: {again}")


def command_of(result: SeedResult, options: dict[str, object]) -> str:
    """Return the command that repeats a run of a hunt with these options."""
    if result.bred:
        return f"staticfire run --campaign {shlex.quote(result.bred)}"
    return f"staticfire run --seed {result.seed}{as_given(options)}"


def causes_of(results: Sequence[SeedResult]) -> dict[str, list[SeedResult]]:
    """Return the invalid runs by cause, the most frequent cause first; drawn ones first, in order of seeds."""
    causes: dict[str, list[SeedResult]] = {}
    for result in sorted(results, key=lambda result: (bool(result.bred), result.seed)):
        if result.valid is False:
            causes.setdefault(result.fingerprint, []).append(result)
    return dict(sorted(causes.items(), key=lambda item: -len(item[1])))


def _reaching(results: Sequence[SeedResult], options: dict[str, object]) -> str:
    """Return the name under which marks of coverage list the campaigns that should reach them."""
    workload = results[0].workload
    return str(options.get("campaign") or ("default" if workload == "queue" else workload))


def _print_coverage(results: Sequence[SeedResult], campaign: str) -> None:
    """Print the reached marks, and a warning for those that this campaign should have reached."""
    counts = _marks(results)
    reached = [f"{name} {sum(c)} in {sum(map(bool, c))}" for name, c in counts.items() if any(c)]
    _print(f"reached   {len(reached)} of {len(counts)} marks (how often, in how many seeds)")
    _print("          " + ", ".join(reached))
    _print(f"seen      behaviours: {growth_text(result.coverage for result in results)} seeds")
    if quiet := _since_new(results):
        _print(f"          the last {quiet} seeds reached no new mark")
    sums = {name: sum(count) for name, count in counts.items()}
    if never := missed(sums, campaign, len(results)):
        _print(f"warning   never reached, as {campaign} should: {', '.join(never)}")


def _since_new(results: Sequence[SeedResult]) -> int:
    """Return how many seeds ended since the last one that reached a new mark."""
    known: set[str] = set()
    newest = 0
    for number, result in enumerate(results, 1):
        reached = {name for name, count in result.coverage.items() if count}
        if reached - known:
            known |= reached
            newest = number
    return len(results) - newest


def print_total(results: Sequence[SeedResult]) -> None:
    """Print the summary of several workloads with at least one result."""
    workloads = len({result.workload for result in results})
    _print(
        f"all       {len(results)} seeds of {workloads} workloads: {answers_text(results)}; "
        f"{sum(result.cpu_s for result in results):.0f} CPU s"
    )
    never = [name for name, count in _marks(results).items() if not any(count)]
    if never:
        _print(f"          marks that none of them reached: {', '.join(never)}")


def print_planned(planned: int, results: Sequence[SeedResult]) -> None:
    """Print how many of the planned seeds are done, failed and not run."""
    failed = sum(result.failed for result in results)
    done, not_run = len(results) - failed, planned - len(results)
    _print(f"planned   {planned}: {done} done, {failed} failed, {not_run} not run")


def answers_text(results: Sequence[SeedResult]) -> str:
    count = Counter(str(result.valid) for result in results)
    return f"{count['True']} valid, {count['False']} invalid, {count['unknown']} unknown"


def _marks(results: Sequence[SeedResult]) -> dict[str, list[int]]:
    """Return how often each run reached each mark of coverage."""
    names = dict.fromkeys(name for result in results for name in result.coverage)
    return {name: [result.coverage.get(name, 0) for result in results] for name in names}


def _print(line: str) -> None:
    print("\n".join(fitted(line)))
