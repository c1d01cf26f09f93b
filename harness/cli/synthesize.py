"""`staticfire synthesize`: writes a history of any size with planted anomalies, and the expected findings."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from staticfire.checkers.model.history import HistoryError
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import BadInput, of_a_file
from staticfire.spark_analysis.synthesis.synthesize import MODES, TRUTH_FILE, synthesize
from staticfire.spark_analysis.synthesis.workload_profile import ShapeError, WorkloadProfile

HELP = {
    "ops": "Number of sends and listener calls.",
    "seed": "The same seed and options give the same bytes.",
    "topics": "Number of topics.",
    "brokers": "Number of brokers.",
    "groups": "Number of consumer groups.",
    "producers": "Number of producers.",
    "queues": "Number of queues over all topics and brokers.",
    "skew": "The queue of rank r gets a share of the messages proportional to 1 / r^SKEW. 0: equal shares.",
    "fan_out": "Number of groups that read each topic.",
    "batch": "Number of messages in each listener call.",
    "consumers": "Number of members of each group.",
    "first_offset": "First offset of every queue, as after long use.",
    "outages": "Number of broker kills, each with failed sends.",
    "plant": "Number of planted anomalies of each kind.",
    "semantics": "1: also plant anomalies of tags, delays, retries, transactions and groups. 0: only the core set.",
    "rows_a_chunk": "Number of ops generated at a time. A larger number needs more memory.",
}


def _shape_options(command: Any) -> Any:
    for field in reversed(fields(WorkloadProfile)):
        name = "--" + field.name.replace("_", "-")
        kind: type = float if field.name == "skew" else int
        help_text = f"{HELP.get(field.name, '')} Default: {field.default}.".strip()
        command = click.option(name, field.name, type=kind, default=field.default, help=help_text)(
            command
        )
    return command


@click.command(
    name="synthesize", short_help="Generate a history of any size with planted anomalies."
)
@click.argument("folder", type=click.Path(path_type=Path))
@_shape_options
@click.option(
    "--layout",
    type=click.Choice(MODES),
    default="per-queue",
    show_default=True,
    help="Columns sorted into one folder per queue, raw (not sorted by queue), or both.",
)
def synthesize_command(folder: Path, layout: str, **options: Any) -> int:
    """Write a history into FOLDER, with facts.json, and truth.json: the findings that `staticfire analyze` must make.

    \b
    Example:
      staticfire synthesize /tmp/h10 --ops 10000000
      staticfire analyze /tmp/h10

    Exit status: 0 done, 254 bad arguments, 255 harness error.
    """
    try:
        shape = WorkloadProfile(**options)
        with working("making", total=shape.sends, unit="sends") as progress:
            truth = synthesize(folder, shape, layout=layout, report=progress.update)
    except (ShapeError, HistoryError) as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise of_a_file(error, folder) from error
    counts = ", ".join(f"{count:,} {name}" for name, count in truth["counts"].items())
    print(f"{folder}: {counts}; {len(truth['findings'])} anomalies planted, see {TRUTH_FILE}")
    return 0
