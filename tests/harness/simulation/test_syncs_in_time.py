"""Syncs that take time: they cover the data at their begin, and make it durable at their end."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from random import Random

import pytest

from staticfire.harness.simulation import DiskOptions, World
from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.runtime.env import Env, File
from tests.harness.simulation.two_hosts import Recorder

MS = 1_000_000
SYNC_MS = 10
OPTIONS = DiskOptions(
    fsync_ns=SYNC_MS * MS, entry_sync_ns=SYNC_MS * MS, durable_byte_ns=0, call_ns=0
)
SEEDS = range(60)


class Thread:
    """One disk in a world whose time goes on by `at`; what a job was charged puts it ahead of that."""

    def __init__(self, seed: int = 0, options: DiskOptions = OPTIONS) -> None:
        self._now_ns = 0
        self._debt_ns = 0
        self.disk = SimDisk(
            random=Random(f"disk {seed}"),
            now_ns=lambda: self._now_ns + self._debt_ns,
            world_ns=lambda: self._now_ns,
            charge=self._charge,
            options=options,
        )

    def _charge(self, cost_ns: int) -> None:
        self._debt_ns += cost_ns

    def at(self, ms: float) -> SimDisk:
        self._now_ns = int(ms * MS)
        self._debt_ns = 0
        return self.disk


def with_file(seed: int, options: DiskOptions = OPTIONS) -> tuple[Thread, File]:
    """At 100 ms there is a durable file of one byte."""
    thread = Thread(seed, options)
    file = thread.at(0).open("/f", create=True)
    file.pwrite(b"o", 0)
    file.fsync()
    thread.disk.fsync_dir("/")
    thread.at(100)
    return thread, file


def contents(scenario: Callable[[Thread, File], None], at_ms: float) -> set[bytes]:
    """What the file holds after a power cut at that time, over all seeds."""
    found = set()
    for seed in SEEDS:
        thread, file = with_file(seed)
        scenario(thread, file)
        thread.at(at_ms).power_cut()
        thread.disk.power_on()
        found.add(thread.disk.read_cached("/f"))
    return found


def test_a_sync_ends_when_its_time_is_over() -> None:
    thread, file = with_file(0)
    file.pwrite(b"n", 0)
    file.fsync()
    assert not thread.at(109).is_durable("/f", 0, 1)
    assert thread.at(110).is_durable("/f", 0, 1)


@pytest.mark.parametrize(("at_ms", "left"), [(109, {b"o", b"n"}), (110, {b"n"})])
def test_a_power_cut_in_a_sync_may_take_what_it_covers(at_ms: float, left: set[bytes]) -> None:
    def scenario(_: Thread, file: File) -> None:
        file.pwrite(b"n", 0)
        file.fsync()

    assert contents(scenario, at_ms) == left


@pytest.mark.parametrize(("at_ms", "left"), [(104, {b"o"}), (110, {b"ol"})])
def test_nothing_happens_that_a_job_would_have_done_later(at_ms: float, left: set[bytes]) -> None:
    """A job runs at one instant, but what it does after a sync has not happened before that has ended."""

    def scenario(_: Thread, file: File) -> None:
        file.fsync()
        file.pwrite(b"l", 1)
        file.fsync()

    possible = left if at_ms < 110 else {b"o", b"o\0", b"ol"}
    assert contents(scenario, at_ms) == possible
    assert contents(scenario, 120) == {b"ol"}


def test_a_sync_does_not_cover_what_is_written_while_it_lasts() -> None:
    def scenario(thread: Thread, file: File) -> None:
        file.pwrite(b"n", 0)
        file.fsync()
        thread.at(105)
        file.pwrite(b"l", 0)

    assert contents(scenario, 200) == {b"n", b"l"}


def test_syncs_wait_for_each_other() -> None:
    thread, file = with_file(0)
    file.pwrite(b"n", 0)
    file.fsync()
    thread.at(101)
    file.pwrite(b"l", 1)
    file.fsync()
    assert thread.at(119).is_durable("/f", 0, 1)
    assert not thread.disk.is_durable("/f", 1, 1)
    assert thread.at(120).is_durable("/f", 1, 1)


def test_a_name_is_durable_when_the_sync_of_its_folder_has_ended() -> None:
    found = set()
    for seed in SEEDS:
        thread, file = with_file(seed)
        file.fsync()
        thread.disk.rename("/f", "/g")
        thread.disk.fsync_dir("/")  # from 110 to 120
        assert not thread.at(119).is_durable("/g")
        thread.disk.power_cut()
        thread.disk.power_on()
        found.add(thread.disk.exists("/g"))
    assert found == {True, False}
    thread, file = with_file(0)
    file.fsync()
    thread.disk.rename("/f", "/g")
    thread.disk.fsync_dir("/")
    thread.at(109).power_cut()  # before the rename
    thread.disk.power_on()
    assert thread.disk.exists("/f")
    assert not thread.disk.exists("/g")


def test_what_a_thread_was_in_the_middle_of_survives_its_process() -> None:
    thread, file = with_file(0)
    file.pwrite(b"n", 0)
    file.fsync()
    file.pwrite(b"l", 1)
    thread.at(105).release_locks()
    assert thread.disk.read_cached("/f") == b"nl"
    thread.at(109)
    assert not thread.disk.is_durable("/f", 0, 1)
    thread.at(110)
    assert thread.disk.is_durable("/f", 0, 1)
    assert not thread.disk.is_durable("/f", 1, 1)


def test_a_failed_sync_loses_blocks_and_never_all_arrive() -> None:
    written = set()
    for seed in SEEDS:
        thread, file = with_file(seed)
        file.pwrite(b"n" * 3 * 4096, 0)
        thread.disk.fail_fsync()
        with pytest.raises(OSError, match=str(errno.EIO)):
            file.fsync()
        thread.at(111)
        content = thread.disk.read_durable("/f")
        written.add(tuple(content[at : at + 1] == b"n" for at in (0, 4096, 8192)))
        assert content.count(b"n") % 4096 == 0
    assert len(written) == 7
    assert (True, True, True) not in written


def test_the_kernel_writes_what_is_dirty_for_long() -> None:
    options = DiskOptions(
        durable_byte_ns=1e6, call_ns=0, write_back_every_ns=50 * MS, write_back_after_ns=70 * MS
    )
    thread, file = with_file(0, options)
    thread.at(101)
    file.pwrite(b"0123456789", 0)
    file.forget_cache()
    for ms, durable in [(150, 0), (199, 0), (201, 0), (209, 0), (211, 10)]:
        other = thread.at(ms).open("/other", create=True)
        other.fsync()  # the kernel looks every 50 ms: at 200 the write is old enough, and takes 10 ms
        assert thread.disk.is_durable("/f", 0, 10) is bool(durable), ms


def test_an_answer_behind_a_sync_on_the_loop_is_never_sent_when_the_power_goes_first() -> None:
    """The loop stands still while it syncs, so what it writes to a connection afterwards leaves the machine later."""

    def heard(cut_after_s: float) -> bytes:
        world = World(1)
        slow = DiskOptions(fsync_ns=1_000 * MS)
        server = world.add_host("server", "10.0.0.1", disk=slow)
        client = world.add_host("client", "10.0.0.2")
        received = bytearray()

        class Server(Recorder):
            def data_received(self, data: bytes) -> None:
                file = server.disk.open("/f", create=True)
                file.fsync()
                self.transport.write(b"done")

        async def serve(env: Env) -> None:
            await asyncio.get_running_loop().create_server(Server, "10.0.0.1", 1)
            await asyncio.Event().wait()

        async def ask(env: Env) -> None:
            loop = asyncio.get_running_loop()
            transport, protocol = await loop.create_connection(Recorder, "10.0.0.1", 1)
            transport.write(b"?")
            await asyncio.sleep(3)
            received.extend(protocol.received)

        async def harness() -> None:
            server.start("server", serve)
            await asyncio.sleep(1)
            client.start("client", ask)
            await asyncio.sleep(cut_after_s)
            server.power_cut()
            await asyncio.sleep(4)

        world.run(harness)
        return bytes(received)

    assert heard(0.5) == b""
    assert heard(1.5) == b"done"
