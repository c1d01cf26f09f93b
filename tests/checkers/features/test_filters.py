"""Filters: what a group must and must not be given, also around a change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checkers.stories import Story
from tests.support.history_language import GROUP, fault


def test_a_group_gets_what_its_filter_lets_through() -> None:
    wants_red = {"wanted_tags": {GROUP: ("red",)}}
    story = Story().send(0.0, "a", tag="red").send(0.1, "b", tag="blue").send(0.2, "c")
    story.consume(1.0, "a", 0).op(
        1.5, "ok", "commit", {"group": GROUP, "topic": "t", "offsets": [["b", 0, 3]]}
    )
    story.drained(2.0, end=3)
    for checker in ("filters", "loss", "offsets", "polls"):
        assert story.counts(checker, **wants_red) == set()
    assert "lost" in story.counts("loss")
    for key, offset in (("b", 1), ("c", 2)):
        again = Story().send(0.0, "a", tag="red").send(0.1, "b", tag="blue").send(0.2, "c")
        assert again.consume(1.0, key, offset).counts("filters", **wants_red) == {
            "unwanted_delivery"
        }


CHANGED = {
    "wanted_tags": {GROUP: ("blue", "green")},
    "wanted_before": {GROUP: ("red", "green")},
    "filters_changed_ns": {GROUP: 5 * 10**9},
}


@pytest.mark.parametrize(
    ("tag", "sent_s", "is_wanted", "is_demanded"),
    [
        ("red", 4.9, True, False),  # by the first filter
        ("blue", 4.9, True, False),  # it may have been consumed when the second one held
        ("green", 4.9, True, True),  # by both
        ("black", 4.9, False, False),
        ("red", 5.0, False, False),
        ("blue", 5.0, True, True),
        ("green", 5.0, True, True),
    ],
)
def test_a_group_that_changes_its_filter(
    tag: str, sent_s: float, is_wanted: bool, is_demanded: bool
) -> None:
    given = Story().send(sent_s, "a", tag=tag).consume(9.0, "a", 0)
    assert given.counts("filters", **CHANGED) == (set() if is_wanted else {"unwanted_delivery"})
    missed = Story().send(sent_s, "a", tag=tag).drained(9.0, end=1)
    assert missed.counts("loss", **CHANGED) == ({"lost"} if is_demanded else set())


CHANGE = {"faults": (fault("filter_change", "c1", at_s=4.0, healed_s=5.0),)}


@pytest.mark.parametrize(
    ("tag", "given_s", "known", "is_wanted"),
    [
        ("red", 3.9, CHANGE, True),
        ("blue", 3.9, CHANGE, False),  # no member can have asked for it
        ("blue", 3.9, {}, True),  # nothing says when the first one did
        ("blue", 4.0, CHANGE, True),
        ("red", 4.0, CHANGE, True),
    ],
)
def test_before_a_change_the_first_filter_alone_holds(
    tag: str, given_s: float, known: dict[str, Any], is_wanted: bool
) -> None:
    given = Story().send(1.0, "a", tag=tag).consume(given_s, "a", 0)
    found = given.counts("filters", **CHANGED, **known)
    assert found == (set() if is_wanted else {"unwanted_delivery"})


@pytest.mark.parametrize(
    ("tag", "given_s", "known", "skips"),
    [
        ("red", 3.9, CHANGE, True),
        ("red", 3.9, {}, False),
        ("red", 4.1, CHANGE, False),  # the owner may have the second filter already
        ("blue", 3.9, CHANGE, False),
        ("green", 4.1, CHANGE, True),
    ],
)
def test_before_a_change_what_the_first_filter_takes_is_not_passed_over(
    tag: str, given_s: float, known: dict[str, Any], skips: bool
) -> None:
    sent = Story().send(0.0, "a", tag="green").send(0.1, "b", tag=tag).send(0.2, "c", tag="green")
    sent.consume(1.0, "a", 0)
    commit = {"group": GROUP, "topic": "t", "offsets": [["b", 0, 2]]}
    passed = sent.op(given_s - 0.5 if skips else given_s, "ok", "commit", commit)
    assert passed.counts("offsets", **CHANGED, **known) == ({"commit_ahead"} if skips else set())
    passed.consume(given_s, "c", 2)
    assert passed.counts("polls", **CHANGED, **known) == ({"poll_skip"} if skips else set())


def test_a_filter_excuses_no_skip_of_what_is_wanted() -> None:
    wants_red = {"wanted_tags": {GROUP: ("red",)}}
    story = Story().send(0.0, "a", tag="red").send(0.1, "b", tag="red").send(0.2, "c", tag="red")
    story.consume(1.0, "a", 0).op(
        1.5, "ok", "commit", {"group": GROUP, "topic": "t", "offsets": [["b", 0, 2]]}
    )
    assert story.counts("offsets", **wants_red) == {"commit_ahead"}
    assert story.consume(2.0, "c", 2).counts("polls", **wants_red) == {"poll_skip"}


def test_a_group_may_pass_over_what_came_in_the_place_of_what_it_wanted() -> None:
    wants_red = {"wanted_tags": {GROUP: ("red",)}}
    story = Story().send(0.0, "a", tag="red").send(0.1, "b", tag="red")
    story.place_next(1)  # a power cut took b
    story.send(3.0, "c", tag="blue").consume(4.0, "a", 0)
    commit = {"group": GROUP, "topic": "t", "offsets": [["b", 0, 2]]}
    assert story.op(5.0, "ok", "commit", commit).counts("offsets", **wants_red) == set()


@pytest.mark.parametrize(
    ("given", "skips"),
    [
        ((4.0, "c", 1), False),
        ((0.05, "c", 1), True),  # b came later
        ((4.0, "b", 1), True),
        ((4.0, "a", 1), True),  # a is stored elsewhere: the broker gave out a wrong message
        ((4.0, "c", 2), True),
    ],
)
def test_a_delivery_to_another_group_shows_what_came_in_the_place_of_a_lost_message(
    given: tuple[float, str, int], skips: bool
) -> None:
    """A power cut took b, and c was sent without an answer."""
    wants_red = {"wanted_tags": {GROUP: ("red",)}}
    story = Story().send(0.0, "a", tag="red").send(0.1, "b", tag="red")
    story.send(3.0, "c", "info", tag="blue").consume(4.0, "a", 0)
    at_s, key, offset = given
    story.consume(at_s, key, offset, group="h", process=101)
    commit = {"group": GROUP, "topic": "t", "offsets": [["b", 0, 2]]}
    found = story.op(5.0, "ok", "commit", commit).counts("offsets", **wants_red)
    assert found == ({"commit_ahead"} if skips else set())
