from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from staticfire.harness.store_crash.plan import CyclePlan
from staticfire.harness.store_crash.script import Move, MoveKind, Script, drawn_move, script_of


def make_script() -> Script:
    random = Random(1)
    moves = tuple(drawn_move(random, kind) for kind in MoveKind)
    return Script(CyclePlan.draw(random), moves)


def text_with(**changes: Any) -> str:
    """Return a script with changed keys of its document; a key without a value is removed."""
    document = json.loads(make_script().to_text()) | changes
    return json.dumps({key: value for key, value in document.items() if value != ""})


def test_a_script_is_read_as_it_was_written() -> None:
    text = make_script().to_text(defect="no-fsync", failure="PromiseBroken")
    assert script_of(text) == (make_script(), {"defect": "no-fsync", "failure": "PromiseBroken"})


def test_a_seed_stands_for_the_same_moves() -> None:
    assert drawn_move(Random(3), MoveKind.WORK) == drawn_move(Random(3), MoveKind.WORK)
    assert isinstance(drawn_move(Random(3), MoveKind.DIE), Move)


PLAN = json.loads(make_script().to_text())["plan"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "its format is 2; this version reads 1"),
        ({"moves": ""}, "'moves' is missing"),
        ({"moves": [["sleep", 1]]}, "'sleep' is not a valid MoveKind"),
        ({"moves": [["work"]]}, "not enough values"),
        (
            {"moves": [["work", "12"]]},
            "a seed is '12'; allowed: whole numbers from 0 to 4294967295",
        ),
        ({"moves": [["work", 1.5]]}, "a seed is 1.5"),
        ({"moves": [["work", 1 << 32]]}, "a seed is 4294967296"),
        ({"plan": {"lives": 1}}, "missing"),
        ({"plan": {**PLAN, "lives": "two"}}, "lives is"),
        (
            {"plan": {**PLAN, "log_file_size": 0}},
            "log_file_size is 0; allowed: whole numbers from 640",
        ),
        ({"plan": {**PLAN, "log_folders": 4}}, "log_folders is 4"),
        ({"plan": {**PLAN, "body_size": True}}, "body_size is True"),
        ({"plan": {**PLAN, "pool": 1}}, "pool is 1; allowed: true, false"),
    ],
)
def test_a_wrong_text_is_one_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="not a cycle of crash-store: ") as raised:
        script_of(text_with(**changes))
    assert said in str(raised.value)


def test_half_a_text_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        script_of("{")
    with pytest.raises(ValueError, match="not JSON"):
        script_of("[" * 100_000)
