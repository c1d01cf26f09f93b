"""A whole analysis: lays runs out if necessary, judges, measures and compares them, and writes the files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from staticfire.checkers.formats.columnar.manifest import Part
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.schema import FOLDER
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.guarantees.verdict import Validity, combine
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.spark_analysis.engine.engines import Engine
from staticfire.spark_analysis.results.compare import Comparison, compare, compared
from staticfire.spark_analysis.results.latency import (
    COLUMNS,
    SLICES_MAX,
    Histogram,
    Slice,
    gaps_of,
    merged,
    slices_of,
    tally,
)
from staticfire.spark_analysis.results.plot import can_plot, plot_latency, plot_versions
from staticfire.spark_analysis.results.verdicts import judge_runs
from staticfire.spark_analysis.runs.inputs import RunInput
from staticfire.spark_analysis.runs.layout import lay_out
from staticfire.spark_analysis.runs.partitioning import Partition

VERDICT_FILE, WITNESS_FILE, LATENCY_FILE = "verdict.json", "witnesses.jsonl", "latency.json"
VERSIONS_FILE = "versions.svg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One run with its verdict and its latency."""

    run: RunInput
    verdict: RunVerdict
    slices: tuple[Slice, ...]
    slice_s: int

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Intervals (from, until), in seconds, without an acknowledged send."""
        return gaps_of(self.slices, self.slice_s)

    def to_json(self) -> dict[str, object]:
        return {
            "run_id": self.run.run_id,
            "label": self.run.label,
            "complete": self.run.manifest.complete,
            "verdict": self.verdict.to_json(),
            "gaps_s": [list(gap) for gap in self.gaps],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """All judged runs, and their comparison."""

    judged: tuple[Judged, ...]
    comparison: Comparison

    @property
    def valid(self) -> Validity:
        return combine(judged.verdict.valid for judged in self.judged)

    def to_json(self) -> dict[str, object]:
        return {
            "valid": self.valid,
            "runs": [judged.to_json() for judged in self.judged],
            "comparison": self.comparison.to_json(),
        }


def laid_out(runs: Iterable[RunInput], engine: Engine) -> list[RunInput]:
    """Return the runs with histories by queue. Lays raw histories out beside the raw files, which keeps them for later.

    Raises HistoryError, OSError, SparkError.
    """
    return [_laid_out(run, engine) if run.raw else run for run in runs]


def _laid_out(run: RunInput, engine: Engine) -> RunInput:
    target = run.history.parent / FOLDER
    manifest = lay_out(run.history, target, engine)
    return replace(run, history=target, raw=False, manifest=manifest)


def analyse(
    runs: Sequence[RunInput], engine: Engine, partitions: Sequence[Partition] | None = None
) -> Analysis:
    """Judge and measure runs whose histories are laid out. Raises HistoryError, OSError, SparkError."""
    verdicts = judge_runs(runs, engine, partitions=partitions)
    measured = measure(runs, engine)
    judged = tuple(
        Judged(
            run=run, verdict=verdict, slices=tuple(slices_of(histogram)), slice_s=histogram.slice_s
        )
        for run, verdict, histogram in zip(runs, verdicts, measured, strict=True)
    )
    comparison = compare([compared(one.run.label, one.verdict, one.run.facts) for one in judged])
    return Analysis(judged=judged, comparison=comparison)


def measure(runs: Sequence[RunInput], engine: Engine) -> list[Histogram]:
    """Measure the latency of each run from its ops in the order of time. Raises HistoryError, OSError, SparkError."""
    slice_s = [slice_length_s(run) for run in runs]
    items = [
        (number, run.history, part, slice_s[number])
        for number, run in enumerate(runs)
        for part in run.manifest.op_parts
    ]
    found = engine.map("latency", tally_part, items, [part.rows for _, _, part, _ in items])
    return [
        merged((of for of, item in zip(found, items, strict=True) if item[0] == number), length)
        for number, length in enumerate(slice_s)
    ]


def slice_length_s(run: RunInput) -> int:
    """Return whole seconds such that the run has at most SLICES_MAX slices. Raises HistoryError, OSError."""
    parts = run.manifest.op_parts
    if not parts:
        return 1
    last = max(parts, key=lambda part: part.last)
    times = ColumnarHistory(run.history).op_table(last, ["time_ns"])["time_ns"].to_numpy()
    end_s = int(times.max()) // NS_PER_S + 1 if len(times) else 1
    return max(1, -(-end_s // SLICES_MAX))


def tally_part(item: tuple[int, Path, Part, int]) -> Histogram:
    """Count one part of a history. Raises HistoryError, OSError."""
    _, history, part, slice_s = item
    return tally(ColumnarHistory(history).op_table(part, COLUMNS), slice_s)


def write_analysis(folder: Path, analysis: Analysis) -> list[Path]:
    """Write verdict.json, witnesses.jsonl, latency.json, a plot of each run, and of versions if there are several.

    Returns the paths of the written files. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / name for name in (VERDICT_FILE, WITNESS_FILE, LATENCY_FILE)]
    written[0].write_bytes(
        orjson.dumps(analysis.to_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
    )
    written[1].write_bytes(b"".join(_witness_lines(analysis)))
    written[2].write_bytes(orjson.dumps([_latency_json(judged) for judged in analysis.judged]))
    if can_plot():
        for number, judged in enumerate(analysis.judged):
            name = "latency.svg" if len(analysis.judged) == 1 else f"latency-{number}.svg"
            plot_latency(folder / name, judged.slices, judged.run.facts, judged.run.run_id)
            written.append(folder / name)
        if len(analysis.comparison.runs) > 1:
            slices: dict[str, list[Slice]] = {}
            for judged in analysis.judged:
                slices.setdefault(judged.run.label, []).extend(judged.slices)
            plot_versions(folder / VERSIONS_FILE, analysis.comparison, slices)
            written.append(folder / VERSIONS_FILE)
    return written


def _witness_lines(analysis: Analysis) -> Iterable[bytes]:
    for judged in analysis.judged:
        for finding in judged.verdict.findings():
            line = {"run_id": judged.run.run_id, **finding.to_json()}
            yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _latency_json(judged: Judged) -> dict[str, object]:
    return {
        "run_id": judged.run.run_id,
        "slice_s": judged.slice_s,
        "slices": [at.to_json() for at in judged.slices],
    }
