"""A diff is applied to a copy of the system, or refused with the hunk that does not fit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from staticfire.faults.defects.diffs import DiffError, apply_diff, plain_diff

BEFORE = "def run():\n    flush()\n    return answer()\n\n\ndef stop():\n    close()\n    return done()\n"
FILE = "system_under_test/store/flush.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    path.write_text(BEFORE)
    return tmp_path


def diff(*lines: str, first: int = 1, name: str = FILE) -> str:
    before = sum(line[0] in " -" for line in lines)
    after = sum(line[0] in " +" for line in lines)
    head = f"--- a/{name}\n+++ b/{name}\n@@ -{first},{before} +{first},{after} @@\n"
    return head + "".join(f"{line}\n" for line in lines)


def test_what_git_writes_is_accepted_as_it_is(folder: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True
        ).stdout

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    (folder / FILE).write_text(BEFORE.replace("    flush()\n", ""))
    made = git("diff")
    git("checkout", "-q", ".")
    assert made.startswith("diff --git a/system_under_test/")

    apply_diff(made, folder)

    assert (folder / FILE).read_text() == BEFORE.replace("    flush()\n", "")
    assert plain_diff(made).startswith("--- a/system_under_test/")


def test_a_last_line_without_a_newline_is_no_line_of_the_hunk(folder: Path) -> None:
    apply_diff(
        diff("     close()", "-    return done()", "+    return 1", first=7).replace(
            "done()\n", "done()\n\\ No newline at end of file\n"
        ),
        folder,
    )
    assert (folder / FILE).read_text().endswith("return 1\n")


def test_lines_that_moved_are_found(folder: Path) -> None:
    apply_diff(diff(" def stop():", "-    close()", "     return done()", first=2), folder)
    assert "close" not in (folder / FILE).read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no hunk in it"),
        ("nothing of the kind\n", "there is no hunk in it"),
        (
            diff(" def run():", "-    fsync()", "     return answer()"),
            f"hunk 1 of 1 for {FILE}, line 1, does not fit: it wants line 2 to be '    fsync\\(\\)',"
            " the file has '    flush\\(\\)'",
        ),
        (
            diff("     return done()", "-    again()", first=8),
            "it wants line 9 to be '    again\\(\\)', the file ends before it",
        ),
        (
            diff(" x", "-y", name="system_under_test/store/none.py"),
            "names system_under_test/store/none.py, which does not exist",
        ),
        (diff(" x", "-y", name="harness/cli.py"), "names 'a/harness/cli.py'; allowed: files of"),
        (
            diff(" x", "-y", name="system_under_test/../outside.py"),
            "names 'a/system_under_test/../outside.py'; allowed: files of",
        ),
        (
            diff(" def run():", "-    flush()", "     return answer()").rpartition("     return")[
                0
            ],
            f"hunk 1 for {FILE}, line 1, ends too early: its header counts 2 more lines",
        ),
        (
            diff(" def run():", "-    flush()").replace(" def run():\n", "")
            + diff(" def stop():", "-    close()", first=6).partition("+++")[2].partition("\n")[2],
            f"hunk 1 for {FILE}, line 1, ends too early: its header counts 2 more lines",
        ),
    ],
)
def test_a_diff_that_does_not_fit_says_why(folder: Path, text: str, says: str) -> None:
    with pytest.raises(DiffError, match=says):
        apply_diff(text, folder)
    assert (folder / FILE).read_text() == BEFORE


def test_the_second_hunk_is_named(folder: Path) -> None:
    two = (
        diff(" def run():", "-    flush()")
        + diff(" def stop():", "-    open()", first=6).partition("+++")[2].partition("\n")[2]
    )
    with pytest.raises(DiffError, match=r"hunk 2 of 2 for \S+, line 6"):
        apply_diff(two, folder)
