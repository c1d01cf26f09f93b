"""Events that trigger faults: recognized as they happen, and counted."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.faults.model.anchor import Anchor
from staticfire.harness.recording.anchors import AnchorWatch, DiskWatcher, Stop
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.rocketmq.observers.stored_log import CommitLogs

LOG = "/store/commitlog/00000000000000000000"


class Watched:
    """An AnchorWatch with one disk, and how often it has called."""

    def __init__(self) -> None:
        self.recorder = Recorder(lambda: 0)
        self.disks: list[DiskWatcher] = []
        self.calls = 0
        self._watch = AnchorWatch(self.recorder, self._watch_disk, CommitLogs())
        self.note = self._watch.note_fault

    def begin(self, **anchor: Any) -> Stop:
        return self._watch.begin(Anchor(**anchor), self._called)

    def _called(self) -> None:
        self.calls += 1

    def _watch_disk(self, _node: str, watcher: DiskWatcher) -> Stop:
        self.disks.append(watcher)
        return lambda: self.disks.remove(watcher)

    def send(self, key: str, type_: Any) -> int:
        self.recorder.record(0, type_, "send", {"key": key})
        return self.calls


def test_the_acknowledgement_of_one_message() -> None:
    watched = Watched()
    stop = watched.begin(event="ack", key="a")
    assert watched.send("a", "invoke") == 0
    assert watched.send("b", "ok") == 0
    assert watched.send("a", "ok") == 1
    assert watched.send("a", "ok") == 1  # once alone
    stop()
    assert watched.recorder.listeners == []


def test_the_second_send_of_a_message() -> None:
    watched = Watched()
    watched.begin(event="send", key="a", number=2)
    assert [watched.send("a", "invoke") for _ in range(3)] == [0, 1, 1]


def test_a_delivery() -> None:
    watched = Watched()
    watched.begin(event="delivery", key="a")
    for key, calls in (("b", 0), ("a", 1)):
        watched.recorder.record(5, "invoke", "consume", {"messages": [[key, 0, 0, True, 0]]})
        assert watched.calls == calls


def test_the_append_and_the_flush_of_a_message() -> None:
    appended, flushed = Watched(), Watched()
    appended.begin(event="append", node="n", key="a")
    flushed.begin(event="flush", node="n", key="a")
    steps = [
        ("wrote", "/store/index/1", b"a a a", 0, 0),  # no log
        ("wrote", LOG, b"..ab ab", 0, 0),  # another key
        ("syncing", LOG, None, 0, 0),  # the message is not in it
        ("wrote", LOG, b"..a a a ..", 1, 0),
        ("syncing", "/store/commitlog/00000000000000262144", None, 1, 0),
        ("syncing", LOG, None, 1, 1),
    ]
    for call, path, data, appends, flushes in steps:
        for watched in (appended, flushed):
            arguments = (path,) if data is None else (path, data)
            getattr(watched.disks[0], call)(*arguments)
        assert (appended.calls, flushed.calls) == (appends, flushes)


def test_a_message_whose_body_is_compressed_is_known_by_its_keys() -> None:
    watched = Watched()
    watched.begin(event="append", node="n", key="a")
    watched.disks[0].wrote(LOG, b"zzKEYS\x01a\x02zz")
    assert watched.calls == 1


def test_the_third_sync_of_a_node() -> None:
    watched = Watched()
    stop = watched.begin(event="sync", node="n", number=3)
    calls = []
    for path in ("/a", "/b", "/c", "/d"):
        watched.disks[0].syncing(path)
        calls.append(watched.calls)
    assert calls == [0, 0, 1, 1]
    stop()
    assert watched.disks == []


def test_the_end_of_another_fault() -> None:
    watched = Watched()
    watched.begin(event="healed", fault=3)
    watched.note("struck", 3)
    watched.note("healed", 2)
    assert watched.calls == 0
    watched.note("healed", 3)
    assert watched.calls == 1


def test_disks_that_cannot_be_watched() -> None:
    with pytest.raises(RuntimeError, match="sync cannot be seen in this environment"):
        AnchorWatch(Recorder(lambda: 0)).begin(Anchor(event="sync", node="n"), lambda: None)


def test_a_system_whose_logs_cannot_be_read_has_no_appends() -> None:
    watch = AnchorWatch(Recorder(lambda: 0), lambda _node, _watcher: lambda: None)
    with pytest.raises(RuntimeError, match="append cannot be seen in this environment"):
        watch.begin(Anchor(event="append", node="n", key="a"), lambda: None)
