"""A real file system that is suddenly full under load: refusals, nothing acknowledged lost, service comes back."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from staticfire.harness.clients.payload import make_body
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.send_result import SendFailed
from staticfire.system_under_test.protocol.codes import ResponseCode, SendStatus
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.real_env import make_env
from tests.support.kill_rounds import TOPIC, read_all
from tests.support.local_processes import LocalPair

pytestmark = pytest.mark.real

DISK_BYTES = 64 << 20
FILES = """
mappedFileSizeCommitLog=1048576
mappedFileSizeConsumeQueue=40000
cleanResourceInterval=500
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own for the master's store."""
    folder = tmp_path / "master"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@dataclass(slots=True)
class Seen:
    """The answers that senders got."""

    acknowledged: list[str] = field(default_factory=list)
    refused: dict[int | None, int] = field(default_factory=dict)
    remark: str = ""
    is_over: bool = False


async def send_until_over(seen: Seen, producer: Producer, sender: int) -> None:
    number = 0
    while not seen.is_over:
        key = f"s{sender}-{number}"
        number += 1
        try:
            result = await producer.send(Message(topic=TOPIC, body=make_body(key, 2000)))
        except SendFailed as error:
            seen.refused[error.code] = seen.refused.get(error.code, 0) + 1
            if error.code == ResponseCode.SERVICE_NOT_AVAILABLE:
                seen.remark = str(error)
            await asyncio.sleep(0.02)
            continue
        if result.status is SendStatus.SEND_OK:
            seen.acknowledged.append(key)


async def until_acknowledged(seen: Seen, count: int) -> None:
    goal = len(seen.acknowledged) + count
    async with asyncio.timeout(120):
        while len(seen.acknowledged) < goal:
            await asyncio.sleep(0.01)


async def until_refused(seen: Seen, count: int) -> None:
    goal = seen.refused.get(ResponseCode.SERVICE_NOT_AVAILABLE, 0) + count
    async with asyncio.timeout(120):
        while seen.refused.get(ResponseCode.SERVICE_NOT_AVAILABLE, 0) < goal:
            await asyncio.sleep(0.01)


def fill(path: Path) -> None:
    """Take every byte that is left."""
    with path.open("wb") as file:
        usage = os.statvfs(path)
        os.posix_fallocate(file.fileno(), 0, usage.f_bavail * usage.f_frsize)


async def fill_and_free(pair: LocalPair, disk: Path) -> tuple[Seen, list[str]]:
    env = make_env("disk-full")
    config = ProducerConfig(
        group="disk-full", name_servers=(pair.name_server_address,), client_id="127.0.0.1@sender"
    )
    producer = Producer(env, config)
    await producer.start()
    seen = Seen()
    try:
        async with asyncio.TaskGroup() as senders:
            for number in range(4):
                senders.create_task(send_until_over(seen, producer, number))
            await until_acknowledged(seen, 100)
            for _ in range(2):
                fill(disk / "filler")
                await until_refused(seen, 50)
                (disk / "filler").unlink()
                await until_acknowledged(seen, 100)
            seen.is_over = True
    finally:
        await producer.stop()
    return seen, await read_all(env, pair)


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_disk_that_is_suddenly_full(small_disk: Path, tmp_path: Path, flush: str) -> None:
    options = tmp_path / "broker.properties"
    options.write_text(FILES)
    with LocalPair(tmp_path, flush=flush, broker_file=options) as pair:
        seen, keys = asyncio.run(fill_and_free(pair, small_disk))
    assert len(seen.acknowledged) >= 300
    assert set(seen.acknowledged) <= set(keys)
    assert set(seen.refused) == {int(ResponseCode.SERVICE_NOT_AVAILABLE)}
    assert "the broker's disk is full [CL:" in seen.remark
