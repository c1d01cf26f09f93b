"""Lists and long lines: fitted to a terminal, one line each elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from staticfire.harness.cli import status_of
from staticfire.harness.console import terminal
from staticfire.harness.console.terminal import fitted, list_lines

ROWS = [("kill", "a process ends at once, as by kill -9"), ("clock-skew", "its clock is wrong")]


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make the standard output a terminal of so many columns."""

    def set_columns(number: int) -> None:
        monkeypatch.setattr(terminal, "is_terminal", lambda: True)
        monkeypatch.setenv("COLUMNS", str(number))

    return set_columns


def test_a_script_reads_a_line_a_name() -> None:
    assert list_lines(ROWS) == [
        "kill        a process ends at once, as by kill -9",
        "clock-skew  its clock is wrong",
    ]
    assert fitted("seen      " + "x " * 200) == ["seen      " + "x " * 200]


def test_on_a_terminal_a_text_is_fitted_beside_its_name(columns: Callable[[int], None]) -> None:
    columns(42)
    assert list_lines(ROWS) == [
        "kill        a process ends at once, as by",
        "            kill -9",
        "clock-skew  its clock is wrong",
    ]
    assert fitted("seen      one two three four five six seven eight") == [
        "seen      one two three four five six",
        "          seven eight",
    ]


def test_on_a_narrow_terminal_it_is_below(columns: Callable[[int], None]) -> None:
    columns(40)
    assert list_lines(ROWS)[:3] == [
        "kill",
        "    a process ends at once, as by kill",
        "    -9",
    ]
    assert list_lines([]) == []


@pytest.mark.parametrize("command", ["faults", "workloads", "campaigns", "bugs"])
def test_no_list_is_wider_than_the_terminal(
    command: str, columns: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of([command]) == 0
    plain = capsys.readouterr().out.splitlines()
    columns(60)
    assert status_of([command]) == 0
    on_terminal = capsys.readouterr().out.splitlines()
    assert max(map(len, plain)) > 60
    assert max(map(len, on_terminal[:-1])) <= 60
    assert len(on_terminal) > len(plain)
    assert " ".join(" ".join(plain).split()) == " ".join(" ".join(on_terminal).split())


@pytest.mark.parametrize(
    "command", [["conform", "--list"], ["conform", "--list", "--select", "area:SND"]]
)
def test_clauses_have_a_line_each_where_there_is_no_terminal(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(command) == 0
    _head, *clauses, total = capsys.readouterr().out.splitlines()
    assert all(line.startswith("RMQ-") for line in clauses)
    assert total.startswith(f"{len(clauses)} clauses, ")
