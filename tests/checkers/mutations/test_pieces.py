"""Measurements in pieces: counts are kept, nothing is measured twice, and other options are refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.checkers.mutations.pieces import OtherMeasurement, Pieces
from tests.checkers.mutations.score import Score, Task, tasks_of

OPTIONS = {"seeds": [1, 1], "places": 2, "rotation": ""}
KINDS = ("never_sent", "body_damaged")
FOUND = Score(places=2, invalid=1, detected=1, named=Counter({"phantom": 1}), missed=["here"])


def task(workload: str, *kinds: str) -> Task:
    return Task(workload, "rest", kinds, (1,), 2, None)


def first_piece(path: Path | None) -> Pieces:
    pieces = Pieces(path, OPTIONS)
    pieces.add(task("queue", *KINDS), {("never_sent", "rest"): FOUND})
    return pieces


def test_the_next_piece_has_the_counts_of_the_first(tmp_path: Path) -> None:
    first_piece(tmp_path / "kept.json")
    second = Pieces(tmp_path / "kept.json", OPTIONS)
    second.read()
    second.add(task("ordered", "never_sent"), {("never_sent", "rest"): FOUND})

    score = second.scores()["never_sent", "rest"]

    assert (score.places, score.detected, score.named) == (4, 2, Counter({"phantom": 2}))
    assert score.missed == ["here", "here"]


def test_what_is_done_is_no_task_again(tmp_path: Path) -> None:
    done = first_piece(tmp_path / "kept.json").parts
    left = tasks_of(KINDS, ("queue",), (1,), 2, None, done=done)
    assert [(of.site, of.kinds) for of in left] == [("rest", ("body_damaged",)), ("fault", KINDS)]


def test_another_measurement_is_refused(tmp_path: Path) -> None:
    first_piece(tmp_path / "kept.json")
    with pytest.raises(OtherMeasurement, match=r"'places': 2.*not with.*'places': 5"):
        Pieces(tmp_path / "kept.json", {**OPTIONS, "places": 5}).read()


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text("[]", encoding="utf-8")
    with pytest.raises(OtherMeasurement, match="holds no measurement"):
        Pieces(tmp_path / "kept.json", OPTIONS).read()


def test_without_a_file_nothing_is_kept() -> None:
    pieces = first_piece(None)
    pieces.read()
    assert pieces.scores()["never_sent", "rest"].places == 2
