"""Resets of offsets: queues that must start again from the reset offset, and queues that need not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.groups.resets import RESETS
from staticfire.checkers.guarantees.facts import FaultFacts, OffsetsReset
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import OpType
from staticfire.checkers.verdicts.compose import check_run
from tests.checkers.stories import Story
from tests.support.history_language import BROKER, GROUP, NODE, TOPIC, facts, fault
from tests.support.one_checker import only
from tests.support.reference_resets import ignored

OWNER, OTHER = 100, 101
S = 10**9
RESET = OffsetsReset(
    group=GROUP, topic=TOPIC, stream=BROKER, asked_ns=20 * S, answered_ns=20 * S + 1_000_000
)
IN_THE_MIDDLE = 25.0


def operator(*resets: OffsetsReset) -> FaultFacts:
    return replace(fault("offsets_reset", at_s=20, healed_s=21), resets=resets or (RESET,))


def assign(story: Story, at_s: float, *queues: int, process: int = OWNER) -> Story:
    value = {"group": GROUP, "topic": TOPIC, "queues": [[BROKER, queue] for queue in queues]}
    return story.op(at_s, "ok", "assign", value, process=process, node=f"c{process}")


def drained(story: Story, low: int = 0, type_: Any = "ok") -> Story:
    """Both queues, of which messages below `low` are deleted."""
    rows = [[BROKER, queue, low, 3, 3] for queue in (0, 1)]
    value = {"group": GROUP, "topic": TOPIC, "queues": rows, "lag": 0 if type_ == "ok" else 1}
    return story.op(90, type_, "drain", value, process=999)


def consumed() -> Story:
    """One owner has consumed offsets 0 to 2 of its queue by the time of the reset."""
    story = assign(Story().opened(f"c{OWNER}", OWNER), 0.5, 0)
    for offset in range(3):
        story.send(1.0 + offset, f"k{offset}").consume(1.5 + offset, f"k{offset}", offset)
    return story


def come_again(story: Story, *offsets: int) -> Story:
    for offset in offsets:
        story.consume(40.0 + offset, f"k{offset}", offset)
    return story


def counts(story: Story, *more: FaultFacts, **changes: Any) -> set[str] | None:
    """What was counted; None: no reset can be judged."""
    known = facts(faults=(operator(), *more), **changes)
    if not RESETS.applies(
        Context(facts=known, timeline=build_columns(story.ops)[1], promises=LossPromises(known))
    ):
        return None
    return story.counts("resets", faults=known.faults, **changes)


def test_what_was_consumed_must_come_again() -> None:
    assert counts(drained(come_again(consumed(), 0, 1, 2))) == set()
    verdict = drained(consumed()).verdict("resets", faults=(operator(),))
    (finding,) = verdict.findings
    assert (finding.anomaly, finding.key, finding.queue_offset, finding.group) == (
        "reset_ignored",
        "k0",
        0,
        GROUP,
    )
    assert finding.detail == (
        "the group was sent back to the beginning of the queue at 20.001 s, and this message did not come again "
        "to its owner, process 100 on c100"
    )
    assert verdict.counts["resets_judged"] == 1


def test_a_group_that_begins_in_the_middle_has_not_begun_again() -> None:
    assert counts(drained(come_again(consumed(), 1, 2))) == {"reset_ignored"}


@pytest.mark.parametrize(
    ("offset", "again", "expected"),
    [
        (1, (1, 2), set()),
        (1, (2,), {"reset_ignored"}),
        (1, (), {"reset_ignored"}),
        (2, (2,), set()),
        (2, (0, 1, 2), set()),
        (3, (), set()),  # nothing of that had been consumed
    ],
)
def test_a_group_goes_back_to_the_offset_that_it_was_given(
    offset: int, again: tuple[int, ...], expected: set[str]
) -> None:
    story = drained(come_again(consumed(), *again))
    known = operator(replace(RESET, offsets=((0, offset), (1, 0))))
    assert set(story.counts("resets", faults=(known,))) - {"resets_judged"} == expected
    for finding in story.verdict("resets", faults=(known,)).findings:
        assert (finding.key, finding.queue_offset) == (f"k{offset}", offset)
        assert f"was sent back to offset {offset} of the queue at 20.001 s" in finding.detail


def test_a_queue_of_which_the_answer_says_nothing_is_not_judged() -> None:
    known = facts(faults=(operator(replace(RESET, offsets=((1, 0),))),))
    timeline = build_columns(drained(consumed()).ops)[1]
    context = Context(facts=known, timeline=timeline, promises=LossPromises(known))
    assert not RESETS.applies(context)


def test_another_member_may_be_given_it() -> None:
    story = assign(assign(consumed(), 35.0), 36.0, 0, process=OTHER)
    assert counts(drained(story.consume(40.0, "k0", 0, process=OTHER))) == set()
    assert counts(drained(assign(assign(consumed(), 35.0), 36.0, 0, process=OTHER))) == {
        "reset_ignored"
    }


@pytest.mark.parametrize("at_s", [20.0, IN_THE_MIDDLE])
def test_a_queue_that_changes_its_owner_meanwhile_is_not_judged(at_s: float) -> None:
    assert counts(drained(assign(consumed(), at_s))) is None


def test_two_owners_are_none() -> None:
    assert counts(drained(assign(consumed(), 10.0, 0, process=OTHER))) is None


def test_an_owner_that_was_killed_is_none_any_more() -> None:
    story = assign(Story().opened("c7", OTHER), 0.2, 0, process=OTHER)
    for op in consumed().ops:
        story.op(op.time_ns / S, op.type, op.f, dict(op.value), process=op.process, node=op.node)
    killed = fault("client_crash", "c7", at_s=0.3, healed_s=0.4)
    assert counts(drained(story)) is None
    assert counts(drained(story), killed) == {"reset_ignored"}


def test_a_group_that_is_not_drained_may_still_come_to_it() -> None:
    assert counts(consumed()) is None
    assert counts(drained(consumed(), type_="info")) is None


def test_what_retention_has_deleted_cannot_come() -> None:
    assert counts(drained(consumed(), low=3)) == set()
    assert counts(drained(come_again(consumed(), 1, 2), low=1)) == set()
    assert counts(drained(come_again(consumed(), 2), low=1)) == {"reset_ignored"}


@pytest.mark.parametrize("again", [(0,), (0, 1), (0, 2)])
def test_a_group_that_leaves_out_what_comes_later_has_not_begun_again(
    again: tuple[int, ...],
) -> None:
    assert counts(drained(come_again(consumed(), *again))) == {"reset_ignored"}


def taken_over(*again: int) -> Story:
    """After the owner was given some messages again, another member took the queue over and was given offset 3."""
    story = come_again(consumed(), *again)
    return drained(assign(assign(story, 50.0), 51.0, 0, process=OTHER))


def test_the_next_owner_may_begin_further_on() -> None:
    assert counts(taken_over(0)) == set()
    assert counts(taken_over(0, 1)) == set()


def test_what_an_owner_left_out_before_it_gave_the_queue_up_is_missing() -> None:
    assert counts(taken_over(0, 2)) == {"reset_ignored"}
    silent = fault("pause", f"c{OWNER}", at_s=45, healed_s=49)
    assert counts(taken_over(0, 2), silent) == {"reset_ignored_allowed"}
    assert counts(taken_over(1, 2), silent) == {"reset_ignored"}
    elsewhere = fault("pause", "c7", at_s=45, healed_s=49)
    assert counts(taken_over(0, 2), elsewhere) == {"reset_ignored"}


def test_an_owner_that_ended_may_have_had_more_in_its_hands() -> None:
    killed = fault("client_crash", f"c{OWNER}", at_s=45, healed_s=46)
    assert counts(drained(come_again(consumed(), 0, 2)), killed) == set()
    assert counts(drained(come_again(consumed(), 1, 2)), killed) == {"reset_ignored"}


@pytest.mark.parametrize(("again_s", "expected"), [(39.0, set()), (60.0, {"reset_ignored"})])
def test_another_reset_sends_the_group_elsewhere(again_s: float, expected: set[str]) -> None:
    """The first one is open from the second one on, which itself is carried out."""
    at_ns = int(again_s * S)
    second = replace(RESET, asked_ns=at_ns, answered_ns=at_ns, offsets=((0, 2), (1, 0)))
    story = drained(come_again(consumed(), 0, 2).consume(61.0, "k2", 2))
    known = operator(RESET, second)
    assert set(story.counts("resets", faults=(known,))) - {"resets_judged"} == expected


def test_what_was_not_consumed_before_says_nothing() -> None:
    story = assign(Story().opened(f"c{OWNER}", OWNER), 0.5, 0).send(1.0, "k0")
    assert counts(drained(story.consume(1.5, "k0", 0, "info"))) == set()
    late = assign(Story().opened(f"c{OWNER}", OWNER), 0.5, 0).send(1.0, "k0")
    assert counts(drained(late.consume(21.5, "k0", 0))) == set()


def test_a_group_that_asks_for_other_messages_by_then_is_not_judged() -> None:
    assert counts(drained(consumed()), filters_changed_ns={GROUP: 30 * S}) is None


@pytest.mark.parametrize("kind", ["kill", "pause", "partition_one"])
@pytest.mark.parametrize("node", [NODE, f"c{OWNER}"])
def test_the_order_may_be_lost(kind: str, node: str) -> None:
    links = ((NODE, f"c{OWNER}"),) if kind.startswith("partition") else ()
    near = replace(fault(kind, node, at_s=20.5, healed_s=22), links=links)
    assert counts(drained(consumed()), near) == {"reset_ignored_allowed"}
    later = replace(near, fired_ns=50 * S, bitten_ns=50 * S, healed_ns=52 * S)
    assert counts(drained(consumed()), later) == {"reset_ignored"}


def test_a_broker_that_was_away_knows_its_members_by_their_next_heartbeat() -> None:
    for healed_s, found in ((2.0, "reset_ignored_allowed"), (-11.0, "reset_ignored")):
        kill = fault("kill", NODE, at_s=healed_s - 1, healed_s=healed_s)
        assert counts(drained(consumed()), kill) == {found}


@pytest.mark.parametrize(("since_s", "counted"), [(28.0, "_informational"), (68.0, "")])
def test_an_order_that_the_network_holds_up_is_carried_out_late(
    since_s: float, counted: str
) -> None:
    """Cut off from 15 s to 42 s: sent again by 64 s, and known 3 s later."""
    story = consumed()
    for time_s, offset in ((since_s, 3), (since_s + 1, 0)):
        value = {"group": GROUP, "topic": TOPIC, "offsets": [[BROKER, 0, offset]]}
        story.op(time_s, "ok", "commit", value, process=OWNER, node=f"c{OWNER}")
    cut = fault("partition_one", NODE, at_s=15, healed_s=42)
    cut = replace(cut, links=((NODE, f"c{OWNER}"),))
    held_up = story.verdict("offsets", faults=(operator(), cut)).counts
    assert f"commit_rewound{counted}" in held_up
    assert "commit_rewound" in story.verdict("offsets", faults=(operator(),)).counts


@pytest.mark.parametrize(
    ("kind", "target", "links"),
    [
        ("partition_one", NODE, ((NODE, "c7"),)),
        ("partition_one", "n1", (("n1", f"c{OWNER}"),)),
        ("pause", "n1", ()),
        ("network_latency", "c7", ()),
    ],
)
def test_what_is_not_between_leader_and_owner_holds_nothing_up(
    kind: str, target: str, links: tuple[tuple[str, str], ...]
) -> None:
    story = consumed()
    for time_s, offset in ((28.0, 3), (29.0, 0)):
        value = {"group": GROUP, "topic": TOPIC, "offsets": [[BROKER, 0, offset]]}
        story.op(time_s, "ok", "commit", value, process=OWNER, node=f"c{OWNER}")
    elsewhere = replace(fault(kind, target, at_s=15, healed_s=42), links=links)
    assert "commit_rewound" in story.verdict("offsets", faults=(operator(), elsewhere)).counts


def test_faults_of_others_excuse_nothing() -> None:
    other = fault("kill", "c7", at_s=15, healed_s=22)
    assert counts(drained(consumed()), other) == {"reset_ignored"}


def random_story(seed: int) -> tuple[Story, tuple[OffsetsReset, ...]]:
    """Two members that share two queues once to three times, and messages that come once or twice."""
    random = Random(seed)
    story = Story()
    shared_at = [0.5, *(random.uniform(1, 60) for _ in range(random.choice((0, 0, 0, 1, 2))))]
    owner_of = {at_s: random.choices((OWNER, OTHER), k=2) for at_s in shared_at}
    given_at = {
        random.uniform(2, 70): (queue, offset)
        for queue in (0, 1)
        for offset in range(3)
        for _ in range(random.choice((1, 1, 2)))
    }
    for at_s in sorted([*owner_of, *given_at]):
        if at_s in owner_of:
            for process in (OWNER, OTHER):
                mine = [queue for queue in (0, 1) if owner_of[at_s][queue] == process]
                assign(story, at_s, *mine, process=process)
        else:
            queue, offset = given_at[at_s]
            end: OpType = random.choice(("ok", "ok", "ok", "info"))
            story.consume(at_s, f"k{queue}{offset}", offset, end, queue=queue)
    drained(story, low=random.choice((0, 0, 0, 1)), type_=random.choice(("ok", "ok", "ok", "info")))
    asked_ns = [random.randrange(5 * S, 50 * S) for _ in range(random.choice((1, 1, 2)))]
    return story, tuple(
        replace(RESET, asked_ns=at_ns, answered_ns=at_ns + 1_000_000, offsets=offsets)
        for at_ns in asked_ns
        for offsets in [random.choice(((), (), ((0, 1), (1, 0)), ((1, 2),)))]
    )


def found_in(story: Story, resets: tuple[OffsetsReset, ...]) -> Counter[tuple[Any, ...]]:
    verdicts = check_run(
        story.ops, [], facts(faults=(operator(*resets),)), only(RESETS.name)
    ).verdicts
    return Counter(
        (finding.anomaly, finding.group, finding.queue)
        for verdict in verdicts
        if verdict.checker == RESETS.name
        for finding in verdict.findings
    )


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_against_the_reference(seed: int) -> None:
    story, resets = random_story(seed)
    assert found_in(story, resets) == ignored(story.ops, resets)


def test_the_reference_finds_some() -> None:
    found = [bool(ignored(story.ops, resets)) for story, resets in map(random_story, range(60))]
    assert 20 <= sum(found) <= 50
