"""Results of a shrink, in a line and in the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.harness.museum.figures import write_figures
from staticfire.harness.museum.shrinking import Shrunk, line_of, main
from staticfire.harness.pages import shrinking

NAME = "ack-before-fsync"
SMALL = Shrunk(
    seed=0,
    failure="loss (lost)",
    faults=(3, 1),
    ops=(700, 1),
    reached=(0.4, 2.0),
    last=(2.0, 10.0),
    whole=(3.0, 12.0),
    is_complete=True,
    is_repeated=True,
)
LARGE = Shrunk(
    seed=1,
    failure="phantom",
    faults=(4, 4),
    ops=(500, 40),
    reached=None,
    last=(9.0, 70.0),
    whole=(9.0, 70.0),
    is_complete=False,
    is_repeated=False,
)


def test_a_line_says_when_it_was_small() -> None:
    assert "faults 3 -> 1, ops 700 -> 1; small after 0.4 CPU s, 2.0 s;" in line_of(NAME, SMALL)
    assert line_of(NAME, LARGE).endswith(
        "never small; last after 9.0 CPU s, 70.0 s; it does not repeat"
    )


def test_the_page_counts_those_that_became_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shrink.json"
    write_figures(path, {NAME: SMALL, "zone": LARGE})
    monkeypatch.setattr(shrinking, "DATA", path)
    text = shrinking.shrunk_text()
    assert text.startswith("1 of 2 runs came to at most 3 faults and 10 ops: the median after 0.4")
    assert "Of 2 shrunk runs, 1 were the same" in text
    assert shrinking.shrunk_table().splitlines()[-1] == (
        f"| `{NAME}` | S | loss (lost) | 3 -> 1 | 700 -> 1 | 0.4 | 2 | 2.0 | 10 |"
    )


def test_an_unknown_piece_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such"]) == 254
    assert "NAME is no-such; allowed: those of `staticfire bugs`" in capsys.readouterr().err
