"""The engine: partitions of whole queues give the verdict that all at once gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.column_builder import build_columns
from checkers.columns import Columns
from checkers.compose import KERNELS
from checkers.engine import judge_partitions
from checkers.facts import RunFacts
from checkers.history import Op
from checkers.kernel import Context
from checkers.promises import LossPromises
from tests.checkers.test_against_reference import CUT, GROUPS, STEADY, histories
from tests.support.history_language import facts

TWO_BROKERS: dict[str, Any] = {"groups": GROUPS, "brokers": {"b": ("n0",), "c": ("n1",)}}
FACTS = st.sampled_from(
    [
        facts(**TWO_BROKERS),
        facts(**TWO_BROKERS, flush="async", faults=(CUT,)),
        facts(**TWO_BROKERS, reserved_s=0.005),
        facts(**{**TWO_BROKERS, "groups": {"g": ("t", "u")}}),
        facts(**{**TWO_BROKERS, "groups": {}}),
    ]
)


def verdicts_at_once(columns: Columns, context: Context) -> dict[str, Any]:
    return {kernel.name: kernel.check(columns, context).to_json() for kernel in KERNELS}


def verdicts_in_pieces(columns: Columns, context: Context, pieces: int) -> dict[str, Any]:
    """In `pieces` partitions of neighbouring queues."""
    reads: list[Callable[[], Columns]] = [
        partial(_queues, columns, first, pieces) for first in range(pieces)
    ]
    verdicts, _ = judge_partitions(reads, columns.names, context, KERNELS)
    return {name: verdict.to_json() for name, verdict in verdicts.items()}


def _queues(columns: Columns, piece: int, pieces: int) -> Columns:
    width = -(-(len(columns.names.queues) + 1) // pieces)
    low, high = piece * width - 1, (piece + 1) * width - 1
    rows = {
        name: getattr(columns, name).where(
            (getattr(columns, name).queue >= low) & (getattr(columns, name).queue < high)
        )
        for name in ("sends", "deliveries", "commits")
    }
    return Columns(names=columns.names, **rows)


def context_of(ops: list[Op], known: RunFacts) -> tuple[Columns, Context]:
    columns, timeline = build_columns(ops)
    promises = LossPromises(known)
    return columns, Context(facts=known, timeline=timeline, promises=promises)


@pytest.mark.parametrize("pieces", [1, 3, 20])
@settings(STEADY, max_examples=150)
@given(ops=histories(), known=FACTS)
def test_any_partitions_give_the_verdict_of_all_at_once(
    pieces: int, ops: list[Op], known: RunFacts
) -> None:
    columns, context = context_of(ops, known)

    assert verdicts_in_pieces(columns, context, pieces) == verdicts_at_once(columns, context)
