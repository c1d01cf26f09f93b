"""One checker out of all: most tests ask for the verdict of one, and the others cost nine tenths of the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.checkers.engine.kernel import Checker, Context
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import ALL_CHECKERS, check_run
from tests.support.history_language import facts, history


def only(name: str) -> tuple[Checker, ...]:
    """The checker of that name. Raises ValueError when there is none."""
    [checker] = (one for one in ALL_CHECKERS if one.name == name)
    return (checker,)


def read_ops(
    ops: Sequence[Op], observations: Sequence[Mapping[str, Any]] = (), /, **changes: Any
) -> tuple[Columns, Context]:
    """What a checker is given of ops and observations; `changes`: fields of the facts."""
    columns, timeline = build_columns(ops)
    known = facts(**changes)
    promises = LossPromises(known)
    return columns, Context(
        facts=known, timeline=timeline, promises=promises, observations=observations
    )


def judged_by(
    name: str, ops: Sequence[Op], observations: Sequence[Mapping[str, Any]], known: RunFacts
) -> Verdict:
    """What the checker of that name says about a run."""
    verdicts = check_run(ops, observations, known, only(name)).verdicts
    return next(verdict for verdict in verdicts if verdict.checker == name)


def verdict_on(ops: Sequence[str], name: str, **changes: object) -> Verdict:
    """What the checker of that name says about ops in the language of the tests; `changes`: fields of the facts."""
    return judged_by(name, history(*ops), [], facts(**changes))
