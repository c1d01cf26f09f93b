"""Campaigns that a guided hunt breeds, and the progress that it reports."""

from __future__ import annotations

import pytest

from staticfire.harness.cli.hunt.breeding import (
    GENERATION,
    Population,
    behaviours_of,
    bred,
    is_bred,
    options_of,
)
from staticfire.harness.cli.hunt.pace import growth, rate_text
from staticfire.harness.draws.campaign import draw_campaign

GIVEN = {"workload": "queue", "time_s": 30.0}


def test_bred_campaigns_are_accepted_differ_and_repeat() -> None:
    parents = [draw_campaign(seed, GIVEN) for seed in range(3)]
    for seed in range(100, 130):
        drawn = draw_campaign(seed, GIVEN)
        child = bred(drawn, parents)
        assert child.seed == seed
        assert child not in parents
        assert child == bred(drawn, parents)
        assert draw_campaign(seed, options_of(child)) == child


def test_a_bred_campaign_is_near_one_of_its_parents() -> None:
    parent = draw_campaign(1, GIVEN)
    kept = changed = 0
    for seed in range(100, 130):
        child = bred(draw_campaign(seed, GIVEN), [parent])
        theirs = {(one.kind, one.targets, one.at_s) for one in parent.plan}
        ours = {(one.kind, one.targets, one.at_s) for one in child.plan}
        kept += len(ours & theirs)
        changed += len(ours ^ theirs)
    assert 0 < changed < kept


def test_options_that_were_given_stay() -> None:
    given = {**GIVEN, "queues": 7, "flush": "async"}
    parents = [draw_campaign(1, given)]
    for seed in range(100, 130):
        child = bred(draw_campaign(seed, given), parents)
        assert (child.queues, child.flush) == (7, "async")


def test_only_what_is_new_makes_a_parent() -> None:
    population = Population([], set())
    first, second = (draw_campaign(seed, GIVEN) for seed in (1, 2))
    assert population.take(first, {"a": 3, "b": 0})
    assert not population.take(second, {"a": 2})
    assert population.take(second, {"a": 4})
    assert population.parents == [first, second]


def test_a_behaviour_is_a_mark_and_about_how_often() -> None:
    assert behaviours_of({"a": 1, "b": 0, "c": 5}) == {("a", 1), ("c", 3)}
    assert behaviours_of({"c": 7}) == behaviours_of({"c": 4})


def test_the_first_generation_and_every_other_seed_are_drawn() -> None:
    population = Population([draw_campaign(1, GIVEN)], set())
    assert not any(is_bred(index, population) for index in range(GENERATION))
    assert [is_bred(GENERATION + n, population) for n in range(4)] == [False, True, False, True]
    assert not is_bred(GENERATION + 1, Population([], set()))


@pytest.mark.parametrize(
    ("count", "seconds", "text"),
    [
        (300, 60.0, "5.0 a second"),
        (30, 60.0, "30 a minute"),
        (1, 50.0, "1.2 a minute"),
        (1, 600.0, "6.0 an hour"),
        (1, 7200.0, "less than 1 an hour"),
        (0, 0.0, "less than 1 an hour"),
    ],
)
def test_a_rate_can_be_read(count: int, seconds: float, text: str) -> None:
    assert rate_text(count, seconds) == text


def test_behaviours_over_time() -> None:
    runs = [{"a": 1}, {"a": 1}, {"b": 1}, {"a": 2}]
    assert growth(runs) == [(1, 1), (2, 1), (4, 3)]
    assert growth([]) == []
