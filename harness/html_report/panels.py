"""Makes the panels of a report from a recorded run: all content of the page, as plain values and drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.model.columns import UNKNOWN, Names
from staticfire.checkers.model.history import HistoryError
from staticfire.harness.html_report.activity import (
    Activity,
    Measured,
    Slices,
    measured_series,
    slices_until,
)
from staticfire.harness.html_report.blast_radius import Cut, count_cut_messages, cuts_of
from staticfire.harness.html_report.charts import (
    Series,
    copies_chart,
    count_chart,
    duration_chart,
    rate_chart,
)
from staticfire.harness.html_report.commands import commands_of
from staticfire.harness.html_report.copies import Copies, copies_of
from staticfire.harness.html_report.issue import issue_text
from staticfire.harness.html_report.lanes import Lanes, lanes_of
from staticfire.harness.html_report.log_bytes import Acknowledged, LogBytes, log_bytes, place_of
from staticfire.harness.html_report.order_view import order_view
from staticfire.harness.html_report.recorded_run import RecordedRun
from staticfire.harness.html_report.svg import Band, TimeScale
from staticfire.harness.html_report.timeline import FaultLife, fault_lives, timeline
from staticfire.harness.html_report.witnesses import (
    Witness,
    choose_witnesses,
    find_lives,
    slowest_witness,
)
from staticfire.harness.recording.stored_logs import StoredLogs
from staticfire.harness.report.causes import Cause, causes_of
from staticfire.harness.report.quantities import duration
from staticfire.harness.systems.registry import system_of

FINDINGS_MAX = 200
FAULTS_MAX = 200
ROWS_MAX = 40  # queues in a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One witness on the page. `same_position`: number of an earlier witness that already has the same order view."""

    number: int
    finding: Finding
    lanes: Lanes
    copies: Copies | None
    copies_svg: str
    log: LogBytes | None
    order_svg: str
    order_is_cut: bool  # the drawing shows only the nearest rows
    same_position: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing over time. `legend` has (style, name) of each series; `note` says what the drawing omits."""

    title: str
    svg: str
    legend: Sequence[tuple[int, str]]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """All content of the page."""

    run: RecordedRun
    causes: Sequence[Cause]
    witness_of: Mapping[int, int]  # index of a cause -> index of its life
    broken: Sequence[Verdict]
    unknown: Sequence[Verdict]
    kept: Sequence[Verdict]
    timeline: str
    charts: Sequence[Chart]
    values: Mapping[str, Any]  # values that the script shows for a time
    lives: Sequence[Life]
    life_of_key: Mapping[tuple[str, str | None], int]
    findings: Sequence[Finding]
    findings_left_out: int
    faults: Sequence[FaultLife]
    faults_left_out: int
    cuts: Sequence[tuple[Cut, str]]  # each cut with its queues as text
    unseen: Sequence[tuple[str, str, int]]  # group, queue, number of messages
    commands: Sequence[tuple[str, str]]
    issue: str


def panels_of(run: RecordedRun) -> Panels:
    """Read the history once, and make the panels. Raises HistoryError, OSError."""
    names = run.history.names
    end_s = max(run.run_s, run.history.end_ns() / 1e9)
    slices, scale = slices_until(end_s), TimeScale(end_s)
    activity = Activity(names, run.facts, slices)
    brokers = run.facts.replica_sets
    cuts = cuts_of(run.observations.records, brokers)
    witnesses = choose_witnesses(run.verdict, names)
    logs = [place_of(witness.finding) for witness in witnesses]
    for events in run.history.queues():
        for log in logs:
            if log is not None:
                log.take(events, names)
        activity.add(events)
        count_cut_messages(cuts, names, events)
        for witness in witnesses:
            witness.take(events)
    if not witnesses:
        witnesses = _example(run, activity)
    faults = fault_lives(_fault_records(run), _up_s(run))
    bands = [band for life in faults if (band := life.band(end_s)) is not None]
    try:
        stored_logs = None if run.campaign is None else system_of(run.campaign).stored_logs
        find_lives(
            witnesses, run.history, run.observations.records, run.faults, brokers, stored_logs
        )
        lives = _lives(run, witnesses, logs, bands, stored_logs)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise HistoryError(
            f"the observations of {run.path} are not those of a run: {error!r:.100}"
        ) from error
    life_of_key = {
        (life.finding.anomaly, life.finding.key): life.number for life in reversed(lives)
    }
    causes = causes_of(run.verdict)
    commands = commands_of(run.path, run.campaign, run.verdict.valid)
    measured = _measured(run, slices)
    charts = _charts(activity, measured, scale, bands)
    findings = run.verdict.findings()
    verdicts = run.verdict.verdicts
    return Panels(
        run=run,
        causes=causes,
        witness_of={
            number: life_of_key[cause.witness.anomaly, cause.witness.key]
            for number, cause in enumerate(causes)
            if (cause.witness.anomaly, cause.witness.key) in life_of_key
        },
        broken=[of for of in verdicts if of.valid is False],
        unknown=[of for of in verdicts if of.valid == "unknown"],
        kept=[of for of in verdicts if of.valid is True],
        timeline=timeline(faults, _phases(run, end_s), scale),
        charts=charts,
        values=_values(activity, measured, slices),
        lives=lives,
        life_of_key=life_of_key,
        findings=findings[:FINDINGS_MAX],
        findings_left_out=max(len(findings) - FINDINGS_MAX, 0),
        faults=faults,
        faults_left_out=max(len(run.faults or run.facts.faults) - FAULTS_MAX, 0),
        cuts=[
            (cut, _queues_text(cut.queues, names)) for cut in cuts if cut.messages or cut.cut_bytes
        ],
        unseen=_unseen_rows(activity, names),
        commands=commands,
        issue=issue_text(
            run, witnesses[0].events if witnesses else (), [line for _, line in commands]
        ),
    )


def _example(run: RecordedRun, activity: Activity) -> list[Witness]:
    """Return the message that waited longest, for a run without findings."""
    lag_ns, message, queue = activity.slowest
    if queue == UNKNOWN:
        return []
    names = run.history.names
    witness = slowest_witness(names, message, queue, lag_ns, 0)
    for events in run.history.queues():
        witness.take(events)
    sends = [rows for _, rows, are_sends in witness.touching if are_sends]
    offsets = [int(rows["queue_offset"][0]) for rows in sends if len(rows)]
    times = [int(rows["time_ns"][0]) for rows in sends if len(rows)]
    if not times:
        return [witness]
    found = slowest_witness(names, message, queue, lag_ns, times[0], offsets[0])
    for events in run.history.queues():
        found.take(events)
    return [found]


def _up_s(run: RecordedRun) -> float:
    up_s = run.document.get("up_s")
    return float(up_s) if isinstance(up_s, int | float) and 0 <= up_s < 1e9 else 0.0


def _phases(run: RecordedRun, end_s: float) -> dict[str, float]:
    up_s = _up_s(run)
    phases = {"cluster is up": up_s} if up_s else {}
    if run.campaign is not None and up_s + run.campaign.load_s < end_s:
        phases["load ends"] = up_s + run.campaign.load_s
    return {**phases, "end": end_s}


def _fault_records(run: RecordedRun) -> list[Mapping[str, object]]:
    """Return the records of faults.jsonl, or for a synthetic history those among its facts."""
    if run.faults or run.campaign is not None:
        return list(run.faults)[:FAULTS_MAX]
    return [
        {
            "id": fault.fault_id,
            "kind": fault.kind,
            "targets": list(fault.targets),
            "fired_ns": fault.fired_ns,
            "struck_ns": fault.bitten_ns,
            "healed_ns": fault.healed_ns,
            "bitten": fault.bitten_ns is not None,
            "evidence": {},
            "error": fault.error,
        }
        for fault in run.facts.faults[:FAULTS_MAX]
    ]


def _lives(
    run: RecordedRun,
    witnesses: Sequence[Witness],
    logs: Sequence[Acknowledged | None],
    bands: Sequence[Band],
    stored_logs: StoredLogs | None,
) -> list[Life]:
    roles, names = _roles(run), run.history.names
    observed = run.observations.records
    first_lives: dict[tuple[object, ...], int] = {}
    lives = []
    for number, (witness, log) in enumerate(zip_longest(witnesses, logs)):
        finding = witness.finding
        queue_position = (finding.topic, finding.broker, finding.queue, finding.queue_offset)
        order = "" if queue_position in first_lives else order_view(witness, names, bands) or ""
        nodes = run.facts.replica_sets.get(finding.broker or "", ())
        copies = copies_of(finding, observed, run.faults, nodes)
        lives.append(
            Life(
                number=number,
                finding=finding,
                lanes=lanes_of(witness.events, roles),
                copies=copies,
                copies_svg="" if copies is None else copies_chart(copies),
                log=log_bytes(
                    run.path, finding, log, names, nodes, observed, run.faults, stored_logs
                ),
                order_svg=order,
                order_is_cut=witness.order_is_cut,
                same_position=first_lives.get(queue_position),
            )
        )
        if order:
            first_lives[queue_position] = number
    return lives


def _roles(run: RecordedRun) -> dict[str, int]:
    """Return the rank of each node, in the order in which a message passes them."""
    facts = run.facts
    servers = [node for nodes in facts.replica_sets.values() for node in nodes]
    ordered = [*facts.producers, *servers, *facts.coordinators, *facts.consumers]
    return {node: rank for rank, node in enumerate(dict.fromkeys(ordered))}


def _measured(run: RecordedRun, slices: Slices) -> list[Measured]:
    """Return the measured durations in the report's slices. Raises HistoryError."""
    for verdict in run.verdict.verdicts:
        if verdict.checker == "latency":
            try:
                return measured_series(verdict.series.get("seconds", ()), slices)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise HistoryError(
                    f"the latencies in the verdict of {run.path} are damaged: {error!r:.100}"
                ) from error
    return []


