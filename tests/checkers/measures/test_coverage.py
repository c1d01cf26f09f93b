"""Marks of coverage: each source is counted, and an unexpected zero is named."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from staticfire.checkers.measures.coverage import missed
from staticfire.checkers.measures.coverage_marks import MARKS, Source
from staticfire.checkers.verdicts.compose import ALL_CHECKERS, RunVerdict, check_run
from staticfire.harness.campaign.file import campaign_names
from staticfire.harness.rocketmq.observers.coverage_counters import DETAILS
from staticfire.harness.workloads.catalogue import WORKLOADS
from tests.support.history_language import facts, history

EVENTS = {
    "kind": "events",
    "time_ns": 1,
    "log": {"store opened: cut": 2, "disk full": 1},
    "history": {"refused 14": 5},
}


def check(*lines: str, observations: tuple[dict[str, Any], ...] = (), **changes: Any) -> RunVerdict:
    return check_run(history(*lines), observations, facts(**changes))


def test_events_of_logs_and_ends_of_sends() -> None:
    coverage = check(observations=(EVENTS, EVENTS)).coverage

    assert coverage["cut a tail"] == 4
    assert coverage["refused with 14 (not available)"] == 10


def test_observations_count_where_there_is_enough() -> None:
    files = [{"kind": "queue_entries", "time_ns": 1, "log_files": count} for count in (1, 2, 3)]

    assert check(observations=(*files,)).coverage["rolled a log file"] == 2


def test_what_columns_tell() -> None:
    coverage = check(
        "0 ok send a attempts=2", "0 info send b", "1 ok consume a~1", "1 ok consume b"
    ).coverage

    assert coverage["retried a send"] == 1
    assert coverage["retried by a listener"] == 1
    assert coverage["unclear send came out"] == 1


@pytest.mark.parametrize(
    ("assign", "count"),
    [
        ("2 ok assign 0", 1),
        ("2 ok assign 1", 0),  # another queue
        ("2 info assign 0", 1),  # it may have happened
        ("2 fail assign 0", 0),
        ("2 ok assign 0 group=h", 0),
    ],
)
def test_an_owner_that_changes_while_a_listener_works(assign: str, count: int) -> None:
    lines = ("0 ok send a", "1 invoke consume a", assign, "1 ok consume a", "3 ok assign 0")

    assert check(*lines).coverage["owner changed while it worked"] == count


def test_what_filters_keep_back() -> None:
    """`BB` has the hash of `Aa`: a broker lets it through, and the consumer drops it."""
    ops = history("0 ok send a", "1 ok send b", "2 ok send c", "3 ok send d")
    tags = {"a": "Aa", "b": "BB", "c": "red"}
    for op in ops:
        if op.value["key"] in tags:
            op.value["tag"] = tags[op.value["key"]]
    coverage = check_run(ops, (), facts(wanted_tags={"g": ("Aa",)})).coverage

    assert (coverage["filtered out"], coverage["filter collision"]) == (3, 1)
    assert check_run(ops, (), facts()).coverage["filtered out"] == 0


def test_a_queue_that_is_consumed_in_order_by_one_process_after_the_other() -> None:
    sends = ("0 ok send a", "0 ok send b", "0 ok send c")
    lines = (*sends, "1 ok consume a", "2 ok consume b", "2 ok consume c")

    assert check(*lines, orderly=("g",)).coverage["lock handed over"] == 1
    assert check(*lines).coverage["lock handed over"] == 0


def test_a_verdict_says_the_same_after_reading() -> None:
    verdict = check("0 ok send a attempts=2")

    assert RunVerdict.from_json(verdict.to_json()).coverage == verdict.coverage
    assert list(verdict.coverage) == [mark.name for mark in MARKS]


def test_what_a_campaign_should_have_reached() -> None:
    assert missed({}, "retention", 10) == ["log files deleted"]
    assert missed({"log files deleted": 1}, "retention", 10) == []
    assert missed({}, "a campaign of one's own", 10) == []


def test_a_mark_that_few_seeds_reach_is_asked_of_many() -> None:
    assert "stopped at a failed write" in missed({}, "default", 10)
    assert "offsets cloned" not in missed({}, "default", 10)
    assert "offsets cloned" in missed({}, "default", 60)
    assert missed({}, "default", 1) == []


def test_every_mark_of_a_campaign_is_asked_of_the_sixty_seeds_that_ci_runs() -> None:
    floors = [mark.name for mark in MARKS if "default" in mark.campaigns]
    assert missed({}, "default", 60) == floors


def test_the_table_names_what_there_is() -> None:
    counted = {checker.name for checker in ALL_CHECKERS}
    for mark in MARKS:
        assert mark.source in get_args(Source)
        assert set(mark.campaigns) <= {*campaign_names(), *WORKLOADS}
        if mark.source == "verdict":
            assert mark.seen.partition(".")[0] in counted
        event, _, detail = mark.seen.partition(": ")
        if mark.source == "log" and event in DETAILS and detail:
            assert detail in DETAILS[event]
    assert len({mark.name for mark in MARKS}) == len(MARKS)
