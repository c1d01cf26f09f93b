"""Declarations of anomalies: a wrong one is refused in one sentence, before any run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.anomalies.anomaly import AnomalyError, by_name, check_anomaly, check_found
from staticfire.checkers.anomalies.catalogue import ANOMALIES
from staticfire.checkers.guarantees.excuses.excuse_table import EXCUSES

LOST = ANOMALIES["lost"]
HOLE = ANOMALIES["log_hole"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"name": "Lost"},
            "name of anomaly Lost is 'Lost'; allowed: small letters with underscores, such as log_hole",
        ),
        ({"title": ""}, "title of anomaly log_hole is ''; allowed: a text"),
        ({"meaning": " "}, "meaning of anomaly log_hole is ' '; allowed: a text"),
        ({"promise": "kept"}, "promise of anomaly log_hole is 'kept'; allowed: a sentence"),
        ({"example": ""}, "example of anomaly log_hole is ''; allowed: a text"),
        (
            {"faithful": "fine"},
            "faithful of anomaly log_hole is 'fine'; allowed: one of violation, allowed, informational",
        ),
        (
            {"by_damage": True, "excuse": "it rained"},
            "by_damage of anomaly log_hole is True; allowed: False for one that has an excuse or is "
            "no violation by itself",
        ),
    ],
)
def test_a_wrong_declaration_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AnomalyError) as caught:
        check_anomaly(replace(HOLE, **changes))
    assert str(caught.value) == sentence


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(AnomalyError, match="two anomalies have the name 'lost'; allowed: one"):
        by_name([LOST, HOLE, LOST])


@pytest.mark.parametrize(
    ("found_by", "sentence"),
    [
        ({"loss": ["lost"]}, "anomaly log_hole is declared, and no checker finds it"),
        (
            {"loss": ["lost"], "holes": ["log_hole", "odd"]},
            "anomaly odd of checker holes is not declared",
        ),
        (
            {"loss": ["lost"], "holes": ["log_hole", "lost"]},
            "anomaly lost is found by loss and holes; allowed: one checker",
        ),
    ],
)
def test_each_anomaly_is_found_by_one_checker(
    found_by: dict[str, list[str]], sentence: str
) -> None:
    check_found([LOST.name, HOLE.name], {"loss": ["lost"], "holes": ["log_hole"]})
    with pytest.raises(AnomalyError) as caught:
        check_found([LOST.name, HOLE.name], found_by)
    assert str(caught.value) == sentence


def test_excuses_of_faithful_mode_are_of_declared_anomalies() -> None:
    faithful = {of.removeprefix("faithful ") for of in EXCUSES if of.startswith("faithful ")}
    assert faithful <= set(ANOMALIES)
