"""The engine: judging whole queues in partitions gives the same verdict as judging all at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.engine.engine import ScreeningPass, judge_partitions, screening_pass
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.guarantees.verdict import Tally
from staticfire.checkers.log.order import ORDER
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import CORE, KERNELS
from tests.checkers.test_against_reference import CUT, GROUPS, STEADY, histories
from tests.support.history_language import facts
from tests.support.planted_histories import PLANTS, planted_history

TWO_BROKERS: dict[str, Any] = {"groups": GROUPS, "replica_sets": {"b": ("n0",), "c": ("n1",)}}
ALL_FACTS = [
    facts(**TWO_BROKERS),
    facts(**TWO_BROKERS, flush="async", faults=(CUT,)),
    facts(**TWO_BROKERS, reserved_s=0.005),
    facts(**{**TWO_BROKERS, "groups": {"g": ("t", "u")}}),
    facts(**{**TWO_BROKERS, "groups": {}}),
]
FACTS = st.sampled_from(ALL_FACTS)
OTHER_FACTS = [
    ALL_FACTS[0],
    facts(**TWO_BROKERS, wanted_tags={"g": ("x",)}),
    facts(**TWO_BROKERS, broadcasting=("h",)),
]


def verdicts_at_once(columns: Columns, context: Context) -> dict[str, Any]:
    return {kernel.name: kernel.check(columns, context).to_json() for kernel in KERNELS}


def verdicts_in_chunks(columns: Columns, context: Context, chunks: int) -> dict[str, Any]:
    """In `chunks` partitions of neighbouring queues."""
    reads: list[Callable[[], Columns]] = [
        partial(_queues, columns, first, chunks) for first in range(chunks)
    ]
    verdicts, _ = judge_partitions(reads, columns.names, context, KERNELS)
    return {name: verdict.to_json() for name, verdict in verdicts.items()}


def _queues(columns: Columns, chunk: int, chunks: int) -> Columns:
    width = -(-(len(columns.names.logs) + 1) // chunks)
    low, high = chunk * width - 1, (chunk + 1) * width - 1
    rows = {
        name: getattr(columns, name).where(
            (getattr(columns, name).log >= low) & (getattr(columns, name).log < high)
        )
        for name in ("sends", "deliveries", "commits")
    }
    return Columns(names=columns.names, **rows)


def context_of(ops: list[Op], known: RunFacts) -> tuple[Columns, Context]:
    columns, timeline = build_columns(ops)
    promises = LossPromises(known)
    return columns, Context(facts=known, timeline=timeline, promises=promises)


@pytest.mark.slow
@pytest.mark.parametrize("chunks", [1, 3, 20])
@STEADY
@given(ops=histories(), known=FACTS)
def test_any_partitions_give_the_verdict_of_all_at_once(
    chunks: int, ops: list[Op], known: RunFacts
) -> None:
    columns, context = context_of(ops, known)

    assert verdicts_in_chunks(columns, context, chunks) == verdicts_at_once(columns, context)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("HISTORIES", "150"))))
def test_planted_anomalies_are_found_in_any_partitions(seed: int) -> None:
    """Ninety of a hundred messages are cleared here; HISTORIES=5000 tries more."""
    random = Random(seed)
    plants = [random.choice(list(PLANTS)) for _ in range(random.choice([1, 1, 1, 2, 3]))]
    known = random.choice([*ALL_FACTS, *OTHER_FACTS])
    columns, context = context_of(planted_history(seed, plants), known)
    once = verdicts_at_once(columns, context)

    for chunks in (1, 2, 7):
        assert verdicts_in_chunks(columns, context, chunks) == once, (plants, chunks)


def test_a_good_history_clears_every_message() -> None:
    columns, context = context_of(planted_history(1, []), ALL_FACTS[0])

    look = screening_pass(columns, context, CORE)

    assert list(look.candidates) == []
    assert look.tallies["loss"].counts["delivered"] == len(columns.sends) == 30


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "anomaly"),
    [
        ("lost", "lost"),
        ("unseen", "unseen"),
        ("not_finished", "unseen"),
        ("given_again", "duplicate_unexplained"),
        ("phantom", "phantom"),
        ("aborted", "aborted_read"),
        ("corrupt", "corrupt"),
        ("unreadable", "corrupt"),
        ("misrouted", "misrouted"),
        ("copied", "duplicate_unexplained"),
        ("another_there", "inconsistent_offsets"),
        ("sent_late", "realtime_order"),
        ("given_late", "out_of_order"),
        ("given_late", "poll_skip"),
        ("shuffled", "int_nonmonotonic_poll"),
        ("committed_wrong", "commit_ahead"),
    ],
)
def test_what_is_planted_is_found(plant: str, anomaly: str) -> None:
    """In some history, since not every draw can hold it; and nowhere without the plant."""
    found = set()
    for seed in range(12):
        columns, context = context_of(planted_history(seed, [plant]), ALL_FACTS[0])
        verdicts, _ = judge_partitions([lambda c=columns: c], columns.names, context, CORE)  # type: ignore[misc]
        found |= {name for verdict in verdicts.values() for name in verdict.counts}

    assert anomaly in found


def _with(columns: Columns, rows: str, name: str, value: int) -> Columns:
    """The same with one value changed, as no builder would make it."""
    events = getattr(columns, rows)
    values = getattr(events, name).copy()
    values[len(values) // 2] = value
    names = replace(columns.names, tags=["y"])
    return replace(columns, names=names, cache={}, **{rows: replace(events, **{name: values})})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "name", "value"),
    [
        ("sends", "topic", 1),
        ("deliveries", "topic", 1),
        ("deliveries", "message", -1),
        ("deliveries", "queue_offset", -1),
        ("deliveries", "queue_offset", 2**62),
        ("sends", "queue_offset", 2**62),
        ("sends", "queue_offset", -1),
        ("sends", "message", 10**12),
        ("sends", "process", 10**12),
        ("deliveries", "invoke_index", 0),
        ("sends", "invoke_index", 2**62),
        ("sends", "transaction", 2),
        ("sends", "due_ns", 10**18),
        ("sends", "tag", 0),
        ("deliveries", "outcome", 2),
    ],
)
@pytest.mark.parametrize("known", OTHER_FACTS)
def test_columns_that_hardly_any_history_has(
    rows: str, name: str, value: int, known: RunFacts
) -> None:
    columns, context = context_of(planted_history(5, ["cut_short"]), known)
    columns = _with(columns, rows, name, value)

    assert verdicts_in_chunks(columns, context, 1) == verdicts_at_once(columns, context)


def test_a_message_sent_twice_is_a_suspect() -> None:
    columns, context = context_of(planted_history(5, []), ALL_FACTS[0])
    message = int(columns.sends.message[0])

    look = screening_pass(_with(columns, "sends", "message", message), context, CORE)

    assert message in look.candidates


def test_a_kernel_that_raises_is_unknown_and_hides_no_other_verdict() -> None:
    def fail(_columns: Columns, _context: Context) -> Tally:
        raise ZeroDivisionError("by zero")

    columns, context = context_of(planted_history(3, ["lost"]), ALL_FACTS[0])
    kernels = [replace(kernel, partial=fail) if kernel is ORDER else kernel for kernel in CORE]

    verdicts, _ = judge_partitions([lambda: columns], columns.names, context, kernels)

    assert verdicts["order"].valid == "unknown"
    assert verdicts["order"].reason == "the checker failed: ZeroDivisionError: by zero"
    assert verdicts["loss"].valid is False


def test_first_looks_merge_in_any_order() -> None:
    columns, context = context_of(planted_history(3, ["lost", "copied"]), ALL_FACTS[0])
    one, two, three = (
        screening_pass(_queues(columns, chunk, 3), context, CORE) for chunk in range(3)
    )

    left, right = one.merge(two).merge(three), one.merge(two.merge(three))

    for merged in (left, right, ScreeningPass().merge(left), left.merge(ScreeningPass())):
        assert (merged.tallies, merged.totals) == (left.tallies, left.totals)
        assert merged.candidates.tolist() == left.candidates.tolist()
