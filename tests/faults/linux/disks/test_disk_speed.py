"""A disk that is slow for the processes of its node alone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.faults.linux.disks.disk_speed import (
    DiskSpeed,
    DiskSpeedError,
    Slowed,
    cgroup_version,
    home_of,
    limit_line,
)
from staticfire.faults.linux.disks.loop_disk import LoopDisk
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.resources import Resource, removal_argv
from tests.support.io_uring_here import NEEDS_RING
from tests.support.new_disk import new_disk
from tests.support.recording_executor import recording_machine
from tests.support.sleeper import sleeper

V1 = "7:blkio:/docker/abc\n6:freezer:/\n0::/\n"
V2 = "0::/user.slice/session.scope\n"


def test_evidence() -> None:
    assert Slowed(fsync_ns_before=100_000, fsync_ns=9_000_000, writes_per_s=100).bitten
    assert not Slowed(fsync_ns_before=100_000, fsync_ns=150_000, writes_per_s=100).bitten


def test_where_a_process_comes_from() -> None:
    assert home_of("v1", V1) == "/sys/fs/cgroup/blkio/docker/abc"
    assert home_of("v1", "7:cpu,blkio:/\n") == "/sys/fs/cgroup/blkio"
    assert home_of("v2", V2) == "/sys/fs/cgroup/user.slice/session.scope"
    with pytest.raises(DiskSpeedError, match="in no cgroup that can throttle"):
        home_of("v1", V2)


def test_limits() -> None:
    assert limit_line("v1", "7:3", 25) == "7:3 25"
    assert limit_line("v2", "7:3", 25) == "7:3 wiops=25"


def test_a_machine_that_cannot(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    executor.answers = {"sh": "none\n"}
    with pytest.raises(DiskSpeedError, match=r"neither blkio\.throttle nor io\.max"):
        asyncio.run(cgroup_version(machine))
    machine.inventory.close()


def answers(machine: LinuxMachine) -> dict[str, str | CommandFailed]:
    """Of a machine with cgroups of version 2."""
    return {
        "losetup": "/dev/loop3\n",
        "dumpe2fs": "  Free blocks: 10-20\n",
        "sh -c \nif [": "v2\n",
        "cat /proc/77/cgroup": V2,
        "cat /sys/block/loop3/dev": "7:3\n",
        machine.python: '{"count": 4, "total_ns": 400000}',
    }


def test_version_2(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    executor.answers = answers(machine)

    async def slow() -> Slowed:
        disk = LoopDisk(machine, "/a/b")
        await disk.create()
        return await DiskSpeed(disk).slow([77], 100.0)

    assert asyncio.run(slow()).writes_per_s == 100  # 0.1 ms, a hundred times as long
    path = "/sys/fs/cgroup/staticfire-abc123-loop3"
    assert [argv[4:] for argv in executor.commands if argv[2:3] == ['echo "$2" > "$1"']] == [
        ["/sys/fs/cgroup/cgroup.subtree_control", "+io"],
        [f"{path}/io.max", "7:3 wiops=100"],
        [f"{path}/cgroup.procs", "77"],
    ]
    machine.inventory.close()


def test_a_process_that_starts_while_the_disk_heals_is_not_held(tmp_path: Path) -> None:
    machine, executor = recording_machine(tmp_path)
    executor.answers = answers(machine)

    async def heal_and_hold() -> None:
        disk = LoopDisk(machine, "/a/b")
        await disk.create()
        speed = DiskSpeed(disk)
        await speed.slow([77], 100.0)
        await asyncio.gather(speed.heal(), speed.hold(78))

    asyncio.run(heal_and_hold())
    assert "78" not in [argv[-1] for argv in executor.commands]


@pytest.mark.parametrize(("pids", "factor"), [([], 10.0), ([1], 1.0)])
def test_nothing_to_slow(tmp_path: Path, pids: list[int], factor: float) -> None:
    machine, _ = recording_machine(tmp_path)
    with pytest.raises(DiskSpeedError, match="allowed: one process or more, and more than 1"):
        asyncio.run(DiskSpeed(LoopDisk(machine, "/a/b")).slow(pids, factor))
    machine.inventory.close()


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("mkfs.ext4", "losetup")
def test_a_real_disk_is_slow_and_quick_again(machine: LinuxMachine, tmp_path: Path) -> None:
    try:
        asyncio.run(cgroup_version(machine))
    except DiskSpeedError as error:
        pytest.skip(f"needs root and a cgroup: {error}")

    async def scenario() -> None:
        async with new_disk(machine, tmp_path) as disk:
            speed = DiskSpeed(disk)
            with sleeper() as child:
                home = Path(f"/proc/{child.pid}/cgroup").read_text()
                slowed = await speed.slow([child.pid], 200.0)
                assert slowed.bitten
                assert "staticfire" in Path(f"/proc/{child.pid}/cgroup").read_text()
                await speed.heal()
                await speed.heal()
                assert Path(f"/proc/{child.pid}/cgroup").read_text() == home
            assert await speed.fsync_ns() < slowed.fsync_ns / 2
            with pytest.raises(CommandFailed):  # there is no such process
                await speed.slow([2**30], 200.0)

    asyncio.run(asyncio.wait_for(scenario(), 180))


# For each line it gets, syncs a file for a second as brokers do; prints how, and how often.
SYNCS = """
import asyncio, sys, time
from staticfire.system_under_test.runtime.real_env import make_env

