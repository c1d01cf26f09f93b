"""`staticfire analyze`: verdicts over histories of any size, in this process or on Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

import click

from staticfire.checkers.model.history import HistoryError
from staticfire.harness.cli.analyze.rows import analyze_rows
from staticfire.harness.cli.completion import complete_run
from staticfire.harness.cli.extras import need_extra
from staticfire.harness.cli.outputs import Outputs, output_options, print_json
from staticfire.harness.cli.progress import Progress, working
from staticfire.harness.cli.status import BadInput, HarnessError, of_a_file, status_of_validity
from staticfire.harness.report.analysis_lines import analysis_lines
from staticfire.harness.report.junit import verdict_cases
from staticfire.harness.report.summary import verdict_json, verdict_markdown
from staticfire.harness.report.verdict_lines import WORDS
from staticfire.harness.run_folder.facts_file import doubted_verdict, facts_of_run
from staticfire.harness.run_folder.run_folder import RunFolderError
from staticfire.harness.truncated_repr import printable
from staticfire.spark_analysis.engine.engines import Engine, InProcess, OnSpark
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.engine.session import Settings, spark_session
from staticfire.spark_analysis.results.analysis import Analysis, analyse, laid_out, write_analysis
from staticfire.spark_analysis.results.stream import follow_runs
from staticfire.spark_analysis.runs.inputs import RunInput, find_runs
from staticfire.spark_analysis.runs.partitioning import memory_bound_bytes, partitioned

MB = 1 << 20


@click.command(short_help="Judge histories of any size, locally or on Spark.")
@click.argument(
    "paths",
    metavar="PATH...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    shell_complete=complete_run,
)
@click.option(
    "--engine",
    type=click.Choice(["in-process", "spark"]),
    help="Engine that runs the checkers. Default: spark with --master, else in-process.",
)
@click.option(
    "--master",
    metavar="URL",
    help="local[N], spark://HOST:PORT, yarn, k8s://..., or sc://HOST:PORT for Spark Connect.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the results. Default: PATH/analysis.",
)
@click.option(
    "--rows",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="For thousands of runs: judge each run as a whole, and write only a Parquet file with one row per run.",
)
@click.option(
    "--memory",
    "memory_mb",
    default=1024,
    metavar="MB",
    help="With Spark: memory of each JVM. Default: 1024.",
)
@click.option(
    "--spill",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for Spark's temporary files.",
)
@click.option("--packed", metavar="FILE", help="A packed Python environment for the executors.")
@click.option(
    "--follow", is_flag=True, help="Count the ops that a running campaign writes, until Ctrl-C."
)
@output_options
def analyze(
    paths: tuple[Path, ...],
    engine: str | None,
    master: str | None,
    out: Path | None,
    rows: Path | None,
    memory_mb: int,
    spill: Path | None,
    packed: str | None,
    follow: bool,
    junit: Path | None,
    is_markdown: bool,
    is_json: bool,
) -> int:
    """Judge every columnar history at or below the PATHs: runs, folders of runs, or synthetic histories.

    Raw histories are first sorted by queue. With several PATHs, each is one version: an anomaly that the previous
    version did not have is a regression, and versions.svg compares the versions. The command writes verdict.json,
    witnesses.jsonl, latency.json and latency plots.

    With --rows, the command judges each run as a whole, as `staticfire check` does, and writes one row for it: seed,
    commit, verdict, anomalies, faults, acknowledged messages, CPU time. It compares the runs of one PATH by commit. A
    folder that cannot be judged gets a row with the reason, and counts as unknown.

    \b
    Example:
      staticfire analyze runs/20261120-101500-queue-1
      staticfire analyze --master local[2] --out /tmp/analysis runs-4.9 runs-5.0
      staticfire analyze --master local[2] --rows runs.parquet runs

    Exit status: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 harness error.
    """
    outputs = Outputs(junit=junit, is_markdown=is_markdown, is_json=is_json)
    outputs.check()
    if engine == "in-process" and master is not None:
        raise BadInput("--master is for --engine spark; leave one of them out")
    if rows is not None:
        _check_rows(out, follow, master)
    settings = Settings(
        master=master or f"local[{os.cpu_count() or 1}]",
        driver_memory_mb=memory_mb,
        executor_memory_mb=memory_mb,
        spill=spill,
        environment=packed,
        excludes=rows is not None,
    )
    on_spark = engine == "spark" or master is not None or follow
    if on_spark:
        need_extra("spark", "Spark")
    try:
        if follow:
            return _follow(paths, settings)
        if rows is not None:
            return analyze_rows(paths, rows, settings if on_spark else None, outputs)
        runs = find_runs(paths, facts_of_run)
        target = out or _default_out(paths[0])
        return _analyze(runs, target, settings if on_spark else None, outputs)
    except (HistoryError, RunFolderError) as error:
        raise BadInput(str(error)) from error
    except SparkError as error:
        raise HarnessError(str(error)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise of_a_file(error, out or _default_out(paths[0])) from error


def _check_rows(out: Path | None, follow: bool, master: str | None) -> None:
    """Raises BadInput for options that --rows excludes."""
    for option, is_given in (("--out", out is not None), ("--follow", follow)):
        if is_given:
            raise BadInput(f"{option} and --rows do not go together; leave one of them out")
    if master is not None and master.startswith("sc://"):
        raise BadInput(
            f"--master is {master!r}; allowed with --rows: local[N], spark://HOST:PORT, yarn or k8s://..."
        )


def _default_out(path: Path) -> Path:
    return (path.parent if (path / "manifest.json").exists() else path) / "analysis"


def _analyze(runs: list[RunInput], out: Path, settings: Settings | None, outputs: Outputs) -> int:
    began_s = monotonic()
    start = "reading" if settings is None else "starting Spark"
    with working(start) as progress, _engine(settings, progress) as engine:
        ready = laid_out(runs, engine)
        partitions = partitioned(ready, engine)
        bound_mb = memory_bound_bytes(ready, partitions, engine.parallel) // MB
        bound_mb += settings.driver_memory_mb if settings else 0
        analysis = _doubted(analyse(ready, engine, partitions))
        progress.update(what="writing", details="")
        written = write_analysis(out, analysis)
    where = settings.master if settings else "in this process"
    header = (
        f"analysed  {len(runs)} run{'s' if len(runs) > 1 else ''}, "
        f"{sum(run.manifest.rows for run in ready):,} message events, {where}, "
        f"{monotonic() - began_s:.1f} s, memory at most about {bound_mb:,} MB"
    )
    if outputs.is_console:
        print("\n".join([header, *analysis_lines(analysis, written)]))
    _say(outputs, analysis, monotonic() - began_s)
    return status_of_validity(analysis.valid)


def _doubted(analysis: Analysis) -> Analysis:
    """Add to each verdict the reasons to doubt the run's files. Raises HistoryError, RunFolderError, OSError."""
    judged = tuple(
        replace(one, verdict=doubted_verdict(one.run.path, one.run.facts, one.verdict))
        for one in analysis.judged
    )
    return replace(analysis, judged=judged)


