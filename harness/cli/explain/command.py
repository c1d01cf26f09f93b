"""`staticfire explain`: explains why a recorded run failed."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from staticfire.checkers.model.history import HistoryError
from staticfire.harness.campaign.campaign import DEFAULT_SYSTEM, Campaign
from staticfire.harness.cli.completion import complete_run
from staticfire.harness.cli.effort import effort_options
from staticfire.harness.cli.options import system_option
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import EXIT_VALID, BadInput, turn_errors
from staticfire.harness.console.brief import cluster_text
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.run_folder.run_folder import CAMPAIGN_FILE, RunFolder, RunFolderError
from staticfire.harness.truncated_repr import printable, printable_json
from staticfire.harness.version import version_line

if TYPE_CHECKING:
    from staticfire.checkers.guarantees.facts import RunFacts
    from staticfire.harness.explain.explanation import Explanation, Part
    from staticfire.harness.explain.recorded_run import RecordedRun

BUDGET_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The parts of the explanation that need further simulated runs."""

    no_return: bool = False
    counterfactuals: bool = False
    code: bool = False
    draws_faults: bool = False
    fills: bool = True  # the curve, too, and not the jump alone
    budget_s: float = BUDGET_S
    jobs: int = 1

    @property
    def repeats(self) -> bool:
        return self.no_return or self.counterfactuals or self.code


@click.command(short_help="Explain why a recorded run failed.")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option(
    "--key",
    metavar="KEY",
    help="Key of the message to trace. Default: the message of the first violation.",
)
@click.option("--json", "is_json", is_flag=True, help="Print the whole explanation as JSON.")
@click.option(
    "--point-of-no-return",
    "no_return",
    is_flag=True,
    help="Find the time from which the failure was inevitable.",
)
@click.option(
    "--counterfactuals",
    is_flag=True,
    help="Repeat the run without each fault in turn, and with each fault earlier and later.",
)
@click.option(
    "--code",
    is_flag=True,
    help="Rank functions of the system by how well they separate failing runs from passing ones.",
)
@click.option(
    "--draw-faults",
    "draws_faults",
    is_flag=True,
    help="With --point-of-no-return: draw the later faults again. Default: leave them out.",
)
@effort_options(BUDGET_S, "Time for repeating the run.")
@system_option(expose=False)
def explain(
    run: Path,
    key: str | None,
    is_json: bool,
    no_return: bool,
    counterfactuals: bool,
    code: bool,
    draws_faults: bool,
    budget: float,
    jobs: int,
) -> int:
    """Explain an invalid run in folder RUN: its cause, the life of the message that shows it, and the promise
    that broke.

    The explanation uses what the run recorded: client ops, the disks of nodes at each acknowledgement, recoveries, and
    faults. It counts anomalies that follow from a loss under that loss.

    --point-of-no-return rewinds a simulated run to many moments and continues it with other random numbers. The
    failure became inevitable where the share of continuations with the same anomaly jumps to 1; with --key they
    must hit that message. --counterfactuals changes one fault of the plan at a time and names the first difference
    of the most similar run that passes. --code repeats the run with other seeds and fewer faults, and ranks functions
    of the system under test, first those that only failing runs reach. Each option may use the whole --budget.

    \b
    Example:
      staticfire explain runs/20261120-101500-queue-1
      staticfire explain runs/20261120-101500-queue-1 --key p1-100 --json
      staticfire explain runs/20261120-101500-queue-1 --point-of-no-return --budget 60
      staticfire explain runs/20261120-101500-queue-1 --code

    Exit status: 0 explained, 254 bad arguments, 255 harness error.
    """
    if draws_faults and not no_return:
        raise BadInput("--draw-faults is given; allowed: together with --point-of-no-return")
    asked = Asked(
        no_return=no_return,
        counterfactuals=counterfactuals,
        code=code,
        draws_faults=draws_faults,
        budget_s=budget,
        jobs=jobs,
    )
    explain_run(run, key, is_json, asked)
    return EXIT_VALID


