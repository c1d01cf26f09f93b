"""`staticfire promises`: a table for people, JSON lines for programs, one sentence for bad input."""

from __future__ import annotations

import json

import pytest

from staticfire.checkers.guarantees.anomaly_rules import RULES
from staticfire.checkers.guarantees.promise_table import PROFILES
from staticfire.harness.cli import status_of


def test_the_table_names_every_anomaly(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["promises"]) == 0

    shown = capsys.readouterr().out
    assert all(name in shown for name in RULES)
    assert max(map(len, shown.splitlines())) <= 118


def test_equal_answers_share_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    status_of(["promises", "--anomaly", "realtime_order", "--profile", "sync/sync"])

    assert "whatever happens" in capsys.readouterr().out


def test_json_has_a_line_a_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["promises", "--json", "--profile", "all", "--anomaly", "corrupt"]) == 0

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["profile"] for line in lines] == list(map(str, PROFILES))
    assert {(line["anomaly"], line["judgement"]) for line in lines} == {("corrupt", "violation")}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--profile", "sync"], "allowed: sync or async or pool /"),
        (["--profile", "sync/sync/kind"], "--profile is 'sync/sync/kind'"),
        (["--anomaly", "gone"], "--anomaly is 'gone'; there are: lost, unseen"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["promises", *arguments]) == 254

    assert words in capsys.readouterr().err