def _say(outputs: Outputs, analysis: Analysis, wall_s: float) -> None:
    """Write the verdict of each run in the other forms. Raises HarnessError."""
    judged = [(one.run.run_id, one.verdict) for one in analysis.judged]
    outputs.write_junit(
        "analyze", lambda: [case for name, of in judged for case in verdict_cases(of, name)], wall_s
    )
    if outputs.is_markdown:
        print("".join(verdict_markdown(name, verdict, {}, ()) for name, verdict in judged), end="")
    if outputs.is_json:
        print_json(
            {
                "title": "analyze",
                "valid": analysis.valid,
                "word": WORDS[analysis.valid],
                "exit_status": status_of_validity(analysis.valid),
                "wall_s": round(wall_s, 3),
                "runs": [{"title": name, **verdict_json(verdict)} for name, verdict in judged],
                "comparison": analysis.comparison.to_json(),
            }
        )


@contextmanager
def _engine(settings: Settings | None, progress: Progress) -> Iterator[Engine]:
    def report(what: str, done: int, total: int) -> None:
        progress.update(done, what=what, total=total)

    if settings is None:
        yield InProcess(report)
        return
    with spark_session(settings) as spark:
        yield OnSpark(spark, report)


def _follow(paths: tuple[Path, ...], settings: Settings) -> int:

    with working("starting Spark") as progress, spark_session(settings) as spark:
        progress.pause()
        follow_runs(spark, list(paths), _tell)
    return 0


def _tell(line: str) -> None:
    print(printable(line), flush=True)
