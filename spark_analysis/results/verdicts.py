"""Judges runs in columns, of any size and on any engine, with the same kernels and the same merges.

Two passes go over the partitions of all runs, which hold whole queues (`checkers/engine/engine.py`). Nothing is
shuffled, and the second pass reads only the rows of candidates of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from staticfire.checkers.engine.engine import (
    ExactPass,
    ScreeningPass,
    conclude,
    exact_pass,
    gathered,
    screening_pass,
)
from staticfire.checkers.engine.kernel import Checker, Context, Kernel
from staticfire.checkers.engine.row_selection import (
    Read,
    SelectedRows,
    select_rows,
    select_rows_again,
)
from staticfire.checkers.engine.screening import is_among
from staticfire.checkers.formats.chunks.work_units import read_unit
from staticfire.checkers.formats.columnar.manifest import Part
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.model.building.timeline_builder import TimelineBuilder
from staticfire.checkers.model.columns import Columns, Ints
from staticfire.checkers.model.timeline import Timeline
from staticfire.checkers.verdicts.compose import (
    ALL_CHECKERS,
    RunVerdict,
    asked_of,
    conclude_run,
    kernels_of,
)
from staticfire.spark_analysis.engine.engines import Engine
from staticfire.spark_analysis.runs.inputs import RunInput
from staticfire.spark_analysis.runs.observed_file import ObservedFile, observed_file
from staticfire.spark_analysis.runs.partitioning import Partition, partitioned

T = TypeVar("T")
REPLACED = "latency"  # `analysis.measure` measures it from the ops instead
CHECKERS = tuple(checker for checker in ALL_CHECKERS if checker.name != REPLACED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The data of one run that workers need."""

    history: Path
    observed: ObservedFile | None
    facts: RunFacts
    timeline: Timeline
    checkers: tuple[Checker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPass:
    """The results of the first pass over a partition: its screening, and the rows for checkers that are not kernels."""

    first: ScreeningPass
    own: ExactPass  # over the candidates of this partition
    rows: SelectedRows


def judge_runs(
    runs: Sequence[RunInput],
    engine: Engine,
    checkers: Sequence[Checker] = CHECKERS,
    partitions: Sequence[Partition] | None = None,
) -> list[RunVerdict]:
    """Judge runs whose histories are laid out by queue. Raises HistoryError, OSError, SparkError.

    `partitions` is the result of `partitioned`, if the caller has it already.
    """
    questions = [question_of(run, checkers) for run in runs]
    partitions = partitioned(runs, engine) if partitions is None else partitions
    rows = [partition.unit.rows for partition in partitions]
    passes = engine.map("first pass", partial(first_pass, questions), partitions, rows)
    firsts = [
        gathered(screened.first for screened in _of_run(passes, partitions, number))[0]
        for number in range(len(runs))
    ]
    again = [
        (partition, foreign, screened.first.candidates)
        for partition, screened in zip(partitions, passes, strict=True)
        if len(foreign := _foreign(firsts[partition.run].candidates, screened.first.candidates))
    ]
    found = engine.map(
        "second pass",
        partial(second_pass, questions),
        again,
        [partition.unit.rows for partition, _, _ in again],
    )
    strangers = {
        id(partition): second
        for (partition, _, _), second in zip(again, found, strict=True)
        if second
    }
    seconds = [
        strangers.get(id(partition), screened.own)
        for partition, screened in zip(partitions, passes, strict=True)
    ]
    read = _read(runs, questions, engine, partitions, passes)
    return [
        _concluded(
            run,
            questions[number],
            firsts[number],
            read[number],
            _of_run(seconds, partitions, number),
        )
        for number, run in enumerate(runs)
    ]


def question_of(run: RunInput, checkers: Sequence[Checker]) -> Question:
    """Read the data of a run that workers need. Raises HistoryError, OSError."""
    history = ColumnarHistory(run.history)
    builder = TimelineBuilder()
    for op in history.events():
        builder.add(op)
    builder.nodes.update(history.manifest.dictionaries.processes)
    observed = observed_file(run.observations)
    unread = "" if observed is None else observed.unread
    return Question(
        history=run.history,
        observed=observed,
        facts=replace(run.facts, torn=run.facts.torn or not history.complete, unread=unread),
        timeline=builder.timeline(),
        checkers=tuple(checkers),
    )


def first_pass(questions: Sequence[Question], partition: Partition) -> FirstPass:
    """Run the first pass over one partition. Raises HistoryError, OSError."""
    question = questions[partition.run]
    context, kernels, others = _asked(question)
    columns = read_unit(ColumnarHistory(question.history), partition.unit)
    first = screening_pass(columns, context, kernels)
    return FirstPass(
        first=first,
        own=exact_pass(columns, first.candidates, first.candidates, context, kernels),
        rows=select_rows(columns, context, others),
    )


def second_pass(
    questions: Sequence[Question], item: tuple[Partition, Ints, Ints]
) -> ExactPass | None:
    """Run the exact pass over a partition for the candidates of other partitions and for its own.

    Returns None if the partition has no candidate of others; then only the column of messages was read. Raises
    HistoryError, OSError.
    """
    partition, foreign, own = item
    question = questions[partition.run]
    history = ColumnarHistory(question.history)
    if not any(_holds(history, part, foreign) for part in partition.unit.parts):
        return None
    context, kernels, _ = _asked(question)
    columns = read_unit(history, partition.unit)
    return exact_pass(columns, np.union1d(foreign, own), own, context, kernels)


def _read(
    runs: Sequence[RunInput],
    questions: Sequence[Question],
    engine: Engine,
    partitions: Sequence[Partition],
    passes: Sequence[FirstPass],
) -> list[Read]:
    """Collect the rows of each run that checkers which are not kernels read. Some of them read twice."""
    names = [run.manifest.dictionaries.names() for run in runs]
    asked_first = [
        [screened.rows for screened in _of_run(passes, partitions, at)] for at in range(len(runs))
    ]
    read = [Read.of(of, asked) for of, asked in zip(names, asked_first, strict=True)]
    asking = [
        of.of_those_that_ask_again(_asked(question)[2])
        for question, of in zip(questions, read, strict=True)
    ]
    again = [partition for partition in partitions if asking[partition.run]]
    rows = [partition.unit.rows for partition in again]
    found = engine.map("rows again", partial(rows_again, questions, asking), again, rows)
    return [of.then(Read.of(names[at], _of_run(found, again, at))) for at, of in enumerate(read)]


def rows_again(
    questions: Sequence[Question], asking: Sequence[Mapping[str, Columns]], partition: Partition
) -> SelectedRows:
    """Return the rows of a partition for checkers that select rows again, given their rows of all partitions.

    Raises HistoryError, OSError.
    """
    question = questions[partition.run]
    context, _, others = _asked(question)
    columns = read_unit(ColumnarHistory(question.history), partition.unit)
    return select_rows_again(columns, context, others, asking[partition.run])


def _holds(history: ColumnarHistory, part: Part, messages: Ints) -> bool:
    found = history.table(part, ["message"])["message"].to_numpy()
    return bool(np.any(is_among(found, messages)))


def _foreign(candidates: Ints, own: Ints) -> Ints:
    return np.setdiff1d(candidates, own, assume_unique=True)


def _concluded(
    run: RunInput,
    question: Question,
    first: ScreeningPass,
    read: Read,
    seconds: Sequence[ExactPass],
) -> RunVerdict:
    context, kernels, _ = _asked(question)
    names = run.manifest.dictionaries.names()
    by_kernel = conclude(first, seconds, names, context, kernels)
    totals = {"sends": 0, "acked": 0, "weak": 0, "unknown": 0, "failed": 0, "deliveries": 0}
    return conclude_run(
        question.checkers,
        context,
        by_kernel,
        read.answer,
        {**totals, **first.totals},
        names,
    )


def _asked(question: Question) -> tuple[Context, list[Kernel], list[Checker]]:
    context = Context(
        facts=question.facts,
        timeline=question.timeline,
        promises=LossPromises(question.facts),
        observations=() if question.observed is None else question.observed.read(),
    )
    asked = asked_of(question.checkers, context)
    return context, kernels_of(asked), [checker for checker in asked if checker.kernel is None]


def _of_run(results: Sequence[T], partitions: Sequence[Partition], run: int) -> list[T]:
    return [
        result
        for result, partition in zip(results, partitions, strict=True)
        if partition.run == run
    ]
