"""Every fenced command of README.md and docs/ is carried out, and says what the page shows of it.

`python -m tests.documents.record PAGE...` writes what commands say now into pages that show something else.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.pages import commands, pages_with_commands
from tests.documents.shell import Shell, clean_of_time, missing_lines
from tests.documents.tables import PARSED, REPLACED, STATUSES, key_of
from tests.support.sample import sample_of

FIRST = ("README.md", "docs/tutorial.md")  # what a newcomer does
OTHERS = [
    page
    for page in pages_with_commands()
    if page not in FIRST and any(key_of(command.text) not in PARSED for command in commands(page))
]


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("page", [*FIRST, *sample_of(OTHERS, 3)])
def test_commands_of_a_page(page: str, tmp_path: Path) -> None:
    shell = Shell(page, tmp_path)
    wrong: list[str] = []
    try:
        for command in commands(page):
            key = key_of(command.text)
            if key in PARSED:
                continue
            said = shell.run(command)
            where = f"{page}:{command.line}: {command.text}"
            expected = STATUSES.get(key, 0)
            if said.status not in (expected if isinstance(expected, tuple) else (expected,)):
                wrong += [f"{where}\nends with {said.status}", *said.lines[-15:]]
            elif command.output and key not in REPLACED:
                missing = missing_lines(command.output, said.lines)
                wrong += [f"{where}\ndoes not say", *missing, "but", *said.lines] if missing else []
    finally:
        ended = shell.close()
    assert not wrong, "\n".join(wrong)
    assert set(ended) <= {0}


def test_figures_and_names_of_folders_do_not_count() -> None:
    assert clean_of_time("up after 0.4 s  runs/20261120-101500-queue-1") == clean_of_time(
        "up after 12.3 s runs/20261121-101501-queue-1"
    )
    assert clean_of_time("verdict   VALID") != clean_of_time("verdict   INVALID")


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        (("a 1", "b", "c"), []),
        (("a 2", "... 7 more", "c"), []),
        (("a", "b ..."), ["a"]),
        (("a 1", "c"), ["c"]),
        (("a 1", "...", "b", "d"), ["d"]),
        (("c", "...", "b"), ["c"]),
    ],
)
def test_lines_of_a_page_are_those_of_the_command(
    shown: tuple[str, ...], missing: list[str]
) -> None:
    assert missing_lines(shown, ["a 9", "b and more" if "b ..." in shown else "b", "c"]) == missing
