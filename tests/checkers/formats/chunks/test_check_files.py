"""Histories in files: the same verdict as in memory, for any size of the chunks that are read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from staticfire.checkers.availability.availability_gaps import (
    AVAILABILITY_GAPS,
    check_availability_gaps,
)
from staticfire.checkers.availability.gap_rows import decisive_rows, first_rows
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.formats.chunks.check_files import check_files
from staticfire.checkers.formats.chunks.work_units import together
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.model.timeline import Opened
from staticfire.checkers.verdicts.compose import ALL_CHECKERS, check_columns
from tests.checkers.engine.test_engine import ALL_FACTS, OTHER_FACTS
from tests.checkers.formats.columnar.test_round_trip import record
from tests.support.gap_histories import FACTS as GAP_FACTS
from tests.support.gap_histories import gap_history
from tests.support.history_language import fault
from tests.support.planted_histories import PLANTS, planted_history


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_a_history_in_files_gets_the_verdict_of_one_in_memory(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    plants = random.sample(list(PLANTS), 3)
    history = record(planted_history(seed, plants), tmp_path / "h", part_rows=20)
    facts = random.choice(ALL_FACTS)
    whole = check_columns(*history.whole(), [], facts)

    for rows in (1, 60, 10**6):
        verdict = check_files(history, [], facts, partition_rows=rows)
        assert verdict.to_json() == whole.to_json(), (plants, rows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_what_checkers_read_of_queues_is_enough(seed: int, tmp_path: Path) -> None:
    """Those that are no kernels get few rows of each queue, and say what they say of all."""
    history = record(planted_history(seed, ["weak", "weak", "recovered"]), tmp_path / "h")
    columns, timeline = history.whole()
    acked = [*columns.sends.message.tolist(), 0]
    observations = [
        {"kind": "route", "time_ns": 0, "node": "ns-1", "brokers": {}, "up": []},
        *(
            {
                "kind": "ack_durability",
                "time_ns": 0,
                "key": str(columns.names.key(message)),
                "status": "SEND_OK",
                "broker_name": "b",
                "end_offset": 100,
                "durable_on": ["n0", "n1"],
                "cached_on": [],
                "unobserved": [],
            }
            for message in acked[: -1 - seed % 3]
        ),
    ]
    frozen = fault("name_server_freeze", "ns-1", at_s=0.0, healed_s=0.01)
    facts = replace(ALL_FACTS[0], routes_observed=True, faults=(frozen,) if seed % 2 else ())
    whole = check_columns(columns, timeline, observations, facts)

    verdict = check_files(history, observations, facts, partition_rows=1)

    assert verdict.to_json() == whole.to_json()
    counts = {of.checker: of.counts for of in verdict.verdicts}
    assert counts["weak_statuses"]["weak_observed"] > 0
    assert counts["durable_before_ack"]["acks"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_long_queues_are_judged_in_pieces(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    history = record(
        planted_history(seed, random.sample(list(PLANTS), 3)), tmp_path / "h", part_rows=20
    )
    facts = random.choice([*ALL_FACTS, *OTHER_FACTS])
    reported: list[tuple[int, int]] = []

    verdict = check_files(
        history,
        [],
        facts,
        partition_rows=1,
        whole_rows=20,
        progress=lambda *rows: reported.append(rows),
    )

    assert verdict.to_json() == check_columns(*history.whole(), [], facts).to_json()
    assert len(reported) > len(history.queues())


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["rows", "rows_again", "check", "applies"])
def test_whatever_a_checker_raises_is_its_own_answer(asked: str, tmp_path: Path) -> None:
    history = record(planted_history(1, ["lost"]), tmp_path / "h")
    facts = replace(ALL_FACTS[0], gap_max_s=1000.0)
    good = check_files(history, [], facts, partition_rows=1)

    def fail(*_: object) -> Columns:
        raise RuntimeError("boom")

    change: dict[str, Any] = {asked: fail}
    broken = replace(AVAILABILITY_GAPS, **change)
    checkers = [broken if of is AVAILABILITY_GAPS else of for of in ALL_CHECKERS]
    verdict = check_files(history, [], facts, checkers, partition_rows=1)

    for reported, before in zip(verdict.verdicts, good.verdicts, strict=True):
        if reported.checker == broken.name:
            assert reported.reason == "the checker failed: RuntimeError: boom"
            assert reported.valid == "unknown"
        else:
            assert reported == before


@pytest.mark.slow
def test_so_it_does_in_several_processes(tmp_path: Path) -> None:
    history = record(planted_history(1, ["lost", "copied"]), tmp_path / "h")
    facts = ALL_FACTS[0]

    verdict = check_files(history, [], facts, jobs=2, partition_rows=1)

    assert verdict.to_json() == check_columns(*history.whole(), [], facts).to_json()


def test_partitions_are_whole_queues_in_order(tmp_path: Path) -> None:
    history = record(planted_history(1, []), tmp_path / "h", part_rows=10)

    def queues(rows_max: int) -> list[list[int]]:
        groups = together(history.manifest, rows_max)
        return [list(dict.fromkeys(part.queue for part in parts)) for parts in groups]

    assert queues(1) == [[queue] for queue in history.queues()]
    assert queues(10**6) == [history.queues()]
    assert sum(len(parts) for parts in together(history.manifest, 1)) == len(
        history.manifest.message_events
    )


def test_progress_is_reported(tmp_path: Path) -> None:
    history = record(planted_history(1, []), tmp_path / "h")
    reported: list[tuple[int, int]] = []

    check_files(
        history, [], ALL_FACTS[0], partition_rows=1, progress=lambda *rows: reported.append(rows)
    )

    assert len(reported) == len(history.queues())
    assert reported[-1] == (history.manifest.rows, history.manifest.rows)


def test_a_part_that_is_missing_is_an_error_and_no_verdict(tmp_path: Path) -> None:
    history = record(planted_history(1, []), tmp_path / "h")
    shutil.rmtree(tmp_path / "h" / "message_events" / "queue-1")

    with pytest.raises(HistoryError, match="is missing"):
        check_files(history, [], ALL_FACTS[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_gaps_need_few_rows_of_a_history(seed: int, tmp_path: Path) -> None:
    """Next acknowledgements and first deliveries lie in any queue; much begins at the same time."""
    ops, crashes = gap_history(seed, together=True)
    history = record(ops, tmp_path / "h", part_rows=10)
    facts = RunFacts(flush="sync", replication="none", faults=crashes, **GAP_FACTS)
    whole = check_columns(*history.whole(), [], facts, [AVAILABILITY_GAPS])

    for rows in (1, 10, 10**6):
        verdict = check_files(history, [], facts, [AVAILABILITY_GAPS], partition_rows=rows)
        assert verdict.verdicts[0].to_json() == whole.verdicts[0].to_json(), rows


def test_of_a_good_history_hardly_any_row_is_needed(tmp_path: Path) -> None:
    history = record(planted_history(1, []), tmp_path / "h")
    columns, timeline = history.whole()
    nodes = dict.fromkeys(range(3), "p")
    opens = [Opened(time_ns=0, process=0, node="p")]
    facts = replace(ALL_FACTS[0], gap_max_s=10.0, producers=("p",))
    context = Context(
        facts=facts,
        timeline=replace(timeline, nodes=nodes, opens=opens),
        promises=LossPromises(facts),
    )

    first = first_rows(columns, context)
    decisive = decisive_rows(columns, context, first)

    assert (len(first.sends), len(first.deliveries)) == (1, 0)
    assert len(decisive.sends) <= 2 + 2 * len(columns.names.logs) < len(columns.sends) / 2
    whole = check_availability_gaps(columns, context)
    assert check_availability_gaps(decisive, context) == whole
    assert whole.counts["longest_send_gap_ms"] > 0
