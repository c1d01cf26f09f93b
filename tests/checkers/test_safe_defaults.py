"""A checker with only defaults sees every row, in memory, from files and in the analysis."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.checkers.engine.engine import screening_pass
from staticfire.checkers.engine.kernel import Context, no_rows
from staticfire.checkers.formats.chunks.check_files import check_files
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.verdicts.compose import ALL_CHECKERS, RunVerdict, check_columns
from tests.checkers.engine.test_engine import ALL_FACTS
from tests.checkers.formats.columnar.test_round_trip import record
from tests.support.default_checkers import DEFAULTS, check_rows
from tests.support.planted_histories import planted_history


def counts_of(verdict: RunVerdict) -> dict[str, dict[str, int]]:
    assert verdict.valid is False
    return {of.checker: dict(of.counts) for of in verdict.verdicts if of.checker.startswith("rows")}


@pytest.mark.slow
@pytest.mark.parametrize("beside", [(), ALL_CHECKERS], ids=["alone", "beside the others"])
@pytest.mark.parametrize("plants", [[], ["lost", "weak"]], ids=["all cleared", "some suspect"])
def test_a_checker_with_defaults_sees_every_row(
    beside: tuple[object, ...], plants: list[str], tmp_path: Path
) -> None:
    history = record(planted_history(3, plants), tmp_path / "h", part_rows=20)
    columns, timeline = history.whole()
    rows = {
        "a_send": len(columns.sends),
        "a_delivery": len(columns.deliveries),
        "a_commit": len(columns.commits),
    }
    assert min(rows.values()) > 0
    checkers = (*DEFAULTS, *ALL_CHECKERS) if beside else DEFAULTS

    whole = check_columns(columns, timeline, [], ALL_FACTS[0], checkers)

    assert counts_of(whole) == {of.name: rows for of in DEFAULTS}
    for partition_rows in (1, 60, 10**6):
        verdict = check_files(history, [], ALL_FACTS[0], checkers, partition_rows=partition_rows)
        assert verdict.to_json() == whole.to_json()


def test_the_screening_still_clears_messages_for_those_that_opt_in() -> None:
    """The other kernels must not pay for one that reads everything."""
    screened = [of.kernel for of in ALL_CHECKERS if of.kernel is not None and of.kernel.screened]

    assert {kernel.name for kernel in screened} >= {"loss", "provenance", "duplication"}


def test_workers_find_checkers_by_name_so_others_are_refused(tmp_path: Path) -> None:
    history = record(planted_history(1, []), tmp_path / "h")

    with pytest.raises(ValueError, match=r"rows_by_message.*ALL_CHECKERS"):
        check_files(history, [], ALL_FACTS[0], DEFAULTS, jobs=2)


def test_nothing_is_nothing(tmp_path: Path) -> None:
    columns, timeline = record(planted_history(1, []), tmp_path / "h").whole()
    context = Context(facts=ALL_FACTS[0], timeline=timeline, promises=LossPromises(ALL_FACTS[0]))

    assert check_rows(no_rows(columns, context), context).valid is True
    assert len(screening_pass(columns, context, []).candidates) == 0
