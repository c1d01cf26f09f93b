"""A node as a process of this machine: a cancelled start leaves no process."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from staticfire.harness.machines.local import LocalMachine
from staticfire.harness.machines.machine import LaunchSpec

pytestmark = pytest.mark.real


def test_a_cancelled_launch_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[asyncio.subprocess.Process] = []
    spawn = asyncio.create_subprocess_exec

    async def spawn_slowly(*argv: str, **options: object) -> asyncio.subprocess.Process:
        process = await spawn(*argv, **options)  # type: ignore[arg-type]
        started.append(process)
        await asyncio.sleep(0)  # here the launch is cancelled
        return process

    async def run() -> None:
        machine = LocalMachine("node", "127.0.0.1", tmp_path, tmp_path / "log")
        launch_spec = LaunchSpec(argv=(sys.executable, "-c", "import time; time.sleep(60)"))
        launching = asyncio.ensure_future(machine.launch(launch_spec))
        while not started:
            await asyncio.sleep(0)
        launching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await launching
        assert await started[0].wait() == -9

    monkeypatch.setattr(asyncio, "create_subprocess_exec", spawn_slowly)
    asyncio.run(run())


def test_what_is_written_to_a_process_that_has_ended_leaves_no_error_behind(tmp_path: Path) -> None:
    left: list[object] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: left.append(what))
        machine = LocalMachine("node", "127.0.0.1", tmp_path, tmp_path / "log")
        process = await machine.launch(LaunchSpec(argv=("sleep", "60")))
        os.kill(process.pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # asyncio's thread was quicker
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        process.write(b"stop\n")
        assert await process.wait() == "SIGKILL"
        del process
        gc.collect()

    asyncio.run(run())
    assert left == []


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "accounts" / "plain_acl.yml"

    async def launch(data: bytes) -> None:
        machine = LocalMachine("node", "127.0.0.1", tmp_path, tmp_path / "log")
        process = await machine.launch(LaunchSpec(argv=("true",), kept={str(path): data}))
        assert await process.wait() == "status 0"

    asyncio.run(launch(b"first"))
    asyncio.run(launch(b"second"))
    assert path.read_bytes() == b"first"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_kill_reaches_what_a_command_has_started(tmp_path: Path) -> None:
    async def run() -> bytes:
        machine = LocalMachine("node", "127.0.0.1", tmp_path, tmp_path / "log")
        script = "echo up; sleep 60 & wait"
        process = await machine.launch(LaunchSpec(argv=("sh", "-c", script)))
        assert await process.output.readline() == b"up\n"
        assert await process.signal(signal.SIGKILL)
        async with asyncio.timeout(10):  # the child holds the pipe as long as it lives
            left = await process.output.read()
            assert await process.wait() == "SIGKILL"
            return left

    assert asyncio.run(run()) == b""
