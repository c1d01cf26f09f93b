"""The table of promises: complete, and consistent with the checkers."""

from __future__ import annotations

import pytest

from staticfire.checkers.guarantees.anomaly_rules import RULES
from staticfire.checkers.guarantees.fault_effects import default_damage
from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.promise_table import (
    ANYTHING,
    DAMAGES,
    PROFILES,
    Profile,
    promises_of,
)
from staticfire.checkers.guarantees.promises import Damage, judge
from staticfire.checkers.verdicts.compose import ALL_CHECKERS

VIOLATION, ALLOWED, INFORMATIONAL = Judgement
ANOMALIES = [name for checker in ALL_CHECKERS for name in checker.anomalies]


def after(profile: Profile, anomaly: str) -> dict[str, Judgement]:
    return {line.damage: line.judgement for line in promises_of(profile, anomaly)}


def test_every_anomaly_of_every_checker_has_its_line_and_no_other_has() -> None:
    assert sorted(RULES) == sorted(ANOMALIES)


def test_no_two_checkers_find_the_same_anomaly() -> None:
    assert len(ANOMALIES) == len(set(ANOMALIES))


@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_every_profile_has_an_answer_for_every_anomaly(profile: Profile) -> None:
    for anomaly in RULES:
        lines = list(promises_of(profile, anomaly))
        assert {line.damage for line in lines} <= {ANYTHING, *DAMAGES}
        assert len(lines) == len({line.damage for line in lines}) > 0


def test_what_a_checker_asks_is_what_the_table_shows() -> None:
    for profile in PROFILES:
        for anomaly, rule in RULES.items():
            if not rule.by_damage:
                assert after(profile, anomaly) == {ANYTHING: judge(profile.mode, anomaly)}


@pytest.mark.parametrize(
    ("profile", "damage", "judgement"),
    [
        (Profile("sync", "sync"), "power loss of all replicas", VIOLATION),
        (Profile("sync", "none"), "disk of the leader lost", ALLOWED),
        (Profile("async", "none"), "kill of the leader", VIOLATION),
        (Profile("pool", "none"), "kill of the leader", ALLOWED),
        (Profile("async", "sync"), "power loss of the leader", VIOLATION),
        (Profile("async", "sync", "faithful"), "power loss of the leader", INFORMATIONAL),
    ],
)
def test_a_loss_depends_on_the_damage(profile: Profile, damage: str, judgement: Judgement) -> None:
    assert after(profile, "lost")[damage] == judgement


def test_without_a_slave_none_is_damaged() -> None:
    assert "disk of the follower lost" not in after(Profile("sync", "none"), "lost")


def test_every_destructive_fault_is_among_the_damages() -> None:
    asked = {Damage[default_damage(kind).upper()] for kind, _ in DAMAGES.values()}
    assert asked == set(Damage)


def test_an_anomaly_that_is_not_in_the_table_is_a_violation() -> None:
    assert judge("faithful", "never heard of") == VIOLATION
