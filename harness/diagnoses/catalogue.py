"""All diagnoses. Each returns nothing if a run does not show its situation."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.harness.diagnoses.atomic_writes import atomic_writes
from staticfire.harness.diagnoses.backlog import backlog
from staticfire.harness.diagnoses.busy_refusals import busy_refusals
from staticfire.harness.diagnoses.fake_death import fake_death
from staticfire.harness.diagnoses.moved_keys import moved_keys
from staticfire.harness.diagnoses.one_broker import one_broker
from staticfire.harness.diagnoses.pairs import pairs
from staticfire.harness.diagnoses.reservations import reservations
from staticfire.harness.diagnoses.slave_takeover import slave_takeover
from staticfire.harness.results.run_result import RunResult

Diagnosis = Callable[[RunResult], list[str]]

DIAGNOSES: tuple[Diagnosis, ...] = (
    one_broker,
    moved_keys,
    slave_takeover,
    busy_refusals,
    backlog,
    atomic_writes,
    reservations,
    fake_death,
    pairs,
)


def diagnose(result: RunResult) -> list[str]:
    """Return a paragraph for each situation that the run shows."""
    return [text for diagnosis in DIAGNOSES for text in diagnosis(result)]
