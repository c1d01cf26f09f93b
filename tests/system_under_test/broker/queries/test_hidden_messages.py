"""Messages of a deleted topic stay hidden when the topic is created again, also after a restart; no others do."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.queries import hidden_messages
from staticfire.system_under_test.broker.queries.hidden_messages import HiddenMessages
from staticfire.system_under_test.store.metadata_file import MetadataFile
from tests.system_under_test.store.store_on_disk import StoreOnDisk, make_message

PATH = "/store/config/hiddenMessages.json"
FORMER = [b"former %d" % number for number in range(5)]


def hidden_of(on_disk: StoreOnDisk) -> HiddenMessages:
    return HiddenMessages(MetadataFile(on_disk.disk, PATH), on_disk.store.retention.queues)


def filled() -> tuple[StoreOnDisk, HiddenMessages]:
    on_disk = StoreOnDisk()
    on_disk.open()
    on_disk.put_visible(*map(make_message, FORMER))
    on_disk.flush_queues()
    return on_disk, hidden_of(on_disk)


def restarted(on_disk: StoreOnDisk) -> HiddenMessages:
    """After a power cut."""
    on_disk.disk.power_cut()
    on_disk.disk.power_on()
    on_disk.open()
    hidden = hidden_of(on_disk)
    hidden.load()
    return hidden


def test_former_messages_are_hidden_and_new_ones_are_not() -> None:
    on_disk, hidden = filled()
    hidden.note("TopicTest")
    assert on_disk.bodies() == FORMER  # the topic is not deleted yet
    hidden.apply()
    on_disk.put_visible(make_message(b"new"))
    assert on_disk.bodies() == [b"new"]
    assert on_disk.store.queue_bounds("TopicTest", 0) == (5, 6)


def test_what_has_no_entry_yet_is_hidden_with_the_others() -> None:
    on_disk, hidden = filled()
    on_disk.put(make_message(b"acknowledged, and still to be flushed"))
    hidden.note("TopicTest")
    on_disk.store.retention.clean_unused(lambda _topic: False)
    on_disk.put_visible(make_message(b"new"))
    assert on_disk.bodies() == [b"new"]
    assert on_disk.store.queue_bounds("TopicTest", 0) == (6, 7)
    on_disk.flush_queues()
    restarted(on_disk).settle()
    assert on_disk.bodies() == [b"new"]


def test_what_a_master_fetches_from_its_slave_stays_hidden_before_it_is_visible() -> None:
    """A master that lost its log fetches it, and consumers see it only when the slave has confirmed it again."""
    on_disk = StoreOnDisk()
    on_disk.open()
    MetadataFile(on_disk.disk, PATH).save({"beginnings": {"TopicTest": {"0": 5}}})
    hidden = hidden_of(on_disk)
    hidden.load()
    for body in (*FORMER, b"new"):
        on_disk.put(make_message(body))
    assert on_disk.store.queue_bounds("TopicTest", 0) == (0, 0)
    assert on_disk.store.next_queue_offset("TopicTest", 0) == 6
    hidden.settle()
    on_disk.put_visible()
    assert on_disk.bodies() == [b"new"]


def test_they_stay_hidden_after_a_power_cut() -> None:
    on_disk, hidden = filled()
    hidden.note("TopicTest")
    restarted(on_disk).settle()
    on_disk.put_visible(make_message(b"new"))
    assert on_disk.bodies() == [b"new"]


def test_what_comes_in_place_of_a_lost_tail_is_not_hidden() -> None:
    on_disk, _ = filled()
    MetadataFile(on_disk.disk, PATH).save({"beginnings": {"TopicTest": {"0": 9}}})
    restarted(on_disk).settle()
    on_disk.put_visible(make_message(b"new"))
    on_disk.flush_queues()
    assert on_disk.bodies() == [b"new"]
    restarted(on_disk).settle()
    assert on_disk.bodies() == [b"new"]


def test_other_topics_and_queues_stay_as_they_are() -> None:
    on_disk, hidden = filled()
    hidden.note("TopicTes")
    hidden.note("TopicTestOther")
    hidden.apply()
    assert on_disk.bodies() == FORMER
    assert not on_disk.disk.exists(PATH)


def test_a_queue_lives_until_its_topic_is_deleted_and_with_the_next_message() -> None:
    on_disk, hidden = filled()
    assert hidden.living_queues() == [("TopicTest", 0)]
    hidden.note("TopicTest")
    assert hidden.living_queues() == []
    on_disk.put_visible(make_message(b"new"))
    assert hidden.living_queues() == [("TopicTest", 0)]


def test_a_master_with_a_new_disk_hides_what_a_replica_hides() -> None:
    on_disk, hidden = filled()
    hidden.restore_from({"hiddenMessages": {"TopicTest": {"0": 3}, "Other": {"1": 7}}})
    assert on_disk.bodies() == FORMER[3:]
    hidden.restore_from({"hiddenMessages": {"TopicTest": {"0": 2}}})  # a replica that is behind
    hidden.restore_from({})  # one of RocketMQ
    assert on_disk.bodies() == FORMER[3:]
    assert restarted(on_disk).living_queues() == [("TopicTest", 0)]


@pytest.mark.parametrize("table", [[], {"TopicTest": 3}, {"TopicTest": {"zero": 1}}])
def test_a_file_of_another_shape_is_refused(table: object) -> None:
    on_disk, hidden = filled()
    MetadataFile(on_disk.disk, PATH).save({"beginnings": table})
    with pytest.raises(ValueError, match=r"beginnings are no table|invalid literal"):
        hidden.load()


def test_queues_of_deleted_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_messages, "DELETED_QUEUES_MAX", 0)
    on_disk, hidden = filled()
    with pytest.raises(ValueError, match="deleted topics would have 1 queues; allowed: up to 0"):
        hidden.note("TopicTest")
    hidden.apply()
    assert on_disk.bodies() == FORMER
