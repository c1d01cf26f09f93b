"""Order of orderly groups and of sharding keys."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.model.history import OpType
from tests.checkers.stories import Story
from tests.support.history_language import BROKER, GROUP, TOPIC, fault
from tests.support.reference_semantics import order_violated, retry_uncounted

ORDERLY = {"orderly": (GROUP,)}
OWNER, OTHER = 100, 101


def test_an_orderly_group_finishes_one_before_it_begins_the_next() -> None:
    orderly = {"orderly": (GROUP,)}

    def sent() -> Story:
        return Story().send(0.0, "a").send(0.1, "b")

    held_up = sent().consume(1.0, "a", 0, "info").consume(2.0, "a", 0).consume(3.0, "b", 1)
    assert held_up.counts("orderly", **orderly) == set()
    handed_over = (
        sent()
        .consume(1.0, "a", 0)
        .consume(2.0, "a", 0, process=101)
        .consume(3.0, "b", 1, process=101)
    )
    assert handed_over.counts("orderly", **orderly) == set()
    order_violated = sent().consume(1.0, "a", 0, "info").consume(2.0, "b", 1).consume(3.0, "a", 0)
    assert order_violated.counts("orderly", **orderly) == {"order_violated"}
    assert order_violated.counts("orderly") == set()  # concurrent groups may


def test_a_sharding_key_keeps_its_queue() -> None:
    orderly = {"orderly": (GROUP,)}
    stays = Story().send(0.0, "a", sharding_key="k").send(1.0, "b", queue=1, sharding_key="l")
    assert stays.counts("sharding_keys", **orderly) == set()
    moves = Story().send(0.0, "a", sharding_key="k").send(1.0, "b", queue=1, sharding_key="k")
    assert moves.counts("sharding_keys", **orderly) == {"key_moved"}
    grown = fault("topic_change", at_s=0.5, healed_s=0.6)
    assert moves.counts("sharding_keys", **orderly, faults=(grown,)) == {"key_moved_allowed"}
    unheard = replace(grown, bitten_ns=None)  # the leader may have made the queues
    assert moves.counts("sharding_keys", **orderly, faults=(unheard,)) == {"key_moved_allowed"}
    before = fault("topic_change", at_s=-100, healed_s=-99, bitten=False)
    assert moves.counts("sharding_keys", **orderly, faults=(before,)) == {"key_moved"}


def hot(share: int, wait_s: float) -> Story:
    story = Story()
    for number in range(10):
        key, queue = ("hot", 0) if number < share else ("cold", 1)
        story.send(number / 10, f"m{number}", queue=queue, sharding_key=key)
    for number in range(10):
        queue, offset = (0, number) if number < share else (1, number - share)
        story.consume(2.0 + (wait_s if not queue else 0.0), f"m{number}", offset, queue=queue)
    return story


@pytest.mark.parametrize(
    ("node", "replica_sets", "found"),
    [
        ("n0", {"b": ("n0", "n1"), "c": ("m0",)}, {"key_moved_allowed"}),
        ("m0", {"b": ("n0", "n1"), "c": ("m0",)}, {"key_moved_allowed"}),
        ("n1", {"b": ("n0", "n1"), "c": ("m0",)}, {"key_moved"}),  # a follower
        ("n0", {"b": ("n0", "n1")}, {"key_moved"}),  # the only leader: all routes are alike
    ],
)
def test_only_the_absence_of_one_of_several_leaders_moves_a_key(
    node: str, replica_sets: dict[str, tuple[str, ...]], found: set[str]
) -> None:
    moves = Story().send(0.0, "a", sharding_key="k").send(10.0, "b", queue=1, sharding_key="k")
    killed = fault("kill", node, at_s=5, healed_s=9)
    known = {"orderly": ("g",), "faults": (killed,), "replica_sets": replica_sets}
    assert moves.counts("sharding_keys", **known) == found


def test_a_hot_key_that_makes_its_queue_wait_is_reported_in_words() -> None:
    orderly = {"orderly": (GROUP,)}
    [finding] = hot(8, 60.0).verdict("sharding_keys", **orderly).findings
    assert finding.anomaly == "hot_key"
    assert "sharding key hot has 8 of 10 messages" in finding.detail
    assert hot(8, 0.0).counts("sharding_keys", **orderly) == set()
    assert hot(5, 60.0).counts("sharding_keys", **orderly) == set()


def owns(
    story: Story, at_s: float, *, process: int = OWNER, queues: tuple[int, ...] = (0,)
) -> Story:
    value = {"group": GROUP, "topic": TOPIC, "queues": [[BROKER, queue] for queue in queues]}
    return story.op(at_s, "ok", "assign", value, process=process)


def given_again(*offsets: int, regained: bool = True) -> Story:
    """An owner consumes offsets 0 to 2, gives the queue up, has it again, and consumes these offsets."""
    story = owns(Story(), 0.5)
    for offset in range(3):
        story.send(1.0 + offset, f"k{offset}").consume(1.5 + offset, f"k{offset}", offset)
    if regained:
        owns(owns(story, 5.0, queues=()), 5.1)
    for number, offset in enumerate(offsets):
        story.consume(6.0 + number, f"k{offset}", offset)
    return story


def failed_for(*tries: int, **again: Any) -> Story:
    """An owner whose listener fails for a message, and its calls for it, with these retry counts."""
    story = owns(Story(), 0.5).send(1.0, "a")
    for number, count in enumerate(tries[:-1]):
        story.consume(2.0 + number, "a", 0, "info", tries=count)
    return story.consume(2.0 + len(tries), "a", 0, tries=tries[-1], **again)


def test_an_owner_counts_the_calls_that_failed() -> None:
    assert failed_for(0, 1, 2).counts("orderly", **ORDERLY) == set()
    assert (
        failed_for(3, 4).counts("orderly", **ORDERLY) == set()
    )  # the count is stored with a retry
    [finding] = failed_for(0, 1, 1).verdict("orderly", **ORDERLY).findings
    assert (finding.anomaly, finding.key, finding.queue_offset) == ("retry_uncounted", "a", 0)
    assert (
        finding.detail == "the listener failed for it, with retry count 1, and its next call has 1"
    )
    assert failed_for(0, 0).counts("orderly") == set()  # its members repeat nothing themselves
    assert failed_for(2, 1).counts("orderly", **ORDERLY) == {"retry_uncounted"}


def test_an_owner_that_gains_the_queue_again_counts_from_the_start() -> None:
    story = owns(Story(), 0.5).consume(1.0, "a", 0, "info")
    owns(owns(story, 2.0, queues=()), 2.1).consume(3.0, "a", 0)
    assert story.counts("orderly", **ORDERLY) == set()
    other = owns(Story(), 0.5).consume(1.0, "a", 0, "info")
    owns(owns(other, 2.0, queues=()), 2.1, process=OTHER).consume(3.0, "a", 0, process=OTHER)
    assert other.counts("orderly", **ORDERLY) == set()
    unreported = Story().consume(1.0, "a", 0, "info").consume(3.0, "a", 0)
    assert unreported.counts("orderly", **ORDERLY) == set()


def test_a_call_that_has_not_ended_was_no_failure() -> None:
    story = owns(Story(), 0.5).consume(1.0, "a", 0, "invoke").consume(3.0, "a", 0)
    assert story.counts("orderly", **ORDERLY) == set()
    assert failed_for(0, 0, queue=1).counts("orderly", **ORDERLY) == set()


def test_what_an_owner_is_given_again_is_in_order_too() -> None:
    assert given_again(0, 1, 2).counts("orderly", **ORDERLY) == set()
    assert given_again(1, 2).counts("orderly", **ORDERLY) == set()
    assert given_again(0, 1, 0, 1, 2).counts("orderly", **ORDERLY) == set()
    assert given_again(0, 2, 1).counts("orderly", **ORDERLY) == {"order_violated"}
    assert given_again(0, 2, 1).counts("orderly") == set()
    [finding] = given_again(0, 2, 1).verdict("orderly", **ORDERLY).findings
    assert (finding.key, finding.queue_offset) == ("k2", 2)


def test_the_next_owner_is_given_again_what_the_former_one_had() -> None:
    story = given_again(1, 2)
    owns(owns(story, 9.0, queues=()), 9.1, process=OTHER)
    story.consume(10.0, "k0", 0, process=OTHER).consume(11.0, "k1", 1, process=OTHER)
    assert story.counts("orderly", **ORDERLY) == set()


def test_a_group_that_does_not_say_who_owns_the_queue_is_judged_by_what_came_first() -> None:
    story = Story()
    for number, offset in enumerate((0, 1, 2, 0, 2, 1)):
        story.consume(1.0 + number, f"k{offset}", offset)
    assert story.counts("orderly", **ORDERLY) == set()


def random_story(seed: int) -> Story:
    """Two members that gain and lose two queues, and four messages in each that come again and again."""
    random = Random(seed)
    story = Story()
    for number in range(random.randrange(4, 16)):
        at_s = 1.0 + number
        process = random.choice((OWNER, OTHER))
        if random.random() < 0.3:
            owns(story, at_s, process=process, queues=random.choice(((), (0,), (0, 1))))
            continue
        queue, offset = random.randrange(2), random.randrange(4)
        end: OpType = random.choice(("ok", "ok", "ok", "info"))
        tries = random.randrange(3)
        story.consume(
            at_s, f"k{queue}{offset}", offset, end, queue=queue, process=process, tries=tries
        )
    return story


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_against_the_reference(seed: int) -> None:
    story = random_story(seed)
    found = story.verdict("orderly", **ORDERLY).counts
    for reference in (order_violated, retry_uncounted):
        assert found.get(reference.__name__, 0) == reference(story.ops, (GROUP,)).total()


def test_the_reference_finds_some() -> None:
    for reference in (order_violated, retry_uncounted):
        found = [bool(reference(random_story(seed).ops, (GROUP,))) for seed in range(120)]
        assert 8 <= sum(found) <= 110
