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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "its format is 2; this version reads 1"),
        ({"moves": ""}, "'moves' is missing"),
        ({"moves": [["sleep", 1]]}, "'sleep' is not a valid MoveKind"),
        ({"moves": [["work"]]}, "not enough values"),
        ({"moves": [["work", "x"]]}, "invalid literal"),
        ({"plan": {"lives": 1}}, "missing"),
        ({"plan": {**json.loads(make_script().to_text())["plan"], "lives": "two"}}, "lives of its"),
    ],
)
def test_a_wrong_text_is_one_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="not a cycle of crash-store: ") as raised:
        script_of(text_with(**changes))
    assert said in str(raised.value)


def test_half_a_text_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        script_of("{")
