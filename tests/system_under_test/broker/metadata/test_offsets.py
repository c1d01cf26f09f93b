"""Consumer offsets: commit, clamp, merge, JSON."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.broker.metadata import offsets as module
from staticfire.system_under_test.broker.metadata.offsets import (
    ConsumerOffsets,
    offset_table_from_json,
    size_of,
)
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.configuration.mode import Mode


def make_offsets(**queues: int) -> ConsumerOffsets:
    """Offsets of group "g" in topic "t": q0=5, q1=7."""
    offsets = ConsumerOffsets()
    for name, offset in queues.items():
        offsets.commit("g", "t", int(name.removeprefix("q")), offset)
    return offsets


def test_query_of_what_was_never_committed() -> None:
    offsets = make_offsets(q0=5)
    assert offsets.query("g", "t", 0) == 5
    assert offsets.query("g", "t", 1) is None
    assert offsets.query("other", "t", 0) is None


def test_commit_may_move_backwards() -> None:
    offsets = make_offsets(q0=5)
    offsets.commit("g", "t", 0, 2)
    assert offsets.query("g", "t", 0) == 2


def test_commit_of_the_same_offset_is_no_change() -> None:
    offsets = make_offsets(q0=5)
    offsets.changed = False
    offsets.commit("g", "t", 0, 5)
    assert not offsets.changed
    offsets.commit("g", "t", 0, 6)
    assert offsets.changed


def test_clamp_pulls_back_only_what_is_beyond_the_queue() -> None:
    offsets = make_offsets(q0=5, q1=7)
    assert offsets.clamp(lambda topic, queue_id: 6) == ["t@g queue 1: 7 -> 6"]
    assert (offsets.query("g", "t", 0), offsets.query("g", "t", 1)) == (5, 6)


@pytest.mark.parametrize(("mode", "offset"), [(Mode.HARDENED, 6), (Mode.FAITHFUL, 7)])
def test_what_follows_a_lost_tail_is_skipped_in_faithful_mode(mode: Mode, offset: int) -> None:
    """R03: the queue ends at 6, and its message 7 was consumed before the power cut."""
    offsets = make_offsets(q1=7)
    BROKER_POLICIES[mode].clamp_offsets(offsets, lambda topic, queue_id: 6)
    assert offsets.query("g", "t", 1) == offset


def test_merge_replaces_whole_queue_maps_and_keeps_others() -> None:
    offsets = make_offsets(q0=5, q1=7)
    offsets.commit("mine", "t", 0, 1)
    offsets.merge({"t@g": {0: 9}})
    assert offsets.query("g", "t", 0) == 9
    assert offsets.query("g", "t", 1) is None
    assert offsets.query("mine", "t", 0) == 1


def test_forget_topic_leaves_topics_with_a_longer_name() -> None:
    offsets = make_offsets(q0=5)
    offsets.commit("g", "t2", 0, 1)
    offsets.forget_topic("t")
    assert offsets.query("g", "t", 0) is None
    assert offsets.query("g", "t2", 0) == 1


def test_snapshot_is_read_back_and_does_not_change_later() -> None:
    offsets = make_offsets(q0=5)
    snapshot = offsets.snapshot()
    offsets.commit("g", "t", 0, 6)
    assert snapshot == {"offsetTable": {"t@g": {"0": 5}}}
    assert offset_table_from_json(snapshot) == {"t@g": {0: 5}}


@pytest.mark.parametrize("document", [{"offsetTable": []}, {"offsetTable": {"t@g": 5}}])
def test_another_shape_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not an object"):
        offset_table_from_json(document)


@pytest.mark.parametrize("queues", [{"x": 1}, {"0": "y"}, {"0": None}, {"0": float("inf")}])
def test_an_offset_that_is_no_number_is_reported(queues: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"of 't@g' is .*; whole numbers are needed"):
        offset_table_from_json({"offsetTable": {"t@g": queues}})


def test_two_first_commits_at_a_time_lose_one_in_faithful_mode_alone() -> None:
    """R16."""

    async def commit(offsets: ConsumerOffsets) -> dict[int, int]:
        offsets.commit("g", "t", 0, 5)
        offsets.commit("g", "t", 1, 7)
        await asyncio.sleep(0)
        return offsets.queues("g", "t")

    assert asyncio.run(commit(BROKER_POLICIES[Mode.HARDENED].offsets())) == {0: 5, 1: 7}
    assert asyncio.run(commit(BROKER_POLICIES[Mode.FAITHFUL].offsets())) == {1: 7}


def test_the_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIZE_MAX", 2 * size_of("t@g", 2))
    offsets = make_offsets(q0=5, q1=7)
    offsets.commit("h", "t", 0, 1)
    assert not offsets.has_room("i", "t", 0)
    assert offsets.has_room("g", "t", 1)  # it has one
    with pytest.raises(ValueError, match="the table of offsets would have more than"):
        offsets.clone("g", "i", "t")
    assert offsets.queues("i", "t") == {}
    offsets.forget_group("g")
    assert offsets.has_room("i", "t", 0)
    offsets.clone("h", "i", "t")
    assert offsets.queues("i", "t") == {0: 1}
    offsets.forget_topic("t")
    offsets.commit("g", "u", 0, 5)
    offsets.commit("g", "u", 1, 5)
    assert offsets.has_room("g", "u", 2)


def test_a_slave_forgets_what_its_master_has_forgotten_when_the_table_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SIZE_MAX", 3 * size_of("t@g", 1))
    slave = ConsumerOffsets()
    for number in range(3):
        slave.merge({f"t@{number}": {0: 1}})
    assert slave.count() == 3
    slave.merge({"t@3": {0: 1}})
    assert (slave.count(), slave.query("3", "t", 0)) == (1, 1)


def test_one_more_offset_fits_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ConsumerOffsets()
    table.commit("group", "topic", 0, 5)
    monkeypatch.setattr(module, "SIZE_MAX", 2 * size_of("topic@group", 1))
    assert table.has_room("group", "other", 0)
    assert table.has_room("group", "topic", 1)
    assert not table.has_room("group", "longer", 0)
    assert table.has_room("group", "topic", 0)
