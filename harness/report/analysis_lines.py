"""An analysis on the console: at most 24 lines after the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap

from staticfire.harness.report.verdict_lines import WIDTH, WORDS, verdict_lines
from staticfire.harness.truncated_repr import printable
from staticfire.spark_analysis.results.analysis import Analysis, Judged
from staticfire.spark_analysis.results.compare import Comparison
from staticfire.spark_analysis.results.latency import Slice

LINES_MAX = 24
RUNS_MAX = 8
US_PER_MS = 1000


def analysis_lines(analysis: Analysis, written: Sequence[Path]) -> list[str]:
    """Return the lines of an analysis: the verdict first, the written files last."""
    end = [f"written   {written[0].parent}: {', '.join(path.name for path in written[:4])}"]
    if len(analysis.judged) == 1:
        end = [*_latency_lines(analysis.judged[0]), *end]
        lines = verdict_lines(analysis.judged[0].verdict)
    else:
        lines = _many_lines(analysis)
    whole = [part for line in lines for part in wrapped(line)]
    return list(map(printable, [*whole[: LINES_MAX - len(end)], *end]))


def comparison_lines(comparison: Comparison) -> list[str]:
    """Return versions, regressions, and each anomaly by version and by fault."""
    lines = [
        f"  {label}: {runs} runs, {comparison.invalid[label]} invalid"
        for label, runs in comparison.runs.items()
    ]
    lines += [
        f"regression {of.anomaly}: in {of.runs} runs of {of.after}, in none of {of.before}"
        for of in comparison.regressions
    ]
    for anomaly, faults in comparison.by_fault.items():
        if len(comparison.runs) > 1:
            lines.append(f"  {anomaly}: runs by version: {_counted(comparison.by_label[anomaly])}")
        lines.append(f"  {anomaly}: runs by fault: {_counted(faults)}")
    return lines


def _counted(runs: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {times}" for name, times in runs.items())


def wrapped(line: str) -> list[str]:
    """Wrap the lines to a common width, so that no witness is cut off."""
    if len(line) <= WIDTH:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    return wrap(
        line,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _latency_lines(judged: Judged) -> list[str]:
    lines = []
    for f in ("send", "consume"):
        slices = [at for at in judged.slices if at.f == f]
        if served := [at for at in slices if at.ok]:
            worst = max(served, key=lambda at: (at.p99_us or 0, -at.at_s))
            lines.append(
                f"{f:<9} {sum(at.ok for at in slices):,} ok, {sum(at.not_ok for at in slices):,} not; "
                f"p50 {_median(served)}, worst p99 {_ms(worst.p99_us)} at {worst.at_s} s"
            )
    if judged.gaps:
        longest = max(judged.gaps, key=lambda gap: gap[1] - gap[0])
        lines.append(
            f"gaps      {len(judged.gaps)} in which no send was acknowledged, the longest from "
            f"{longest[0]} to {longest[1]} s"
        )
    return lines


def _median(slices: Sequence[Slice]) -> str:
    """Return the median of the medians of all slices."""
    medians = sorted(at.p50_us or 0 for at in slices)
    return _ms(medians[len(medians) // 2])


def _ms(latency_us: int | None) -> str:
    return f"{(latency_us or 0) / US_PER_MS:.3f} ms"


def _many_lines(analysis: Analysis) -> list[str]:
    comparison = analysis.comparison
    lines = [f"verdict   {WORDS[analysis.valid]}"]
    caveats = Counter(caveat for judged in analysis.judged for caveat in judged.verdict.caveats)
    lines += [f"  note: {runs} runs: {caveat}" for caveat, runs in caveats.items()]
    lines += comparison_lines(comparison)
    invalid = [judged for judged in analysis.judged if judged.verdict.valid is not True]
    for judged in invalid[:RUNS_MAX]:
        names = ", ".join(
            verdict.checker for verdict in judged.verdict.verdicts if verdict.valid is not True
        )
        word = WORDS[judged.verdict.valid]
        lines.append(f"  {judged.run.run_id}: {word} ({names or judged.verdict.below_floors[0]})")
    return lines
