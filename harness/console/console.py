"""A run on the console. The short form has the verdict first, then few lines. The verbose form has the campaign with
its plan, at most 25 lines of results and the diagnoses. Both end with the command that repeats the run."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap

from staticfire.checkers.guarantees.verdict import seconds
from staticfire.checkers.model.message_ranges import messages_in
from staticfire.checkers.op_kinds.catalogue import DELIVERIES, SENDS
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.console.brief import (
    Brief,
    brief_lines,
    campaign_title,
    checkers_line,
    cluster_line,
    counts_line,
    faults_line,
    latency_line,
)
from staticfire.harness.console.external_lines import external_lines
from staticfire.harness.console.terminal import width, wrapped
from staticfire.harness.diagnoses.catalogue import diagnose
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.report.verdict_lines import WIDTH, explanations, verdict_lines
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.run_folder.run_folder import CAMPAIGN_FILE
from staticfire.harness.truncated_repr import printable

LINES_MAX = 25
REACHED_LINES_MAX = 3
EXITS_MAX = 2
NO_MACHINES = MachineOptions()


def print_campaign(campaign: Campaign, addresses: Sequence[str] = ()) -> None:
    """Print the campaign. `addresses` are those of the name servers of an external cluster."""
    print("\n".join(campaign_lines(campaign, addresses)), flush=True)


def print_announcement(campaign: Campaign, addresses: Sequence[str] = ()) -> None:
    """Print a line before a real run; for an external cluster, print all that the run will make and break there."""
    if campaign.is_external:
        print_campaign(campaign, addresses)
    elif campaign.environment != "simulation":
        print(printable(f"run       {_title(campaign)}"), flush=True)


def print_missing(missing: Mapping[str, str]) -> None:
    """Print the kinds of fault that cannot be carried out here, with one line a reason."""
    kinds: dict[str, list[str]] = {}
    for kind, reason in missing.items():
        kinds.setdefault(reason, []).append(kind)
    for reason, names in kinds.items():
        text = f"not here  {', '.join(names)}: {reason}"
        print(
            "\n".join(wrapped(text, width())),
            flush=True,
        )


def campaign_lines(campaign: Campaign, addresses: Sequence[str] = ()) -> list[str]:
    c = campaign
    lines = [
        f"seed {c.seed}  workload {c.workload}  {c.load_s:g} {seconds_of(c)}"
        + (f"  environment {c.environment}" if c.environment != "simulation" else "")
        + (f"  target {c.target}" if c.target != "own" else "")
        + (f"  client {c.client}" if c.client != "own" else "")
        + _mode_text(c)
        + (f"  DEFECT {c.defect}" if c.defect else ""),
        *(external_lines(c, addresses) if c.is_external else _own_lines(c)),
        f"plan      {len(c.plan)} faults",
    ]
    return lines + [_planned_line(planned) for planned in c.plan]


def _own_lines(campaign: Campaign) -> list[str]:
    c = campaign
    low, high = c.payload_bytes
    return [
        f"cluster   {c.coordinators} name servers, {c.leaders} masters with {list(c.followers)} slaves, "
        f"{c.flush} flush, {c.replication} replication, log files of {c.log_file_bytes} bytes",
        f"load      {c.producers} producers, think {c.think_ms:g} ms, {low}-{high} bytes, "
        f"{c.consumers} consumers, {c.queues} queues a broker, latency {c.latency_ms[0]:g}-{c.latency_ms[1]:g} ms",
        *_property_lines(c),
    ]


def _mode_text(campaign: Campaign) -> str:
    if campaign.mode == "hardened":
        return "" if campaign.target == "own" else "  judged in HARDENED mode"
    only = f" ({', '.join(campaign.policies)})" if campaign.policies else ""
    return f"  {campaign.mode.upper()} mode{only}"


def seconds_of(campaign: Campaign) -> str:
    """Return the unit of the run's clock: virtual or real seconds."""
    return "virtual s" if campaign.environment == "simulation" else "s"


def _property_lines(campaign: Campaign) -> list[str]:
    lines = []
    for node, properties in (
        ("broker", campaign.broker_properties),
        ("namesrv", campaign.coordinator_properties),
    ):
        if properties:
            text = " ".join(f"{name}={value}" for name, value in properties)
            lines += wrap(f"{node:<10}{text}", WIDTH, subsequent_indent=" " * 10)
    return lines


def _planned_line(planned: PlannedFault) -> str:
    targets = ",".join(planned.targets)
    return f"  {planned.at_s:7.3f}s  {planned.kind:<22} {planned.duration_s:6.3f}s  {targets}"[
        :WIDTH
    ]


def print_result(
    result: RunResult,
    folder: Path,
    cpu_s: float | None,
    provider: MachineOptions = NO_MACHINES,
    *,
    report: Path | None = None,
    is_verbose: bool = True,
) -> None:
    """Print a result. `provider` is not part of a campaign, so the command that repeats the run must name it. `report`
    is the page of the run."""
    commands = [
        *([f"report    {report}"] if report is not None else []),
        *_failure_lines(result, folder),
        _repeat_line(result, folder, provider),
    ]
    lines = _verbose_lines if is_verbose else _brief_lines
    print("\n".join(lines(result, cpu_s, commands)))


