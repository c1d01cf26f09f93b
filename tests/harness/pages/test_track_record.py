"""The track record: its rows are complete, and its commands parse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from staticfire.harness.pages.generated import PageError
from staticfire.harness.pages.track_record import bugs_table, counts_text, read_bugs
from tests.documents.parsing import arguments_of, parse

BUG = """
[[bug]]
where = "own"
what = "w"
found_by = "f"
command = "c"
date = 2026-11-24
status = "fixed"
commit = "abcdef12"
"""


def test_every_bug_has_its_source() -> None:
    bugs = read_bugs()
    assert len({bug.what for bug in bugs}) == len(bugs)
    assert all(re.fullmatch(r"[0-9a-f]{8}", bug.commit) for bug in bugs if bug.where == "own")
    assert all((Path("docs") / bug.page.partition("#")[0]).exists() for bug in bugs if bug.page)
    assert str(sum(bug.where == "own" for bug in bugs)) in counts_text()
    assert bugs_table("client").count("\n") == 1 + sum(bug.where == "client" for bug in bugs)


@pytest.mark.parametrize("command", sorted({bug.command for bug in read_bugs()}))
def test_a_command_parses(command: str) -> None:
    if command.startswith("staticfire "):
        parse(arguments_of(command) or [])
    else:
        program, path = command.split()
        assert program == "pytest"
        assert Path(path).exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"own"', '"elsewhere"', "where is 'elsewhere'; allowed: own, apache, client"),
        ('commit = "abcdef12"', "", "an own bug needs its commit"),
        ('status = "fixed"', "", "status"),
        ('what = "w"', "what = 3", "what is or holds 3"),
    ],
)
def test_a_row_that_lacks_something_is_named(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "bugs.toml"
    path.write_text(BUG.replace(old, new))
    with pytest.raises(PageError, match=f"bug 1 of bugs.toml: .*{words}"):
        read_bugs(path)
