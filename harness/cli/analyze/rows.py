"""`staticfire analyze --rows`: writes a row a run as Parquet, and a summary in the requested forms."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from staticfire.harness.cli.analyze.run_rows import RunRow
from staticfire.harness.cli.analyze.survey import (
    comparison_of,
    folders_of,
    judged,
    validity_of,
    with_versions,
)
from staticfire.harness.cli.outputs import Outputs, print_json
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import BadInput, HarnessError, of_a_file, status_of_validity
from staticfire.harness.report.analysis_lines import comparison_lines, wrapped
from staticfire.harness.report.junit import Case, outcome_of
from staticfire.harness.report.summary import SCHEMA_VERSION, escaped
from staticfire.harness.report.verdict_lines import WORDS
from staticfire.harness.truncated_repr import printable
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.engine.session import Settings
from staticfire.spark_analysis.results.compare import Comparison
from staticfire.spark_analysis.results.run_rows import to_parquet

LINES_MAX = 25
FAILED_MAX = 5  # sentences printed; the file has all


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The rows of an analysis so far, in the order of versions."""

    planned: int
    rows: Sequence[RunRow]
    wall_s: float

    @property
    def failed(self) -> list[RunRow]:
        return [row for row in self.rows if row.failed]

    @property
    def counts(self) -> dict[str, int]:
        failed = len(self.failed)
        return {
            "planned": self.planned,
            "done": len(self.rows) - failed,
            "failed": failed,
            "not_run": self.planned - len(self.rows),
        }


def analyze_rows(
    paths: Sequence[Path], file: Path, settings: Settings | None, outputs: Outputs
) -> int:
    """Judge every run below the paths, and write a row for each; returns the exit status.

    Raises BadInput; HarnessError when it ends early, once the rows so far are written.
    """
    started_s = time.monotonic()
    rows: list[RunRow] = []
    ended = ""
    with working("looking", unit="runs") as progress, _written_at_end(file) as new:
        found = folders_of(paths)
        try:
            rows.extend(judged(list(found), settings, progress))  # keeps those before an exception
        except KeyboardInterrupt:
            ended = "interrupted"
        except SparkError as error:
            ended = str(error)
        ordered = with_versions(rows, found)
        new.write_bytes(to_parquet([row.columns for row in ordered]))
    survey = Survey(planned=len(found), rows=ordered, wall_s=time.monotonic() - started_s)
    _say(survey, file, outputs)
    if ended:
        counts = survey.counts
        raise HarnessError(
            f"{ended}: {counts['not_run']} of {counts['planned']} runs are not judged; "
            f"the rows of the others are in {file}"
        )
    return status_of_validity(validity_of(survey.rows))


@contextmanager
def _written_at_end(file: Path) -> Iterator[Path]:
    """Yield a temporary file beside the target, which it replaces at the end.

    Raises BadInput before the work, HarnessError after it.
    """
    new = file.with_name(file.name + ".new")
    try:
        new.touch()
    except OSError as error:
        raise BadInput(f"--rows {file} cannot be written: {error.strerror}") from error
    try:
        yield new
        new.replace(file)
    except OSError as error:
        raise of_a_file(error, file) from error
    finally:
        new.unlink(missing_ok=True)


def _say(survey: Survey, file: Path, outputs: Outputs) -> None:
    """Raises HarnessError."""
    comparison = comparison_of(survey.rows)
    outputs.write_junit("analyze", lambda: [_case(row) for row in survey.rows], survey.wall_s)
    if outputs.is_console:
        print("\n".join(map(printable, _lines(survey, comparison, file))))
    if outputs.is_markdown:
        print("\n".join(_markdown(survey, comparison)))
    if outputs.is_json:
        valid = validity_of(survey.rows)
        print_json(
            {
                "title": "analyze",
                "schema_version": SCHEMA_VERSION,
                "valid": valid,
                "word": WORDS[valid],
                "exit_status": status_of_validity(valid),
                "wall_s": round(survey.wall_s, 3),
                "runs": survey.counts,
                "failures": [row.reason for row in survey.failed],
                "comparison": comparison.to_json(),
                "rows": str(file),
            }
        )


def _lines(survey: Survey, comparison: Comparison, file: Path) -> list[str]:
    """At most LINES_MAX."""
    done = [row for row in survey.rows if not row.failed]
    words = Counter(WORDS[row.valid].lower() for row in done)
    answers = ", ".join(f"{words[word.lower()]} {word.lower()}" for word in WORDS.values())
    cpu_s = sum(row.cpu_s for row in survey.rows)
    lines = [
        f"verdict   {WORDS[validity_of(survey.rows)]}",
        f"runs      {len(done)}: {answers}; {cpu_s:.1f} CPU s, {survey.wall_s:.1f} s",
    ]
    failed = survey.failed
    lines += [f"failed    {row.reason}" for row in failed[:FAILED_MAX]]
    if len(failed) > FAILED_MAX:
        lines.append(f"failed    {len(failed) - FAILED_MAX} more; column reason of {file} has them")
    lines += comparison_lines(comparison)
    end = [_planned(survey), f"written   {file}"]
    whole = [part for line in lines for part in wrapped(line)]
    return [*whole[: LINES_MAX - len(end)], *end]


def _planned(survey: Survey) -> str:
    counts = survey.counts
    return (
        f"planned   {counts['planned']}: {counts['done']} done, {counts['failed']} failed, "
        f"{counts['not_run']} not run"
    )


def _case(row: RunRow) -> Case:
    return Case(
        classname=row.version or "no version",
        name=row.run,
        outcome="error" if row.failed else outcome_of(row.valid),
        message=row.reason or row.cause,
        text="\n".join(row.summary),
    )


def _markdown(survey: Survey, comparison: Comparison) -> list[str]:
    """Return the verdict, each failure, and anomalies by version and by fault."""
    lines = [f"## analyze: {WORDS[validity_of(survey.rows)]}", "", f"{_planned(survey)[10:]}."]
    lines += [f"- {escaped(row.reason)}" for row in survey.failed]
    for of in comparison.regressions:
        line = f"regression {of.anomaly}: in {of.runs} runs of {of.after}, in none of {of.before}"
        lines.append(f"- {escaped(line)}")
    versions = {name: f"{name} ({runs})" for name, runs in comparison.runs.items()}
    lines += _table("version (runs)", versions, comparison.by_label)
    faults = sorted({kind for runs in comparison.by_fault.values() for kind in runs})
    lines += _table("fault", {kind: kind for kind in faults}, comparison.by_fault)
    return lines


def _table(
    corner: str, columns: Mapping[str, str], rows: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Return a table of runs with each anomaly; empty if there is none."""
    if not rows:
        return []
    head = [f"anomaly by {corner}", *map(escaped, columns.values())]
    cells = [
        [escaped(name), *(str(runs.get(key, 0)) for key in columns)] for name, runs in rows.items()
    ]
    return ["", *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells))]