def _charts(
    activity: Activity,
    measured: Sequence[Measured],
    scale: TimeScale,
    bands: Sequence[Band],
) -> list[Chart]:
    slices = activity.slices
    groups = activity.main_groups()
    sends = [
        Series(name, style, values.tolist())
        for style, (name, values) in enumerate(activity.sends.items())
    ]
    given = [
        Series(group, style, activity.deliveries[group].tolist())
        for style, group in enumerate(groups)
        if group in activity.deliveries
    ]
    unseen = [
        Series(group, style, activity.unseen[group].over_time())
        for style, group in enumerate(groups)
        if group in activity.unseen
    ]
    latency = [
        Series(f"{name} of sends", style, values)
        for one in measured
        if one.name == "send"
        for style, (name, values) in enumerate(
            (("median", one.p50), ("99th percentile", one.p99), ("maximum", one.longest))
        )
    ]
    shown = {f"lag {group}": style for style, group in enumerate(groups)}
    lag = [
        Series(f"{one.name.removeprefix('lag ')}, 99th percentile", shown[one.name], one.p99)
        for one in measured
        if one.name in shown
    ]
    others = len({*activity.deliveries, *activity.unseen}) - len(groups)
    few = f"{others} smaller groups are left out." if others else ""
    return [
        _chart("Sends a second, by how they ended", rate_chart, sends, slices, scale, bands),
        _chart("Deliveries a second", rate_chart, given, slices, scale, bands, few),
        _chart(
            "Latency of acknowledged sends",
            duration_chart,
            latency,
            slices,
            scale,
            bands,
            "Logarithmic; a second without an acknowledgement has no line.",
        ),
        _chart(
            "Unseen messages: acknowledged, and not yet given to the group",
            count_chart,
            unseen,
            slices,
            scale,
            bands,
            f"Groups that want only some tags are left out. {few}".strip(),
        ),
        _chart(
            "Send-to-delivery lag",
            duration_chart,
            lag,
            slices,
            scale,
            bands,
            "From the acknowledgement to the first listener, by the time of the acknowledgement; logarithmic. "
            + few,
        ),
    ]


