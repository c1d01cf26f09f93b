"""Code 29: which message was stored closest to a time, and what 4.9.8 makes of the file system's times."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from tests.system_under_test.store.store_on_disk import (
    START_MS,
    SilentLog,
    StoreOnDisk,
    make_message,
)

pytestmark = pytest.mark.needs_sources  # the times of files are set


class TimedStore(StoreOnDisk):
    """Messages of one queue stored at given times after the start; a queue file holds five entries.

    `modified` are the times of the queue's files, as the file system tells them.
    """

    def __init__(self, mode: Mode, *after_ms: int, modified: tuple[int, ...] = ()) -> None:
        self._mode = mode
        super().__init__(log_file_size=1 << 16)
        self.open()
        for each_ms in after_ms:
            self.clock.now_ms = START_MS + each_ms
            self.put_visible(make_message())
        written_ms = modified or (*after_ms[4::5], *after_ms[-1:])
        times = {f"{20 * 5 * number:020d}": ms for number, ms in enumerate(written_ms)}
        self.disk.modified_ms = lambda path: START_MS + times[path.rsplit("/")[-1]]  # type: ignore[method-assign]

    def new_store(self) -> MessageStore:
        policy = BROKER_POLICIES[self._mode].store
        return MessageStore(self.disk, self.clock, SilentLog(), self.config, policy=policy)

    def find(self, after_ms: int) -> int:
        return self.store.queue_view.search_by_time("TopicTest", 0, START_MS + after_ms)


SEVEN = (0, 10, 20, 30, 40, 50, 60)
both_modes = pytest.mark.parametrize("mode", list(Mode))


@both_modes
@pytest.mark.parametrize(
    ("after_ms", "offset"),
    [(-100, 0), (0, 0), (5, 0), (6, 1), (10, 1), (14, 1), (16, 2), (40, 4), (60, 6), (1000, 6)],
)
def test_nearest(mode: Mode, after_ms: int, offset: int) -> None:
    assert TimedStore(mode, *SEVEN).find(after_ms) == offset


@both_modes
def test_no_queue(mode: Mode) -> None:
    assert TimedStore(mode).find(0) == 0


@pytest.mark.parametrize(("mode", "offset"), [(Mode.HARDENED, 1), (Mode.FAITHFUL, 2)])
def test_of_equal_times_the_first_or_any(mode: Mode, offset: int) -> None:
    """A group that is reset to this time by 4.9.8 misses message 1."""
    assert TimedStore(mode, 0, 10, 10, 10, 20).find(10) == offset


@pytest.mark.parametrize(("mode", "offset"), [(Mode.HARDENED, 6), (Mode.FAITHFUL, 4)])
def test_files_that_were_copied(mode: Mode, offset: int) -> None:
    """Both files have the time of the copy: 4.9.8 looks into the first one only."""
    assert TimedStore(mode, *SEVEN, modified=(99_000, 99_000)).find(60) == offset


@pytest.mark.parametrize(("mode", "offset"), [(Mode.HARDENED, 4), (Mode.FAITHFUL, 5)])
def test_a_file_that_seems_older_than_its_messages(mode: Mode, offset: int) -> None:
    """A page that was dirty already, or a clock that was set back: 4.9.8 skips a message."""
    assert TimedStore(mode, *SEVEN, modified=(35, 60)).find(40) == offset


@pytest.mark.parametrize(("mode", "offset"), [(Mode.HARDENED, 4), (Mode.FAITHFUL, 5)])
def test_closer_to_the_last_message_of_the_file_before(mode: Mode, offset: int) -> None:
    assert TimedStore(mode, 0, 10, 20, 30, 40, 80, 90).find(59) == offset
