"""A flush that only syncs one file names it: then fdatasync of that file may replace `run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.runtime.env import File
from staticfire.system_under_test.store.checkpoint import Checkpoint
from staticfire.system_under_test.store.flush import FlushTask, QueueFlushTask, SyncPlan, at_once


@dataclass
class OpenFile:
    """A file of a sequence, as a plan sees it; notes its syncs."""

    name: str
    is_new: bool = False
    calls: list[str] = field(default_factory=list)

    @property
    def file(self) -> File:
        return self  # type: ignore[return-value]  # a plan calls nothing else

    def fdatasync(self) -> None:
        self.calls.append("fdatasync")

    def fsync(self) -> None:
        self.calls.append("fsync")


def flush_of(
    *files: OpenFile,
    failure: OSError | None = None,
    sync: Callable[[Callable[[], None]], None] = at_once,
) -> FlushTask:
    disk = SimDisk(random=Random(0), now_ns=lambda: 0, charge=lambda _ns: None)
    disk.makedirs("/log")
    plan = SyncPlan(disk)
    plan.add(files, ("/log",))
    return FlushTask(plan, end_offset=0, epoch=0, failure=failure, sync=sync)


def test_one_old_file_is_named_and_all_that_is_synced() -> None:
    file = OpenFile("old")
    task = flush_of(file)
    assert task.only_synced is file.file
    task.run()
    assert file.calls == ["fdatasync"]


@pytest.mark.parametrize(
    "task",
    [
        flush_of(),
        flush_of(OpenFile("old"), OpenFile("older")),
        flush_of(OpenFile("new", is_new=True)),
        flush_of(OpenFile("old"), OpenFile("new", is_new=True)),
        flush_of(OpenFile("old"), failure=OSError(5, "EIO")),
        flush_of(OpenFile("old"), sync=lambda run: run()),
    ],
    ids=["nothing", "two files", "a new file", "old and new", "a failed write", "another sync"],
)
def test_no_other_flush_names_a_file(task: FlushTask) -> None:
    assert task.only_synced is None


def test_a_flush_of_queues_names_no_file_because_it_syncs_the_checkpoint_too() -> None:
    disk = SimDisk(random=Random(0), now_ns=lambda: 0, charge=lambda _ns: None)
    disk.makedirs("/store")
    plan = SyncPlan(disk)
    plan.add([OpenFile("old")], ("/store",))
    task = QueueFlushTask(
        plan,
        Checkpoint(disk, "/store/checkpoint"),
        physic_ms=0,
        logics_ms=0,
        index_ms=0,
        dispatched_offset=0,
        epoch=0,
    )
    assert plan.only_file is not None
    assert task.only_synced is None
