"""`staticfire explain`: why a recorded run failed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from staticfire.harness.cli.options import system_option
from staticfire.harness.cli.status import EXIT_VALID, BadInput
from staticfire.harness.run_folder.run_folder import VERDICT_FILE, RunFolder, RunFolderError
from staticfire.harness.truncated_repr import printable

if TYPE_CHECKING:
    from staticfire.checkers.verdicts.compose import RunVerdict

FAULT_FIELDS = {"kind", "targets", "bitten", "struck_ns", "healed_ns", "evidence"}


@click.command(short_help="Say why a recorded run failed.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--key", metavar="KEY", help="Of the message whose life is shown. Default: the first."
)
@click.option("--json", "is_json", is_flag=True, help="Print the whole explanation as JSON.")
@system_option(expose=False)
def explain(run: Path, key: str | None, is_json: bool) -> int:
    """Explain an invalid run in folder RUN: its cause, the life of the message that shows it, and the promise
    that broke.

    Everything was recorded: ops of clients, what the nodes had on disk when they acknowledged, what they recovered,
    and the faults that struck them meanwhile. Anomalies that follow from a loss are counted under it.

    \b
    Example:
      staticfire explain runs/20261120-101500-queue-1
      staticfire explain runs/20261120-101500-queue-1 --key p1-100 --json

    Exit status: 0 explained, 254 bad arguments, 255 harness error.
    """
    explain_run(run, key, is_json)
    return EXIT_VALID


def explain_run(run: Path, key: str | None = None, is_json: bool = False) -> None:
    """Print why the run in a folder failed. Raises BadInput."""
    from staticfire.checkers.model.history import HistoryError, read_history, read_observations
    from staticfire.harness.explain.explanation import NothingToExplain, explanation_of
    from staticfire.harness.run_folder.facts_file import facts_of_run

    folder = RunFolder(run)
    try:
        folder.verify()
        verdict = _verdict(folder)
        history = read_history(folder.history)
        explanation = explanation_of(
            verdict,
            history.ops,
            read_observations(folder.observations).records,
            _faults(run / "faults.jsonl"),
            facts_of_run(run).brokers,
            commands=_commands(folder),
            key=key,
        )
    except NothingToExplain as error:
        raise BadInput(f"{run} cannot be explained: {error}") from error
    except (RunFolderError, HistoryError) as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {error.strerror}") from error
    if history.torn:
        print("note      the history is torn: what came after is not in it", file=sys.stderr)
    if is_json:
        print(orjson.dumps(explanation.to_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(map(printable, explanation.lines())))


def _verdict(folder: RunFolder) -> RunVerdict:
    """Raises RunFolderError."""
    from staticfire.checkers.verdicts.compose import RunVerdict

    try:
        return RunVerdict.from_json(folder.read_verdict()["verdict"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(f"{folder.path / VERDICT_FILE} holds no verdict: {error}") from error


def _commands(folder: RunFolder) -> list[str]:
    run = shlex.quote(str(folder.path))
    if folder.read_campaign().environment != "simulation":
        return [f"staticfire run --campaign {run}/campaign.toml"]
    return [f"staticfire shrink {run}", f"staticfire replay {run}"]


def _faults(path: Path) -> list[dict[str, Any]]:
    """Raises RunFolderError."""
    if not path.exists():
        return []
    faults = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            fault = orjson.loads(line)
        except ValueError as error:
            raise RunFolderError(f"{path}: line {number} is no JSON: {error}") from error
        if not isinstance(fault, dict) or not fault.keys() >= FAULT_FIELDS:
            raise RunFolderError(f"{path}: line {number} is no fault")
        faults.append(fault)
    return faults
