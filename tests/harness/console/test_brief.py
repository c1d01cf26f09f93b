"""The short report of a run: the verdict first, each cause once, follow-up commands last."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.checkers.guarantees.facts import NodeExit
from staticfire.checkers.verdicts.compose import CLIENT_CHECKERS, check_run
from staticfire.harness.console import console, terminal
from staticfire.harness.console.brief import (
    OTHER_LINES,
    VALID_LINES,
    counts_line,
    faults_line,
    verdict_brief,
)
from staticfire.harness.console.console import print_announcement, print_result
from staticfire.harness.report.verdict_lines import WIDTH
from staticfire.harness.results.run_result import RunResult
from tests.harness.console.test_console import CAMPAIGN, FOLDER, losses, result
from tests.support.history_language import facts, history


def valid() -> RunResult:
    ops = history("0 ok send a", "1 ok consume a", "9 ok probe b", "3 ok drain")
    return replace(result(ops), verdict=check_run(ops, [], facts(), CLIENT_CHECKERS))


def printed(run: RunResult, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_result(run, FOLDER, 1.25, report=FOLDER / "report.html", is_verbose=False)
    return capsys.readouterr().out.splitlines()


def test_a_valid_run_takes_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(valid(), capsys)
    assert len(lines) <= VALID_LINES == 10
    assert lines[0] == "verdict   VALID  seed 1, workload queue, 60 virtual s"
    assert "messages  0 lost of 1 acknowledged; 0 unclear, 0 refused; 1 deliveries" in lines
    assert lines[-2] == f"report    {FOLDER}/report.html"
    assert lines[-1].startswith(f"repeat    staticfire replay {FOLDER}    digest dddd")


def test_an_invalid_run_tells_its_cause_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(result(losses(3)), capsys)
    text = "\n".join(lines)
    assert len(lines) <= OTHER_LINES == 20
    assert lines[0].startswith("verdict   INVALID  seed 1")
    assert "cause     loss (lost): 3" in lines
    assert text.count("LOST  key k0  topic t  broker b  queue 0  offset 0") == 1
    assert text.count("violation: ") == 1
    ends = [line.split()[0] for line in lines[-4:]]
    assert ends == ["report", "explain", "shrink", "repeat"]


def test_the_promise_stands_below_its_witness(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(result(losses(1)), capsys)
    witness = next(number for number, line in enumerate(lines) if line.startswith("LOST"))
    promise = next(number for number, line in enumerate(lines) if line.startswith("  violation: "))
    assert promise > witness


def test_every_cause_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    exits = tuple(NodeExit(node="n0", time_ns=1, error=f"error {n}") for n in range(9))
    run = result(losses(3))
    run = replace(run, verdict=check_run(losses(3), [], facts(exits=exits)))
    lines = printed(run, capsys)
    assert "cause     loss (lost): 3" in lines
    assert {"cause     node_died: 9", "and       node_died 9"} & {*lines}
    assert len(lines) <= OTHER_LINES


def test_causes_that_have_no_room_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staticfire.harness.console.brief.CAUSES_MAX", 1)
    verdict = check_run(losses(3), [], facts(exits=(NodeExit(node="n0", time_ns=1, error="x"),)))
    assert "and       node_died 1" in verdict_brief(verdict)


def test_an_unknown_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(result(history("0 ok send a", "1 ok consume a")), capsys)
    assert lines[0].startswith("verdict   UNKNOWN")
    assert any(line.startswith("unknown   ") and "drained" in line for line in lines)
    assert len(lines) <= OTHER_LINES


def test_reasons_that_have_no_room_are_counted() -> None:
    verdict = check_run(losses(1), [], facts())
    reasons = tuple(f"reason {number}" for number in range(30))
    lines = verdict_brief(replace(verdict, valid="unknown", verdicts=(), below_floors=reasons))
    assert "          27 more reasons: --verbose has all" in lines


def test_a_diagnosis_comes_on_top(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = printed(valid(), capsys)
    monkeypatch.setattr(console, "diagnose", lambda _: ["long " * 200])
    lines = printed(valid(), capsys)
    assert lines[1].startswith("diagnosis long")
    assert [line for line in lines if "long" not in line] == short


def test_a_verdict_of_two_lines_is_not_parted_by_a_diagnosis(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "diagnose", lambda _: ["a sentence"])
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda _: os.terminal_size((40, 24)))
    first, second, diagnosis, *_ = printed(valid(), capsys)
    assert first.startswith("verdict")
    assert second.startswith("          ")
    assert diagnosis == "diagnosis a sentence"


def test_lines_of_a_file_are_no_wider_than_in_the_documentation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert max(map(len, printed(result(losses(3)), capsys))) <= WIDTH


@pytest.mark.parametrize("columns", [60, 72, 100])
def test_lines_fit_the_terminal_but_for_commands(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda _: os.terminal_size((columns, 24)))
    monkeypatch.setenv("NO_COLOR", "1")
    lines = printed(result(losses(3)), capsys)
    assert max(map(len, lines[:-4])) <= columns
    assert f"explain   staticfire explain {FOLDER}" in lines


@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_the_verdict_has_a_colour_where_it_is_wanted(
    environment: dict[str, str], is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    first = verdict_brief(check_run(losses(1), [], facts()))[0]
    assert ("\x1b[31m" in first) == is_coloured
    assert "INVALID" in first


def test_a_file_has_no_colours() -> None:
    assert verdict_brief(check_run(losses(1), [], facts()))[0] == "verdict   INVALID"


def test_a_verdict_does_nothing_to_the_terminal() -> None:
    verdict = replace(check_run(losses(1), [], facts()), caveats=("key \x1b[2J",))
    assert r"note      key \x1b[2J" in verdict_brief(verdict)


def test_many_kinds_of_fault_leave_room_for_those_that_never_bit() -> None:
    line = faults_line([f"kind-{n}" for n in range(20)], ["idle"], ["late"])
    assert line.startswith("faults    20 kinds proven: kind-0, ")
    assert line.endswith("kind-6, 13 more; never bit: idle; never fired: late")


def test_only_a_run_that_takes_its_time_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    print_announcement(CAMPAIGN)
    assert capsys.readouterr().out == ""
    print_announcement(replace(CAMPAIGN, environment="processes"))
    assert capsys.readouterr().out == (
        "run       seed 1, workload queue, 60 s, environment processes\n"
    )


def test_no_line_says_where_a_report_is_that_was_not_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_result(valid(), Path("runs/x"), None, is_verbose=False)
    assert "report " not in capsys.readouterr().out


def test_messages_that_a_group_never_consumed_are_counted_beside_lost_ones() -> None:
    verdict = valid().verdict
    found = next(of for of in verdict.verdicts if of.checker == "loss")
    unseen = replace(found, valid=False, counts={**found.counts, "unseen": 26})
    others = tuple(of for of in verdict.verdicts if of is not found)
    line = counts_line(replace(verdict, verdicts=(unseen, *others)))
    assert line.startswith("messages  0 lost, 26 not consumed by a group, of 1 acknowledged;")
