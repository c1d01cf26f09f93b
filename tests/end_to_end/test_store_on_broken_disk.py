"""The store on real file systems whose power fails or whose fsync does: what was promised is there."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from staticfire.faults.linux.disks.disk_errors import DiskErrors
from staticfire.faults.linux.disks.loop_disk import FileSystem, LoopDisk
from staticfire.faults.linux.disks.power_loss import PowerLoss, cut_power
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.system_under_test.protocol.message import decode_record
from staticfire.system_under_test.runtime.real_env import RealStorage
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.results import PutStatus
from tests.support.new_disk import new_disk
from tests.support.starved_disk import StarvedDisk
from tests.system_under_test.store.store_on_disk import ScriptedClock, SilentLog, make_message

pytestmark = [
    pytest.mark.real,
    pytest.mark.needs_root("mkfs.ext4", "mkfs.xfs", "losetup", "dumpe2fs", "fstrim"),
]
BODY = b"x" * 20_000


def open_store(disk: LoopDisk) -> MessageStore:
    config = StoreConfig(
        root=f"{disk.data_folder}/store", commit_log_file_size=1 << 20, buffered=True
    )
    store = MessageStore(RealStorage(), ScriptedClock(), SilentLog(), config)
    store.open()
    store.when_damaged(store.give_up)  # as a broker does that has no other replica
    return store


def put_and_flush(store: MessageStore, *numbers: int) -> None:
    """Raises OSError, after which the process must end."""
    for number in numbers:
        assert store.put(make_message(b"%d " % number + BODY)).status is PutStatus.PUT_OK
    task = store.begin_flush()
    assert task is not None
    try:
        task.run()
    except OSError as error:
        store.fail_flush(task, error)
        raise
    store.finish_flush(task)
    store.dispatch()


def die(store: MessageStore) -> None:
    """As far as one process can: nothing is written, the lock is free, and `abort` stays."""
    store.fail_flush(None, OSError("killed"))
    store.close()


def found(store: MessageStore) -> list[int]:
    """What consumers get, who pass over what is damaged and given up when they ask again."""
    store.dispatch()
    numbers: list[int] = []
    offset = idle = 0
    while idle < 2:
        got = store.get("TopicTest", 0, offset, 100)
        numbers += [int(decode_record(record).body.split()[0]) for record in got.records]
        idle = 0 if got.next_offset > offset else idle + 1
        offset = got.next_offset
    return numbers


async def power_cut(disk: LoopDisk, store: MessageStore) -> PowerLoss:
    cut = await cut_power(disk)
    die(store)
    return await cut.come_back()


@pytest.mark.parametrize("file_system", ["ext4", "xfs"])
def test_power_loss(machine: LinuxMachine, tmp_path: Path, file_system: FileSystem) -> None:
    async def scenario() -> None:
        async with new_disk(machine, tmp_path, file_system) as disk:
            store = open_store(disk)
            put_and_flush(store, 1, 2, 3)
            store.put(make_message(b"4 " + BODY))
            await power_cut(disk, store)
            store = open_store(disk)
            assert found(store) == [1, 2, 3]
            die(store)

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize(
    ("file_system", "fault"), [("ext4", "fail"), ("ext4", "starve"), ("xfs", "starve")]
)
def test_a_restart_after_a_failed_fsync_believes_the_disk_alone(
    machine: LinuxMachine, tmp_path: Path, file_system: FileSystem, fault: str
) -> None:
    """The page cache shows the lost record to the next process, which must not build on it."""

    async def scenario() -> None:
        async with new_disk(machine, tmp_path, file_system) as disk:
            store = open_store(disk)
            put_and_flush(store, 1)
            errors = StarvedDisk(disk)
            failing = await (errors.fail() if fault == "fail" else errors.starve())
            assert failing.bitten
            failed = 0
            with pytest.raises(OSError, match=r"Input/output error|No space left"):
                while failed < 60:  # on XFS only new files are refused
                    failed += 1
                    put_and_flush(store, 1 + failed)
            die(store)
            assert await errors.heal()
            store = open_store(disk)
            before = found(store)
            put_and_flush(store, 1001)
            await power_cut(disk, store)
            store = open_store(disk)
            assert found(store) == [*before, 1001]
            die(store)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_an_unreported_error_does_not_end_the_next_process(
    machine: LinuxMachine, tmp_path: Path
) -> None:
    """The kernel keeps it for the first fsync of the next opener. The lost page is of a dead process."""

    async def scenario() -> None:
        async with new_disk(machine, tmp_path) as disk:
            store = open_store(disk)
            put_and_flush(store, 1, 2)  # the queue is dirty
            errors = DiskErrors(disk)
            assert (await errors.fail()).bitten
            for queue in (Path(disk.data_folder) / "store/consumequeue").rglob("0*"):
                opened = os.open(queue, os.O_RDONLY)
                os.posix_fadvise(
                    opened, 0, 0, os.POSIX_FADV_DONTNEED
                )  # begins write-back, waits for nothing
                os.close(opened)
            die(store)
            await asyncio.sleep(0.1)
            assert await errors.heal()
            store = open_store(disk)
            assert found(store) == [1, 2]
            put_and_flush(store, 3)
            task = store.begin_queue_flush()
            assert task is not None
            task.run()
            store.finish_queue_flush(task)
            await power_cut(disk, store)
            store = open_store(disk)
            assert found(store) == [1, 2, 3]
            die(store)

    asyncio.run(asyncio.wait_for(scenario(), 60))
