"""Broadcasting: every member gets everything."""

from __future__ import annotations

from tests.checkers.stories import Story
from tests.support.history_language import GROUP


def test_every_member_of_a_broadcasting_group_gets_everything() -> None:
    def begun() -> Story:
        return Story().opened("c1", 100).opened("c2", 101).send(0.1, "a").consume(1.0, "a", 0)

    broadcasting = {"broadcasting": (GROUP,)}
    missed = begun().drained(9.0, end=1)
    assert missed.counts("broadcasting", **broadcasting) == {"member_missed"}
    assert missed.counts("broadcasting") == set()
    both = begun().consume(2.0, "a", 0, process=101).drained(9.0, end=1)
    assert both.counts("broadcasting", **broadcasting) == set()
    assert both.verdict("duplication", **broadcasting).counts == {}
    dropped = begun().consume(2.0, "a", 0, "info", process=101).drained(9.0, end=1)
    assert dropped.counts("broadcasting", **broadcasting) == set()


def test_what_one_member_was_given_is_due_to_every_member() -> None:
    story = Story().opened("c1", 100).opened("c2", 101)
    story.send(0.1, "a", "info").consume(1.0, "a", 0).drained(9.0, end=1)
    assert story.counts("broadcasting", broadcasting=(GROUP,)) == {"member_missed"}


def test_a_member_that_was_started_anew_is_still_the_same() -> None:
    story = Story().opened("c1", 100).send(0.1, "a").consume(1.0, "a", 0)
    story.op(
        2.0, "ok", "open", {"group": GROUP, "topic": "t", "expression": "*"}, process=102, node="c1"
    )
    story.drained(9.0, end=1)
    assert story.counts("broadcasting", broadcasting=(GROUP,)) == set()
