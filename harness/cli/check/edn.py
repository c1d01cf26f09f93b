"""`staticfire check history.edn`: judges a history of Jepsen's workload for Kafka, whose facts are options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import click

from staticfire.checkers.formats.jepsen.judging import judge_jepsen
from staticfire.checkers.formats.jepsen.reading import ASSIGNED, GROUP
from staticfire.checkers.guarantees.facts import Flush, Replication
from staticfire.checkers.model.gc_pause import collector_paused
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.cli.history.reading import say
from staticfire.harness.cli.status import BadInput
from staticfire.harness.histories.sources import EDN, EdnSource

Command = TypeVar("Command", bound=Callable[..., Any])
FACTS = ("flush", "replication", "groups")


def edn_options(command: Command) -> Command:
    """Add the options for facts that a history of Jepsen lacks."""
    options = (
        click.option(
            "--flush",
            type=click.Choice(get_args(Flush)),
            help="For an .edn history: the brokers' flush mode.  [default: sync]",
        ),
        click.option(
            "--replication",
            type=click.Choice(get_args(Replication)),
            help="For an .edn history: the brokers' replication mode.  [default: none]",
        ),
        click.option(
            "--groups",
            multiple=True,
            type=click.Choice((GROUP, ASSIGNED)),
            help="For an .edn history: a group that must get every message, as RocketMQ requires of a group.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def is_edn(run: Path) -> bool:
    return run.suffix == EDN


def refuse_facts(
    run: Path, flush: str | None, replication: str | None, groups: Sequence[str]
) -> None:
    """Raise BadInput for options whose facts a run folder has."""
    for name, given in zip(FACTS, (flush, replication, groups), strict=True):
        if given:
            raise BadInput(f"--{name} is for .edn histories; {run} has its own facts")


def judge_edn(
    path: Path,
    mode: str | None,
    flush: str | None,
    replication: str | None,
    groups: Sequence[str],
) -> RunVerdict:
    """Raises BadInput, HistoryError, OSError."""
    if mode is not None:
        raise BadInput(f"--mode {mode} is for runs of RocketMQ; {path} has no mode")
    source = EdnSource(path, transactions=True)
    with collector_paused():
        ops = list(source.ops())
        verdict = judge_jepsen(
            ops,
            flush=cast(Flush, flush or "sync"),
            replication=cast(Replication, replication or "none"),
            groups=groups,
            torn=source.torn,
        )
    say(source.notes())
    return verdict
