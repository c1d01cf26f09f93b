"""Watches a run for the events at which faults of its plan strike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from staticfire.checkers.model.history import Op, OpType
from staticfire.checkers.op_kinds.catalogue import DELIVERIES, SENDS
from staticfire.faults.model.anchor import Anchor
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.recording.stored_logs import StoredLogs, log_position

_TYPE_OF: Mapping[str, OpType] = {"send": "invoke", "ack": "ok"}
Stop = Callable[[], None]


class DiskWatcher(Protocol):
    """A callback inside the disk calls of a node."""

    def wrote(self, path: str, data: bytes) -> None: ...

    def syncing(self, path: str) -> None: ...


WatchDisk = Callable[
    [str, DiskWatcher], Stop
]  # takes a node; returns a callback that ends the watching


class AnchorWatch:
    """Calls back once when an event has come as often as its anchor says, counted from `begin`.

    Args:
        recorder: the recorder of the ops to watch.
        watch_disk: watches the disk of a node; None where no disk can be watched.
        stored_logs: identifies files of the log; None: appends cannot be watched.
    """

    def __init__(
        self,
        recorder: Recorder,
        watch_disk: WatchDisk | None = None,
        stored_logs: StoredLogs | None = None,
    ) -> None:
        self._recorder = recorder
        self._stored_logs = stored_logs
        self._watch_disk = watch_disk
        self._of_faults: dict[_Count, None] = {}

    def begin(self, anchor: Anchor, call: Callable[[], None]) -> Stop:
        """Watch for the anchor; return a callback that ends the watch.

        Raises RuntimeError if it cannot be observed here.
        """
        count = _Count(anchor, call, self._stored_logs)
        if anchor.event in ("struck", "healed"):
            self._of_faults[count] = None
            return lambda: self._of_faults.pop(count, None) and None
        if anchor.event in ("send", "ack", "delivery"):
            self._recorder.listeners.append(count.take_op)
            return lambda: self._recorder.listeners.remove(count.take_op)
        if self._watch_disk is None or (anchor.event != "sync" and self._stored_logs is None):
            raise RuntimeError(f"{anchor.event} cannot be seen in this environment")
        return self._watch_disk(anchor.node, count)

    def note_fault(self, event: str, fault_id: int) -> None:
        """Note that a fault of the plan has struck or was healed."""
        for count in list(self._of_faults):
            if (count.anchor.event, count.anchor.fault) == (event, fault_id):
                count.add()


class _Count:
    """Counts the events of one anchor; it is a DiskWatcher, too."""

    def __init__(
        self, anchor: Anchor, call: Callable[[], None], stored_logs: StoredLogs | None
    ) -> None:
        self.anchor = anchor
        self._call = call
        self._left = anchor.number
        self._stored_logs = stored_logs
        self._marks = () if stored_logs is None else stored_logs.marks(anchor.key)
        self._appended_to = ""  # the path of the log file

    def add(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._call()

    def take_op(self, op: Op) -> None:
        key, event = self.anchor.key, self.anchor.event
        if event == "delivery":
            if op.f in DELIVERIES and op.type == "invoke":
                rows = op.value.get("messages", ())
                if any(row[0] == key for row in rows):
                    self.add()
        elif op.f in SENDS and (op.value.get("key"), op.type) == (key, _TYPE_OF[event]):
            self.add()

    def wrote(self, path: str, data: bytes) -> None:
        if self.anchor.event == "sync" or self._appended_to:
            return
        if log_position(self._stored_logs, path) is None:
            return
        if any(mark in data for mark in self._marks):
            if self.anchor.event == "flush":
                self._appended_to = path
            else:
                self.add()

    def syncing(self, path: str) -> None:
        if self.anchor.event == "sync" or (self._appended_to and path == self._appended_to):
            self.add()