def explain_run(
    run: Path, key: str | None = None, is_json: bool = False, asked: Asked | None = None
) -> None:
    """Print why the run in a folder failed. Raises BadInput."""
    from staticfire.harness.explain.copies import copies_of
    from staticfire.harness.explain.explanation import NothingToExplain, explanation_of
    from staticfire.harness.explain.node_log import node_log_of
    from staticfire.harness.explain.recorded_run import read_run
    from staticfire.harness.explain.surroundings import surroundings_of
    from staticfire.harness.run_folder.node_logs import node_lines

    folder = RunFolder(run)
    try:
        with working("reading") as progress:
            recorded = read_run(folder)
            progress.update(what="explaining")
            explanation = explanation_of(
                recorded.verdict,
                recorded.ops,
                recorded.observations,
                recorded.faults,
                recorded.facts.replica_sets,
                commands=_commands(folder),
                key=key,
                stored_logs=recorded.stored_logs,
                facts=recorded.facts,
                setting=_setting(folder, recorded.facts),
            )
            witness = explanation.witness
            around = surroundings_of(witness, recorded.ops)
            servers = recorded.facts.replica_sets.get(witness.broker or "", ())
            logged = node_log_of(witness, explanation.events, node_lines(folder.path), servers)
    except NothingToExplain as error:
        raise BadInput(f"{run} cannot be explained: {error}") from error
    except (RunFolderError, HistoryError) as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {error.strerror}") from error
    if recorded.is_torn:
        print("note      the history is torn: what came after is not in it", file=sys.stderr)
    copies = copies_of(
        witness,
        recorded.observations,
        recorded.faults,
        servers,
        recorded.stored_logs,
    )
    found = [part for part in (copies, logged, around) if part is not None]
    explanation = replace(explanation, parts=found)
    if asked is not None and asked.repeats:
        campaign = repeatable(folder)
        if asked.code and campaign.system != DEFAULT_SYSTEM:
            raise BadInput(
                f"--code ranks functions of system_under_test/, and {run} is of the system {campaign.system!r}; "
                "--counterfactuals explains runs of every system"
            )
        parts = _parts(folder, campaign, recorded, explanation, key is not None, asked)
        explanation = replace(explanation, parts=(*explanation.parts, *parts))
    if is_json:
        print(printable_json(orjson.dumps(explanation.to_json(), option=orjson.OPT_INDENT_2)))
    else:
        print("\n".join(map(printable, explanation.lines())))


def _setting(folder: RunFolder, facts: RunFacts) -> str:
    """Return the campaign of a run and the kinds of its groups in one line. Raises RunFolderError."""
    campaign = folder.read_campaign()
    texts = [f"workload {campaign.workload}, seed {campaign.seed}", cluster_text(campaign)]
    for words, groups in (("in order", facts.orderly), ("broadcasting", facts.broadcasting)):
        texts += [f"{words}: {', '.join(groups)}"] if groups else []
    return "; ".join(texts)


def repeatable(folder: RunFolder) -> Campaign:
    """Return the campaign of a simulated run, with its defect planted in this process. Raises BadInput, DefectError."""
    with turn_errors(RunFolderError, into=BadInput):
        campaign = folder.read_campaign()
        if campaign.environment != "simulation":
            raise BadInput(
                f"{folder.path} was run in the environment {campaign.environment}, and only a simulated run repeats; "
                f"`staticfire run --campaign {folder.path}/{CAMPAIGN_FILE}` does its plan again"
            )
        use_defect(campaign.defect)
    return campaign


def not_repeated(folder: RunFolder) -> BadInput:
    """Return the error for a run that another version recorded."""
    return BadInput(
        f"{folder.path} is not repeated by this version: since it was recorded, its campaign.toml or the code has "
        f"changed{folder.recorded_by()}; this is {version_line()}; "
        f"`staticfire run --campaign {folder.path}/{CAMPAIGN_FILE}` makes a run of this version"
    )


def _parts(
    folder: RunFolder,
    campaign: Campaign,
    recorded: RecordedRun,
    explanation: Explanation,
    is_of_key: bool,
    asked: Asked,
) -> Sequence[Part]:
    """Raises BadInput."""
    from staticfire.harness.explain.counterfactuals import counterfactuals_of
    from staticfire.harness.explain.reached_code import RepetitionFailed, reached_code_of
    from staticfire.harness.explain.recorded_run import NotRepeated
    from staticfire.harness.explain.rewinding import point_of_no_return

    parts: list[Part] = []
    try:
        if asked.no_return:
            with working("rewinding", unit="continuations", forks=True) as progress:
                part = point_of_no_return(
                    campaign,
                    recorded,
                    explanation.events,
                    explanation.fingerprint,
                    explanation.witness,
                    is_of_witness=is_of_key,
                    jobs=asked.jobs,
                    budget_s=asked.budget_s,
                    draws_faults=asked.draws_faults,
                    fills=asked.fills,
                    progress=progress.update,
                )
            parts.append(part)
        if asked.counterfactuals:
            with working("changing", unit="runs", forks=True) as progress:
                other = counterfactuals_of(
                    campaign,
                    recorded.ops,
                    explanation.fingerprint,
                    jobs=asked.jobs,
                    until=time.monotonic() + asked.budget_s,
                    progress=progress.update,
                )
            parts.append(other)
        if asked.code:
            with working("repeating", unit="runs", forks=True) as progress:
                code = reached_code_of(
                    campaign,
                    explanation.fingerprint,
                    jobs=asked.jobs,
                    until=time.monotonic() + asked.budget_s,
                    progress=progress.update,
                )
            parts.append(code)
    except NotRepeated as error:
        raise not_repeated(folder) from error
    except RepetitionFailed as error:
        raise BadInput(f"{folder.path} cannot be explained by code: {error}") from error
    return parts


def _commands(folder: RunFolder) -> list[str]:
    run = shlex.quote(str(folder.path))
    if folder.read_campaign().environment != "simulation":
        return [f"staticfire run --campaign {run}/{CAMPAIGN_FILE}"]
    return [f"staticfire shrink {run}", f"staticfire replay {run}"]
