"""`staticfire hunt`: many seeds of one campaign, on all cores."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
import orjson

from checkers.coverage import missed
from checkers.stretches import SENDS, messages_in
from faults.defects import DefectError
from faults.errors import FaultError
from harness.campaign import Campaign, CampaignError
from harness.campaign_draw import draw_campaign
from harness.cli.fleet_options import fleet_options
from harness.cli.options import campaign_options, check_nodes, choose_faults, given_options
from harness.cli.somebodys_cluster import take_cluster
from harness.cli.status import (
    EXIT_HARNESS_ERROR,
    EXIT_INVALID,
    EXIT_UNKNOWN,
    EXIT_VALID,
    BadInput,
    HarnessError,
)
from harness.defective import use_defect
from harness.environments.fleet_options import FleetOptions
from harness.workloads.catalogue import WORKLOADS

SEEDS_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """What is kept of one seed's run."""

    seed: int
    workload: str
    valid: bool | str
    digest: str
    acked: int
    bitten: tuple[str, ...]  # kinds of fault
    dirty_power_cut: bool  # power was cut while unsynced data lay in a page cache
    cpu_s: float
    summary: tuple[str, ...]  # of a run that is not valid
    coverage: dict[str, int] = field(default_factory=dict)  # see RunVerdict.coverage
    interrupted: bool = False  # somebody wants no more of it
    failed: bool = False  # the harness could not carry the run out

    @property
    def row(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class Judging(NamedTuple):
    """How the seeds of a hunt are run and judged."""

    client_only: bool
    fleet: FleetOptions


@click.command(short_help="Run many seeds of a campaign.")
@click.option(
    "--seeds", default="0-99", show_default=True, metavar="FIRST-LAST", help="Range of seeds."
)
@campaign_options
@fleet_options
@click.option("--jobs", type=int, default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--reverse", is_flag=True, help="Last seed first.")
@click.option("--until-found", is_flag=True, help="Stop at the first seed that is invalid.")
@click.option("--client-only", is_flag=True, help="Judge by what clients saw alone.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write a JSON line a seed."
)
def hunt(
    seeds: str,
    jobs: int,
    reverse: bool,
    until_found: bool,
    client_only: bool,
    out: Path | None,
    fleet: FleetOptions,
    **options: Any,
) -> int:
    """Run one campaign with every seed of a range and say what came of them.

    \b
    Example:
      staticfire hunt --campaign default --seeds 0-99
      staticfire hunt --workload ordered,retry --seeds 0-99
      staticfire hunt --workload all --seeds 0-299
      staticfire hunt --defect ack-before-fsync --seeds 0-49 --until-found

    With --defect and without --campaign, the defect's own recipe is used. --workload may name several, or all: one
    after the other.

    Exit status: 0 none invalid, 1 some invalid, 2 only unknown, 254 bad arguments, 255 harness error.
    """
    order = _seed_range(seeds)
    if not 1 <= jobs <= 256:
        raise BadInput(f"--jobs is {jobs}; allowed: 1 to 256")
    judging = Judging(client_only, fleet)
    hunts = [{**options, "workload": name} for name in _workloads(options["workload"])]
    prepared = [_prepare(hunt_options, order, judging) for hunt_options in hunts]
    if out is not None:
        _check_writable(out)
    order = order[::-1] if reverse else order
    results: list[SeedResult] = []
    for hunt_options, given in zip(hunts, prepared, strict=True):
        if len(hunts) > 1:
            print(f"workload  {hunt_options['workload']}", flush=True)
        is_real = given.get("environment", "simulation") != "simulation"
        found: list[SeedResult] = []
        try:
            _run_all(found, order, given, 1 if is_real else jobs, until_found, judging)
        except KeyboardInterrupt:
            if found:
                _print_summary(found, hunt_options)
            raise HarnessError(
                f"interrupted after {len(results) + len(found)} of {len(order) * len(hunts)} seeds"
                + (f"; {out} is not written" if out is not None else "")
            ) from None
        _print_summary(found, hunt_options)
        results += found
    if out is not None:
        _write_rows(out, results)
    return _status(results)


def _workloads(text: str | None) -> list[str | None]:
    """The names that --workload gives; None is that of the campaign."""
    if text == "all":
        return [*WORKLOADS]
    return [None] if text is None else [*dict.fromkeys(text.split(","))]


def _prepare(options: dict[str, Any], order: range, judging: Judging) -> dict[str, Any]:
    """What the user has given, found to make campaigns of all these seeds. Raises BadInput."""
    try:
        given = given_options(**options)
        take_cluster(given, judging.fleet)
        use_defect(str(given.get("defect", "")))  # before anything imports the system
        for seed in (order[0], order[-1]):
            check_nodes(_campaign(seed, given, judging), judging.fleet)
    except (CampaignError, FaultError, DefectError) as error:
        raise BadInput(str(error)) from error
    return given


def _write_rows(out: Path, results: list[SeedResult]) -> None:
    """Raises HarnessError."""
    rows = sorted(results, key=lambda result: (result.workload, result.seed))
    try:
        out.write_bytes(b"".join(orjson.dumps(result.row) + b"\n" for result in rows))
    except OSError as error:
        raise HarnessError(f"--out {out} cannot be written: {error.strerror}") from error


def _check_writable(out: Path) -> None:
    """Before the work is done, not after it. Raises BadInput."""
    existed = out.exists()
    try:
        out.open("ab").close()
    except OSError as error:
        raise BadInput(f"--out {out} cannot be written: {error.strerror}") from error
    if not existed:
        out.unlink()


def _seed_range(text: str) -> range:
    first, dash, last = text.partition("-")
    try:
        low, high = int(first), int(last if dash else first)
    except ValueError as error:
        raise BadInput(f"--seeds is {text!r}; allowed: a range such as 0-99") from error
    if not 0 <= low <= high < low + SEEDS_MAX:
        raise BadInput(f"--seeds is {text!r}; allowed: FIRST-LAST with at most {SEEDS_MAX} seeds")
    return range(low, high + 1)


def _run_all(
    results: list[SeedResult],
    order: range,
    given: dict[str, Any],
    jobs: int,
    until_found: bool,
    judging: Judging,
) -> None:
    """Appends to `results` as they come."""
    started = time.monotonic()
    for result in _results(order, given, jobs, judging):
        results.append(result)
        if result.valid is not True:
            print("\n".join([f"seed {result.seed}: {result.valid}", *result.summary]), flush=True)
        if sys.stderr.isatty() or len(results) % 50 == 0:
            rate = len(results) / (time.monotonic() - started)
            print(f"{len(results)} of {len(order)} seeds, {rate:.1f} a second", file=sys.stderr)
        if until_found and result.valid is False:
            break
        if result.interrupted:
            raise KeyboardInterrupt


def _results(
    order: range, given: dict[str, Any], jobs: int, judging: Judging
) -> Iterator[SeedResult]:
    if jobs == 1:
        for seed in order:
            yield run_seed(seed, given, judging)
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(
        min(jobs, len(order)), mp_context=context, initializer=_begin_worker
    ) as pool:
        try:
            futures = [pool.submit(run_seed, seed, given, judging) for seed in order]
            for future in as_completed(futures):
                yield future.result()
        except BaseException:  # stopped early: nobody waits for the seeds under way
            for worker in multiprocessing.active_children():
                worker.kill()
            raise


def _begin_worker() -> None:
    """Signals are for the parent, which ends its workers; without a parent no worker stays."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(EXIT_HARNESS_ERROR)


def run_seed(seed: int, given: dict[str, Any], judging: Judging) -> SeedResult:
    """Never raises: whatever happens to one seed must not hide what the others found."""
    try:
        return judge_seed(seed, given, judging)
    except Exception as error:
        return SeedResult(
            seed=seed,
            workload=str(given.get("workload", "queue")),
            valid="unknown",
            digest="",
            acked=0,
            bitten=(),
            dirty_power_cut=False,
            cpu_s=0.0,
            summary=("harness error: " + "".join(traceback.format_exception(error)),),
            failed=True,
        )


def _campaign(seed: int, given: dict[str, Any], judging: Judging) -> Campaign:
    """Raises CampaignError, BadInput."""
    given = dict(given)
    choose_faults(seed, given, judging.fleet)
    return draw_campaign(seed, given)


def judge_seed(seed: int, given: dict[str, Any], judging: Judging) -> SeedResult:
    from checkers.compose import CLIENT_CHECKERS, check_run
    from harness.any_runner import runner_of
    from harness.report.console import summary_lines
    from harness.report.verdict_lines import verdict_lines

    started = time.process_time()
    campaign = _campaign(seed, given, judging)
    result = runner_of(campaign, judging.fleet)(campaign)
    verdict = result.verdict
    if judging.client_only:
        verdict = check_run(result.ops, [], result.facts, CLIENT_CHECKERS)
    cuts = [record for record in result.faults if record.evidence.get("lost_bytes", 0) > 0]
    cpu_s = time.process_time() - started
    lines = (
        () if verdict.valid is True else (*summary_lines(result, cpu_s), *verdict_lines(verdict))
    )
    return SeedResult(
        seed=seed,
        workload=campaign.workload,
        valid=verdict.valid,
        digest=result.digest,
        acked=sum(messages_in(op) for op in result.ops if op.f in SENDS and op.type == "ok"),
        bitten=tuple(dict.fromkeys(r.planned.kind for r in result.faults if r.bitten)),
        dirty_power_cut=bool(cuts),
        cpu_s=round(cpu_s, 3),
        summary=lines,
        coverage=dict(result.verdict.coverage),
        interrupted=result.interrupted,
    )


def _as_given(options: dict[str, Any]) -> str:
    """The options that describe the campaign, as one writes them."""
    words = []
    for name, given in options.items():
        if name == "broker_properties":
            words += [f"--broker-property {shlex.quote(value)}" for value in given]
        elif given is not None:
            option = name.removesuffix("_s").replace("_", "-")
            words.append(f"--{option} {shlex.quote(str(given))}")
    return "".join(f" {word}" for word in words)


def _print_summary(results: list[SeedResult], options: dict[str, Any]) -> None:
    valid = Counter(str(result.valid) for result in results)
    kinds = Counter(kind for result in results for kind in result.bitten)
    print(
        f"seeds     {len(results)}: {valid['True']} valid, {valid['False']} invalid, {valid['unknown']} unknown"
    )
    print(
        f"acked     median {median(r.acked for r in results):.0f}, least {min(r.acked for r in results)}, "
        f"all {sum(r.acked for r in results)}"
    )
    print(f"power     {sum(r.dirty_power_cut for r in results)} seeds cut power with dirty data")
    print(
        f"cpu       median {median(r.cpu_s for r in results):.2f} s a seed, all {sum(r.cpu_s for r in results):.0f} s"
    )
    print("bitten    " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    _print_coverage(results, _reaching(results, options))
    invalid = sorted(result.seed for result in results if result.valid is False)
    if invalid:
        print(f"first     staticfire run --seed {invalid[0]}{_as_given(options)}")


def _reaching(results: list[SeedResult], options: dict[str, Any]) -> str:
    """Under which name the marks of coverage say what is to be reached."""
    workload = results[0].workload
    return str(options.get("campaign") or ("default" if workload == "queue" else workload))


def _print_coverage(results: list[SeedResult], campaign: str) -> None:
    """The marks that were reached; and a warning for those that this campaign should have reached."""
    names = dict.fromkeys(name for result in results for name in result.coverage)
    counts = {name: [result.coverage.get(name, 0) for result in results] for name in names}
    reached = [f"{name} {sum(c)} in {sum(map(bool, c))}" for name, c in counts.items() if any(c)]
    print(f"reached   {len(reached)} of {len(names)} marks (how often, in how many seeds)")
    print("          " + ", ".join(reached))
    if never := missed({name: sum(count) for name, count in counts.items()}, campaign):
        print(f"warning   never reached, as {campaign} should: {', '.join(never)}")


def _status(results: list[SeedResult]) -> int:
    answers = {str(result.valid) for result in results}
    if "False" in answers:
        return EXIT_INVALID
    if any(result.failed for result in results):
        return EXIT_HARNESS_ERROR
    return EXIT_VALID if "True" in answers else EXIT_UNKNOWN