def _verbose_lines(result: RunResult, cpu_s: float | None, commands: Sequence[str]) -> list[str]:
    summary, verdict = summary_lines(result, cpu_s), verdict_lines(result.verdict)
    verdict = verdict[: LINES_MAX - len(summary) - len(commands)]
    return list(map(printable, [*summary, *diagnosis_lines(result), *verdict, *commands]))


def _brief_lines(result: RunResult, cpu_s: float | None, commands: Sequence[str]) -> list[str]:
    campaign = result.campaign
    cpu = "" if cpu_s is None else f", {cpu_s:.1f} CPU s"
    exits = [
        f"exit      {ended.node} at {seconds(ended.time_ns)}: {ended.error}"
        for ended in result.facts.exits[:EXITS_MAX]
    ]
    brief = Brief(
        title=_title(campaign),
        head=[cluster_line(campaign)],
        tail=[
            counts_line(result.verdict),
            *latency_line(result.verdict),
            faults_line(*_kinds(result.faults)),
            *exits,
            checkers_line(result.verdict),
            f"time      up after {result.up_s:.1f}, end after {result.run_s:.1f} {seconds_of(campaign)}{cpu}",
        ],
        commands=commands,
        diagnoses=[*explanations(result.verdict), *diagnose(result)],
    )
    return brief_lines(result.verdict, brief)


def _title(campaign: Campaign) -> str:
    return campaign_title(campaign, seconds_of(campaign), _mode_text(campaign))


def summary_lines(result: RunResult, cpu_s: float | None) -> list[str]:
    sends: Counter[str] = Counter()
    consumed = 0
    for op in result.ops:
        if op.f in SENDS:
            sends[op.type] += messages_in(op)
        elif op.f in DELIVERIES and op.type == "ok":
            consumed += messages_in(op)
    acked, unclear, refused = sends["ok"], sends["info"], sends["fail"]
    cpu = f"  {cpu_s:.2f} CPU s" if cpu_s is not None else ""
    return [
        f"sends     {acked} acknowledged, {unclear} unclear, {refused} refused; {consumed} deliveries  "
        f"up after {result.up_s:.1f}, end after {result.run_s:.1f} {seconds_of(result.campaign)}{cpu}",
        *wrap(
            _faults_line(result.faults), WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False
        ),
        *_reached_lines(result.verdict.coverage),
        *[
            f"exit      {ended.node} at {seconds(ended.time_ns)}: {ended.error}"[:WIDTH]
            for ended in result.facts.exits[:3]
        ],
    ]


def _reached_lines(coverage: Mapping[str, int]) -> list[str]:
    """Return the coverage marks that the run reached, the rarest last; verdict.json has all."""
    reached = [f"{name} {count}" for name, count in coverage.items() if count]
    text = f"reached   {len(reached)} of {len(coverage)} marks: {', '.join(reached)}"
    return wrap(
        text,
        WIDTH,
        subsequent_indent=" " * 10,
        break_on_hyphens=False,
        max_lines=REACHED_LINES_MAX,
        placeholder=" ...",
    )


def diagnosis_lines(result: RunResult) -> list[str]:
    """Return the diagnoses of well-known situations that the run shows."""
    return [
        line
        for text in diagnose(result)
        for line in wrap(
            f"diagnosis {text}", WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False
        )
    ]


def _faults_line(records: list[FaultRecord]) -> str:
    bitten, missed, spared = _kinds(records)
    line = f"faults    {len(bitten)} kinds proven: {', '.join(bitten)}"
    line += f"; never bit: {', '.join(missed)}" if missed else ""
    return line + (f"; never fired: {', '.join(spared)}" if spared else "")


def _kinds(records: list[FaultRecord]) -> tuple[list[str], list[str], list[str]]:
    """Return the kinds of fault that bit, those that fired without a bite, and those that never fired."""
    bitten = list(dict.fromkeys(record.planned.kind for record in records if record.bitten))
    idle = [record for record in records if record.planned.kind not in bitten]
    missed = list(
        dict.fromkeys(record.planned.kind for record in idle if record.fired_ns is not None)
    )
    unfired = dict.fromkeys(record.planned.kind for record in idle)
    return bitten, missed, [kind for kind in unfired if kind not in missed]


def _failure_lines(result: RunResult, folder: Path) -> list[str]:
    """Return the commands that explain and shrink a failure; only a simulated run repeats."""
    if result.verdict.valid is not False:
        return []
    more = [str(folder), *_system_words(result)]
    names = ("explain", "shrink") if result.campaign.environment == "simulation" else ("explain",)
    return [f"{name:<10}{shlex.join(['staticfire', name, *more])}" for name in names]


def _repeat_line(result: RunResult, folder: Path, provider: MachineOptions) -> str:
    if result.campaign.environment != "simulation":
        target = result.campaign.target
        words = ["staticfire", "run", "--campaign", str(folder / CAMPAIGN_FILE)]
        words += ["--target", target] if target == "apache" else []
        return f"repeat    {shlex.join([*words, *_system_words(result), *provider.words()])}"
    words = ["staticfire", "replay", str(folder), *_system_words(result)]
    return f"repeat    {shlex.join(words)}    digest {result.digest[:16]}"


def _system_words(result: RunResult) -> list[str]:
    """Return the words that name the system, since a module is imported only if the command line names it."""
    system = result.campaign.system
    return ["--system", system] if ":" in system else []
