"""Subscriptions of the members of one group."""

from __future__ import annotations

from tests.checkers.stories import Story


def test_members_with_different_subscriptions_are_reported_in_words() -> None:
    story = Story().opened("c2", 101, expression="tag3").opened("c1", 100, expression="tag1||tag2")
    story.send(0.1, "a", tag="tag1").send(0.2, "b", tag="tag3").consume(1.0, "a", 0)
    verdict = story.verdict("subscriptions")
    [finding] = verdict.findings
    assert finding.anomaly == "subscriptions_differ"
    assert "c1 asks for 'tag1||tag2' of t; c2 asks for 'tag3' of t" in finding.detail
    assert "1 of 1 tag1 messages of t; 0 of 1 tag3 messages of t" in finding.detail


def test_a_member_that_differed_until_its_restart() -> None:
    story = Story().opened("c1", 100).opened("c2", 101, expression="tag3").opened("c2", 102)
    [finding] = story.verdict("subscriptions").findings
    assert "c1 asks for '*' of t; c2 asks for 'tag3' of t" in finding.detail


def test_members_of_a_group_whose_filter_was_changed_are_restarted_one_by_one() -> None:
    story = Story().opened("c1", 100).opened("c2", 101)
    story.opened("c1", 102, expression="tag3").opened("c2", 103, expression="tag3")
    assert story.verdict("subscriptions").valid is False
    assert story.verdict("subscriptions", filters_changed_ns={"g": 0}).valid is True
    story.opened("c2", 104, expression="tag4")
    assert story.verdict("subscriptions", filters_changed_ns={"g": 0}).valid is False


def test_members_with_equal_subscriptions_and_other_groups_do_not_differ() -> None:
    story = Story().opened("c1", 100).opened("c2", 101).opened("c3", 102, group="h", expression="x")
    assert story.verdict("subscriptions").valid is True