async def sync_all():
    env = make_env("syncs")
    file, worker = env.storage.open(sys.argv[1], create=True), env.make_worker()
    for _ in sys.stdin:
        until_s, count = time.monotonic() + 1, 0
        while time.monotonic() < until_s:
            file.pwrite(b"record", 6 * count)
            ended = asyncio.get_running_loop().create_future()
            worker.run(file.fdatasync, ended.set_result, only_synced=file)
            assert await ended is None
            count += 1
        print("thread" if worker._ring is None else "kernel", count, flush=True)

asyncio.run(sync_all())
"""


@NEEDS_RING
@pytest.mark.slow
@pytest.mark.real
@pytest.mark.needs_root("mkfs.ext4", "losetup")
def test_what_the_kernel_syncs_for_a_process_is_as_slow(
    machine: LinuxMachine, tmp_path: Path
) -> None:
    """The threads of io_uring belong to the process, and so to its cgroup."""
    try:
        asyncio.run(cgroup_version(machine))
    except DiskSpeedError as error:
        pytest.skip(f"needs root and a cgroup: {error}")

    async def scenario() -> None:
        async with new_disk(machine, tmp_path) as disk:
            speed = DiskSpeed(disk)
            child = await asyncio.create_subprocess_exec(
                *[sys.executable, "-c", SYNCS, f"{disk.data_folder}/syncs"],
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert child.stdin is not None
            assert child.stdout is not None
            counts = []
            for limits in (False, True):
                if limits:
                    assert (await speed.slow([child.pid], 200.0)).bitten
                child.stdin.write(b"go on\n")
                how, count = (await child.stdout.readline()).decode().split()
                assert how == "kernel"
                counts.append(int(count))
            await speed.heal()
            child.stdin.close()
            await child.wait()
        assert counts[1] < counts[0] / 5, counts

    asyncio.run(asyncio.wait_for(scenario(), 180))


# As the kernel does while the last thread of a process in the cgroup has not ended.
BUSY_RMDIR = """#!/bin/sh
tries="$0.tries"; echo try >> "$tries"
[ "$(wc -l < "$tries")" -gt 2 ] && exec /bin/rmdir "$1"
echo "rmdir: failed to remove '$1': Device or resource busy" >&2; exit 1
"""


def test_a_cgroup_whose_process_is_still_dying_is_removed_when_it_has_died(tmp_path: Path) -> None:
    tools, cgroup = tmp_path / "tools", tmp_path / "cgroup"
    tools.mkdir()
    cgroup.mkdir()
    for name, text in {"rmdir": BUSY_RMDIR, "sleep": "#!/bin/sh\n", "cat": "#!/bin/sh\n"}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    resource = Resource(kind="cgroup", name=str(cgroup), details={"home": str(tmp_path)})
    path = f"{tools}:{os.environ['PATH']}"
    done = subprocess.run(
        removal_argv(resource), env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("removed\n", "")
    assert not cgroup.exists()