def _chart(
    title: str,
    draw: Any,
    series: Sequence[Series],
    slices: Slices,
    scale: TimeScale,
    bands: Sequence[Band],
    note: str = "",
) -> Chart:
    if draw is not count_chart:  # which keeps a line of zeros: nothing was undelivered
        series = [one for one in series if any(value > 0 for value in one.values)]
    if not series:
        return Chart(title=title, svg="", legend=(), note="Nothing of this was recorded.")
    label = f"{title}: {', '.join(one.name for one in series)}"
    drawing = draw(label, series, slices, scale, bands)
    return Chart(
        title=title,
        svg=drawing,
        legend=[(one.style, one.name) for one in series],
        note=note,
    )


def _values(activity: Activity, measured: Sequence[Measured], slices: Slices) -> dict[str, object]:
    """Return the numbers of the charts, for the script."""
    groups = activity.main_groups()
    rows: list[tuple[str, str, list[int]]] = [
        (f"sends {name}", "count", values.tolist())
        for name, values in activity.sends.items()
        if values.any()
    ]
    rows += [
        (f"deliveries to {group}", "count", activity.deliveries[group].tolist())
        for group in groups
        if group in activity.deliveries
    ]
    rows += [
        (f"unseen by {group}", "count", activity.unseen[group].over_time())
        for group in groups
        if group in activity.unseen
    ]
    lags = {f"lag {group}" for group in groups}
    rows += [
        (f"{one.name}, 99th percentile", "us", list(one.p99))
        for one in measured
        if one.name == "send" or one.name in lags
    ]
    return {
        "slice_s": slices.length_s,
        "rows": [{"name": name, "unit": unit, "values": values} for name, unit, values in rows],
    }


def _unseen_rows(activity: Activity, names: Names) -> list[tuple[str, str, int]]:
    rows = [
        (group, _queue_text(queue, names), count)
        for group, unseen in activity.unseen.items()
        for queue, count in unseen.left.items()
    ]
    return sorted(rows, key=lambda row: (-row[2], row))[:ROWS_MAX]


def _queue_text(queue: int, names: Names) -> str:
    of = names.logs[queue]
    return " ".join(filter(None, [of.topic, of.home, f"queue {of.partition}"]))


def _queues_text(queues: Mapping[int, int], names: Names) -> str:
    rows = sorted(queues.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{_queue_text(queue, names)}: {count}" for queue, count in rows[:4])
    return f"{shown}, and {len(rows) - 4} more queues" if len(rows) > 4 else shown


def figures_of(run: RecordedRun) -> list[tuple[str, str]]:
    """Return percentiles of the latency in the whole run, with units."""
    for verdict in run.verdict.verdicts:
        if verdict.checker == "latency":
            return [
                (name.removesuffix("_us").replace("_", " "), duration(value))
                for name, value in verdict.counts.items()
                if name.endswith("_us")
            ]
    return []
