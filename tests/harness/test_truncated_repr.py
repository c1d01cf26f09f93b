"""Text from peers in messages: shortened, and without effect on the terminal."""

from __future__ import annotations

import orjson
import pytest
from rich.console import Console

from staticfire.harness.cli.admin.answers import Record, Table
from staticfire.harness.cli.analyze.command import _tell
from staticfire.harness.cli.conform.session import _finish, _print_result
from staticfire.harness.cli.status import one_sentence
from staticfire.harness.conformance.clause import contract
from staticfire.harness.conformance.outputs.markdown import _text
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult
from staticfire.harness.truncated_repr import printable, printable_json

CLEARS_SCREEN = "key\x1b[2J\x1b]0;title\x07"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain, with ünïcode and 漢字", "plain, with ünïcode and 漢字"),
        (CLEARS_SCREEN, r"key\x1b[2J\x1b]0;title\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("turned \u202e around", r"turned \u202e around"),
        ("\x9b2J", r"\x9b2J"),
        ("half a pair \ud800", r"half a pair \ud800"),
        ("", ""),
    ],
)
def test_printable(text: str, line: str) -> None:
    assert printable(text) == line
    assert printable(line) == line


def test_a_complaint_holds_no_control_character() -> None:
    assert one_sentence(f"the key is\n{CLEARS_SCREEN}") == r"the key is key\x1b[2J\x1b]0;title\x07"


def test_markdown_holds_neither_control_characters_nor_marks() -> None:
    assert _text(f"{CLEARS_SCREEN}\n# <b>") == r"key\\x1b\[2J\\x1b\]0;title\\x07 # \<b\>"


@pytest.mark.parametrize(
    "answer", [Record({"key": CLEARS_SCREEN}), Table(["key"], [[CLEARS_SCREEN]])]
)
def test_answers_of_nodes(answer: Record | Table, capsys: pytest.CaptureFixture[str]) -> None:
    answer.show()
    said = capsys.readouterr().out
    assert r"key\x1b[2J\x1b]0;title\x07" in said
    assert "\x1b" not in said


def test_the_lines_of_a_history_that_is_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """Kinds of ops are text of the history."""
    _tell(CLEARS_SCREEN)
    assert capsys.readouterr().out == "key\\x1b[2J\\x1b]0;title\\x07\n"


def test_reasons_of_a_suite(capsys: pytest.CaptureFixture[str]) -> None:
    clause = next(iter(contract().values()))
    reason = f"{CLEARS_SCREEN}\nsecond line"
    failed, not_run = (
        CaseResult(clause=clause, outcome=outcome, reason=reason, took_s=0.0)
        for outcome in (Outcome.FAILED, Outcome.NOT_RUN)
    )
    console = Console()
    _print_result(console, failed)
    _finish(console, SuiteResult(target="t", results=(not_run,), floor=0))
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "    key\\x1b[2J\\x1b]0;title\\x07\nsecond line\n" in said
    assert r"(key\x1b[2J\x1b]0;title\x07\nsecond line)" in said


@pytest.mark.parametrize(
    "text", ["plain", "\x1b[2J\x07\r\n\x00", "\x7f\x9b2J\u202e\u2028é", "\U000e0001😀"]
)
def test_json_for_a_terminal_says_the_same_without_control_characters(text: str) -> None:
    data = orjson.dumps({text: [text]}, option=orjson.OPT_INDENT_2)
    shown = printable_json(data)
    assert shown.replace("\n", "").isprintable()
    assert orjson.loads(shown) == {text: [text]}
