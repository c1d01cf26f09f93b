"""Writes histories of any size with injected anomalies, in bounded memory, reproducible from one seed.

The result is a folder like that of a run: `history.parquet/` (by queue), or `raw.parquet/` (the same rows in the order
of time), or both; `facts.json`, the facts that a campaign would have; `truth.json`, the findings to expect.

Anomalies of sends, deliveries and commits are injected into chunks of any size (`injections.py`). Semantic anomalies
are written as scenarios between chunks (`injected_scenarios.py`, `injected_gaps.py`, `injected_observations.py`). Each
kind that a checker can find is injected as often as the profile says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from staticfire.checkers.formats.columnar.checksums import FILES, with_checksums
from staticfire.checkers.formats.columnar.manifest import Dictionaries
from staticfire.checkers.formats.columnar.schema import FOLDER, MANIFEST
from staticfire.checkers.formats.columnar.writer import ColumnarWriter
from staticfire.checkers.guarantees.facts import FaultFacts, MinimumEvidence, RunFacts, Timings
from staticfire.checkers.model.columns import LogKey
from staticfire.checkers.model.history import NEMESIS, Op, OpType, encode_op
from staticfire.spark_analysis.runs.inputs import FACTS_FILE, OBSERVATIONS_FILE
from staticfire.spark_analysis.runs.raw import RAW_FOLDER, RawWriter
from staticfire.spark_analysis.synthesis.injected_gaps import GAP_MAX_S, SEND_S
from staticfire.spark_analysis.synthesis.injected_scenarios import (
    CHECK_AFTER_S,
    CHECK_MAX,
    LADDER_MS,
)
from staticfire.spark_analysis.synthesis.injections import INJECTIONS, Injected, inject
from staticfire.spark_analysis.synthesis.scenario import WALL_EPOCH_MS, Reported
from staticfire.spark_analysis.synthesis.scenario_sets import ScenarioSets
from staticfire.spark_analysis.synthesis.synthetic_rows import (
    consumer_of,
    group_of,
    make_chunk,
    truth_of,
)
from staticfire.spark_analysis.synthesis.synthetic_slots import (
    OUTAGE_NS,
    Progress,
    Slots,
    make_slots,
)
from staticfire.spark_analysis.synthesis.workload_profile import (
    BATCH_WAITS_S,
    NS_PER_S,
    WorkloadProfile,
)

TRUTH_FILE = "truth.json"
RETENTION_S = 72 * 3600.0
HELD_ROWS = 1 << 21
MODES = ("per-queue", "raw", "both")


def synthesize(
    folder: Path,
    profile: WorkloadProfile,
    *,
    layout: str = "per-queue",
    report: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Write a history with this profile into `folder`; return its truth.

    Args:
        layout: one of MODES.
        report: takes the number of sends so far.

    Raises OSError, and HistoryError if the folder already has a history.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return _Synthesis(folder, profile, layout, report).run()


class _Synthesis:
    def __init__(
        self,
        folder: Path,
        profile: WorkloadProfile,
        layout: str,
        report: Callable[[int], None] | None,
    ) -> None:
        self._folder, self._profile, self._report = folder, profile, report
        run_id = f"synthetic-{profile.ops}-{profile.seed}"
        self._queued = (
            None
            if layout == "raw"
            else ColumnarWriter(folder / FOLDER, run_id, held_rows=HELD_ROWS)
        )
        self._raw = None if layout == "per-queue" else RawWriter(folder / RAW_FOLDER, run_id)
        self._progress = Progress(
            next_ns=NS_PER_S,
            next_index=0,
            next_offset=np.full(profile.queues, profile.first_offset),
            sent=0,
            physical=profile.first_offset,
            calm_from_ns=0,
            committed=np.full((profile.fan_out, profile.queues), profile.first_offset),
        )
        self._faults: list[FaultFacts] = []
        self._expected: list[dict[str, object]] = []
        self._names = dictionaries(profile)
        sets = profile.plant if profile.semantics else 0
        self._scenarios = ScenarioSets(names=self._names, sets=sets, event=self._add_event)
        self._counts = {"sends": 0, "deliveries": 0, "message_events": 0, "ops": 0}

    def run(self) -> dict[str, Any]:
        self._begin()
        outages = np.linspace(
            0, self._profile.chunks, self._profile.outages, endpoint=False
        ).astype(int)
        kinds = self._kinds()
        sets = self._scenarios.sets
        for number in range(self._profile.chunks):
            for of in range(sets):
                if of * self._profile.chunks // sets == number:
                    self._write_scenarios(of)
            slots = make_slots(
                self._profile, self._progress, number, outage=number in set(outages.tolist())
            )
            due = kinds[number :: self._profile.chunks]
            self._expected += [
                self._truth(found) for found in inject(slots, self._profile, due, number)
            ]
            if len(slots.unstored_ns):
                self._expect_outage(slots)
            chunk = make_chunk(self._profile, slots, self._progress)
            self._expected += [self._truth(found) for found in chunk.expected]
            self._write(chunk.message_events, chunk.ops)
            if self._report is not None:
                self._report(self._progress.sent)
        self._end()
        return self._finish()

    def _kinds(self) -> list[str]:
        """Return the kinds to inject, which are spread evenly over the chunks."""
        return [kind for _ in range(self._profile.plant) for kind in INJECTIONS]

    def _truth(self, injected: Injected) -> dict[str, object]:
        return truth_of(self._profile, self._names.queues[injected.queue], injected)

    def _write_scenarios(self, number: int) -> None:
        progress, scenarios = self._progress, self._scenarios
        begin_ns = max(progress.next_ns, progress.calm_from_ns)
        expected = scenarios.expect(number, progress.next_index, begin_ns)
        self._write(expected.message_events, expected.ops)
        progress.next_index, progress.next_ns = expected.next_index, expected.end_ns

    def _write(self, message_events: pa.Table, ops: pa.Table) -> None:
        if self._raw is not None:
            self._raw.add(message_events)
            self._raw.add_ops(ops)
        if self._queued is not None:
            self._queued.add_table(message_events)
            self._queued.add_ops(ops)
        kind = message_events["kind"].to_numpy()
        sends, deliveries, _ = np.bincount(kind, minlength=3).tolist()
        self._counts["sends"] += sends
        self._counts["deliveries"] += deliveries
        self._counts["message_events"] += len(kind)
        self._counts["ops"] += len(ops)

    def _add_event(self, line: bytes) -> None:
        for writer in (self._raw, self._queued):
            if writer is not None:
                writer.add_event(line)

    def _event(
        self, f: str, process: int, type_: OpType, value: dict[str, Any], node: str | None = None
    ) -> int:
        """Write an op without a message; return its index."""
        progress = self._progress
        op = Op(
            index=progress.next_index,
            time_ns=progress.next_ns,
            process=process,
            type=type_,
            f=f,
            value=value,
            node=node,
        )
        progress.next_index += 1
        self._add_event(encode_op(op))
        return op.index

    def _begin(self) -> None:
        """Open the clients, and assign queues to the consumers."""
        profile = self._profile
        for process in range(profile.producers):
            self._event("open", process, "ok", {}, f"producer-{process}")
        for (group, topic), by_owner in self._ownership().items():
            for owner, queues in by_owner.items():
                assigned = [
                    [self._names.queues[q].home, self._names.queues[q].partition] for q in queues
                ]
                value = {"group": group, "topic": topic, "queues": assigned}
                self._event("assign", owner, "ok", value)
        self._progress.next_ns += NS_PER_S

    def _ownership(self) -> dict[tuple[str, str], dict[int, list[int]]]:
        """Return (group, topic) -> process -> queues."""
        profile = self._profile
        queues = np.arange(profile.queues)
        owned: dict[tuple[str, str], dict[int, list[int]]] = {}
        for branch in range(profile.fan_out):
            owners = consumer_of(profile, queues, branch).tolist()
            groups = group_of(profile, queues, branch).tolist()
            for queue, owner, group in zip(queues.tolist(), owners, groups, strict=True):
                pair = (f"group-{group}", self._names.queues[queue].topic)
                owned.setdefault(pair, {}).setdefault(owner, []).append(queue)
        return owned

    def _expect_outage(self, slots: Slots) -> None:
        """Kill a broker during the time in which sends fail. Its ops come before all others of the chunk."""
        number = len(self._faults)
        node = f"broker-{number % self._profile.brokers}"
        self._event("start_kill", NEMESIS, "info", {"targets": [node]})
        self._event("stop_kill", NEMESIS, "info", {"targets": [node]})
        self._faults.append(
            FaultFacts(
                fault_id=f"kill-{number}",
                kind="kill",
                targets=(node,),
                fired_ns=slots.begin_ns,
                bitten_ns=slots.begin_ns,
                healed_ns=slots.begin_ns + OUTAGE_NS,
            )
        )

    def _end(self) -> None:
        """Probe the brokers and drain the groups."""
        for number in range(self._profile.brokers):
            self._event("probe", 0, "ok", {"broker": f"broker-{number}"})
        # For two queues the drain reports impossible offsets: one beyond the end, one behind.
        strange = {0: 5, 1: -1} if self._profile.plant and self._profile.queues > 1 else {}
        for (group, topic), by_owner in self._ownership().items():
            ends = []
            for queue in sorted(q for queues in by_owner.values() for q in queues):
                end = int(self._progress.next_offset[queue])
                wrong = strange.pop(queue, 0) if end > self._profile.first_offset + 1 else 0
                broker, number = self._names.queues[queue][1:]
                ends.append([broker, number, self._profile.first_offset, end, end + wrong])
                if wrong:
                    anomaly = "commit_beyond_end" if wrong > 0 else "commit_behind"
                    expected = {
                        "anomaly": anomaly,
                        "explained": False,
                        "group": group,
                        "topic": topic,
                    }
                    position = {"broker": broker, "queue": number, "queue_offset": end + wrong}
                    self._expected.append({**expected, **position})
            value = {"group": group, "topic": topic, "queues": ends, "lag": 0}
            self._event("drain", min(by_owner), "ok", value)

    def _finish(self) -> dict[str, Any]:
        for writer in (self._raw, self._queued):
            if writer is not None:
                writer.finish(self._scenarios.dictionaries(), self._progress.next_index)
        facts = self._facts()
        truth = {
            "shape": asdict(self._profile),
            "counts": self._counts,
            "findings": [*self._expected, *map(_without_nothing, self._scenarios.expected)],
        }
        self._write_observations()
        document = with_checksums(
            facts.to_json(), self._folder, (*FILES, f"{RAW_FOLDER}/{MANIFEST}")
        )
        (self._folder / FACTS_FILE).write_bytes(orjson.dumps(document))
        (self._folder / TRUTH_FILE).write_bytes(orjson.dumps(truth, option=orjson.OPT_INDENT_2))
        return truth

    def _write_observations(self) -> None:
        seen = sorted(self._scenarios.observations, key=lambda of: int(of["time_ns"]))
        lines = [orjson.dumps(of, option=orjson.OPT_APPEND_NEWLINE) for of in seen]
        (self._folder / OBSERVATIONS_FILE).write_bytes(b"".join(lines))

    def _facts(self) -> RunFacts:
        scenarios = self._scenarios
        brokers = {f"broker-{n}": (f"broker-{n}",) for n in range(self._profile.brokers)}
        groups: dict[str, tuple[str, ...]] = {}
        for group, topic in sorted(self._ownership()):
            groups[group] = (*groups.get(group, ()), topic)
        faults = sorted((*self._faults, *scenarios.faults), key=lambda fault: fault.fired_ns or 0)
        semantics: dict[str, Any] = {
            "delay_levels_ms": LADDER_MS,
            "check_after_s": CHECK_AFTER_S,
            "check_max": CHECK_MAX,
            "gap_max_s": GAP_MAX_S,
            **scenarios.facts,
            "replica_sets": {**brokers, **scenarios.facts.get("replica_sets", {})},
        }
        plain: dict[str, Any] = {"replica_sets": brokers}
        return RunFacts(
            # The scenario log_hole needs a profile under which brokers may lose a tail.
            flush="async" if scenarios.sets else "sync",
            replication="none",
            groups={**groups, **scenarios.groups},
            topics=tuple(scenarios.dictionaries().topics),
            faults=tuple(faults),
            exits=tuple(scenarios.exits),
            reserved_s=RETENTION_S,
            timings=Timings(poll_s=BATCH_WAITS_S, send_s=SEND_S),
            floors=MinimumEvidence(),
            # Only scenarios have observations.
            wall_epoch_ms=WALL_EPOCH_MS if scenarios.sets else None,
            disks_observed=bool(scenarios.sets),
            files_observed=bool(scenarios.sets),
            routes_observed=bool(scenarios.sets),
            topic_routes_observed=bool(scenarios.sets),
            route_changes_observed=bool(scenarios.sets),
            tables_observed=bool(scenarios.sets),
            resources_observed=bool(scenarios.sets),
            errors_observed=bool(scenarios.sets),
            **(semantics if scenarios.sets else plain),
        )


def _without_nothing(expected: Reported) -> dict[str, object]:
    return {name: value for name, value in asdict(expected).items() if value is not None}


def dictionaries(profile: WorkloadProfile) -> Dictionaries:
    topics = [f"topic-{n}" for n in range(profile.topics)]
    columns = (profile.topic_of_queue(), profile.broker_of_queue(), profile.number_of_queue())
    queues = [
        LogKey(topics[topic], f"broker-{broker}", number)
        for topic, broker, number in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return Dictionaries(
        topics=topics,
        groups=[f"group-{n}" for n in range(profile.groups)],
        queues=queues,
        processes={n: f"producer-{n}" for n in range(profile.producers)},
    )
