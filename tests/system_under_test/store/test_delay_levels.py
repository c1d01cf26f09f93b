"""The due times of delayed messages, and their queue entries after append, recovery and replication."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.store.delay_levels import (
    DELAY_LEVELS_MS,
    SCHEDULE_TOPIC,
    due_time_ms,
    parse_delay_levels,
)
from tests.system_under_test.store.store_on_disk import START_MS, StoreOnDisk, make_message


def test_default_levels_are_rocketmqs() -> None:
    assert len(DELAY_LEVELS_MS) == 18
    assert (DELAY_LEVELS_MS[0], DELAY_LEVELS_MS[4], DELAY_LEVELS_MS[17]) == (
        1_000,
        60_000,
        7_200_000,
    )


def test_levels_are_configurable() -> None:
    assert parse_delay_levels(" 2s  1d ") == (2_000, 86_400_000)


@pytest.mark.parametrize("text", ["", "1", "s", "0s", "1s,5s", "-1s", "1w"])
def test_what_is_no_delay_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"delay"):
        parse_delay_levels(text)


@pytest.mark.parametrize(
    ("level", "due"), [("1", 1_100), ("2", 5_100), ("18", 7_200_100), ("99", 7_200_100)]
)
def test_due_time(level: str, due: int) -> None:
    assert due_time_ms(level, 100, DELAY_LEVELS_MS) == due
    assert due_time_ms(level.encode(), 100, DELAY_LEVELS_MS) == due


@pytest.mark.parametrize("level", ["", "0", "-1", "x", "\u00b2"])
def test_not_delayed(level: str) -> None:
    assert due_time_ms(level, 100, DELAY_LEVELS_MS) is None


def test_entry_holds_the_due_time_when_appended_and_when_rebuilt() -> None:
    disk = StoreOnDisk()
    disk.open()
    disk.store.put(make_message(topic=SCHEDULE_TOPIC, queue_id=2, DELAY="3"))
    disk.flush()
    disk.store.dispatch()
    (entry,) = disk.store.queue_view.entries(SCHEDULE_TOPIC, 2, 0, 10)
    assert entry.tags_code == START_MS + 10_000
    disk.kill()
    disk.open()
    assert disk.store.queue_view.entries(SCHEDULE_TOPIC, 2, 0, 10) == [entry]
    assert disk.store.queue_view.next_offset(SCHEDULE_TOPIC, 2) == 1
