"""A fault of a disk that begins while threads wait for their fsyncs: an error ends those, a stall holds them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from staticfire.harness.environments.simulated.controls import SimulatedDisks
from staticfire.harness.environments.simulated.environment import SimulationEnvironment
from staticfire.harness.simulation import DiskOptions, Host, World
from staticfire.harness.simulation.scheduling.timing import FREE
from staticfire.system_under_test.runtime.env import Env, File, Storage

MS = 1_000_000
SYNC_MS = 10
SEEDS = range(12)
Job = Callable[[], None]


class Scene:
    """One host with two durable files of one byte; jobs run in threads of its process."""

    def __init__(self, seed: int, *, keeps_cache: bool = False) -> None:
        self.world = World(seed, timing=FREE)
        options = DiskOptions(
            fsync_ns=SYNC_MS * MS,
            entry_sync_ns=SYNC_MS * MS,
            durable_byte_ns=0,
            call_ns=0,
            cached_byte_ns=0,
            failed_sync_keeps_cache=keeps_cache,
        )
        self.host: Host = self.world.add_host("node", "10.0.0.1", disk=options)
        self.disk = self.host.disk
        self.files: list[File] = []
        self.ended: list[tuple[int, int | None]] = []  # when jobs ended, and with which errno

    def play(self, scenario: Callable[[Scene], Awaitable[None]]) -> Scene:
        async def main(env: Env) -> None:
            for path in ("/f", "/g"):
                file = env.storage.open(path, create=True)
                file.pwrite(b"o", 0)
                file.fsync()
                self.files.append(file)
            env.storage.fsync_dir("/")
            await asyncio.Event().wait()

        async def run() -> None:
            self.host.start("node", main)
            await asyncio.sleep(1)
            self.begin_ms = self.now_ms
            await scenario(self)

        self.world.run(run)
        return self

    @property
    def now_ms(self) -> int:
        return round(self.world.scheduler.now_ns / MS)

    def begin(self, job: Job) -> None:
        """In a thread of the process."""
        process = self.host.process
        assert process is not None

        def submit() -> None:
            done = asyncio.get_running_loop().run_in_executor(None, job)
            done.add_done_callback(self._end)

        process.context.copy().run(submit)

    async def begin_fsync(self) -> None:
        """Write to a file and sync it; return 4 ms later, 6 ms before the sync has ended."""
        self.files[0].pwrite(b"n", 0)
        self.begin(self.files[0].fsync)
        await asyncio.sleep(0.004)

    def _end(self, future: asyncio.Future[None]) -> None:
        error = future.exception()
        number = error.errno if isinstance(error, OSError) else None
        self.ended.append((self.now_ms - self.begin_ms, number))

    def durable(self, path: str) -> bytes:
        return self.disk.read_durable(path)


def test_an_error_fails_the_fsync_in_flight_at_its_end_and_no_other() -> None:
    async def scenario(scene: Scene) -> None:
        file = scene.files[0]
        file.pwrite(b"n", 0)
        scene.begin(file.fsync)
        await asyncio.sleep(0.004)
        scene.disk.fail_fsync(1)
        assert scene.disk.counters.sync_errors == 1
        await asyncio.sleep(0.005)
        assert scene.ended == []
        await asyncio.sleep(0.005)
        assert scene.durable("/f") == b"o"
        file.pwrite(b"x", 1)
        scene.begin(file.fsync)  # "fsyncgate": the next one succeeds
        await asyncio.sleep(0.02)
        assert scene.durable("/f") == b"ox"

    for keeps_cache in (False, True):
        scene = Scene(1, keeps_cache=keeps_cache).play(scenario)
        assert scene.ended == [(10, errno.EIO), (24, None)]
        shown = b"nx" if keeps_cache else b"ox"
        assert scene.disk.read_cached("/f") == shown


def test_of_what_the_failed_fsync_covers_a_part_is_durable_but_never_all() -> None:
    async def scenario(scene: Scene) -> None:
        scene.files[0].pwrite(b"n" * 3 * 4096, 0)
        scene.begin(scene.files[0].fsync)
        await asyncio.sleep(0.004)
        scene.files[0].pwrite(b"l", 3 * 4096)  # behind its beginning: not covered, so not lost
        scene.disk.fail_fsync(1)
        await asyncio.sleep(0.02)

    written = set()
    for seed in range(40):
        scene = Scene(seed).play(scenario)
        content = scene.durable("/f")
        written.add(tuple(content[at : at + 1] == b"n" for at in (0, 4096, 8192)))
        assert scene.ended == [(10, errno.EIO)]
        assert scene.disk.read_cached("/f")[3 * 4096 :] == b"l"
    assert (True, True, True) not in written
    assert {(False, False, False), (True, False, False)} < written


@pytest.mark.parametrize(("fails_ms", "ended_ms", "first"), [(4, 10, b"o"), (14, 20, b"n")])
def test_a_job_ends_with_the_fsync_that_fails(fails_ms: int, ended_ms: int, first: bytes) -> None:
    """What it had synced before is durable; what it would have synced next is not."""

    async def scenario(scene: Scene) -> None:
        for file in scene.files:
            file.pwrite(b"n", 0)
        scene.begin(partial(_sync_all, scene.files))  # until 10, until 20
        await asyncio.sleep(fails_ms / 1000)
        scene.disk.fail_fsync(1)
        await asyncio.sleep(0.05)

    scene = Scene(1).play(scenario)
    assert scene.ended == [(ended_ms, errno.EIO)]
    assert (scene.durable("/f"), scene.durable("/g")) == (first, b"o")


def test_a_job_that_ignores_the_error_goes_on_behind_it() -> None:
    def careless(files: list[File]) -> None:
        for file in files:
            with suppress(OSError):
                file.fsync()

    async def scenario(scene: Scene) -> None:
        for file in scene.files:
            file.pwrite(b"n", 0)
        scene.begin(partial(careless, scene.files))
        await asyncio.sleep(0.004)
        scene.disk.fail_fsync(1)
        await asyncio.sleep(0.05)

    scene = Scene(1).play(scenario)
    assert [number for _, number in scene.ended] == [None]
    assert (scene.durable("/f"), scene.durable("/g")) == (b"o", b"n")


def test_a_job_that_also_writes_ends_as_it_would_and_the_next_sync_fails() -> None:
    async def scenario(scene: Scene) -> None:
        scene.begin(partial(saving, scene.files[0]))
        await asyncio.sleep(0.004)
        scene.disk.fail_fsync(1)
        await asyncio.sleep(0.01)
        scene.begin(scene.files[1].fsync)
        await asyncio.sleep(0.02)

    scene = Scene(1).play(scenario)
    assert scene.ended == [(10, None), (24, errno.EIO)]


def test_a_name_whose_folder_failed_to_sync_is_not_durable() -> None:
    async def scenario(scene: Scene) -> None:
        storage: Storage = scene.disk
        storage.rename("/f", "/h")
        scene.begin(partial(storage.fsync_dir, "/"))
        await asyncio.sleep(0.004)
        scene.disk.fail_fsync(1)
        await asyncio.sleep(0.02)
        assert not scene.disk.is_durable("/h")
        scene.begin(partial(storage.fsync_dir, "/"))
        await asyncio.sleep(0.02)
        assert scene.disk.is_durable("/h")

    assert Scene(1).play(scenario).ended == [(10, errno.EIO), (34, None)]


def test_a_stall_holds_an_fsync_in_flight_until_it_ends() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.begin_fsync()
        scene.disk.slow(1e9)
        await asyncio.sleep(60)
        assert scene.ended == []
        assert scene.durable("/f") == b"o"
        scene.disk.heal()
        await asyncio.sleep(0.005)
        assert scene.ended == []
        await asyncio.sleep(0.002)
        assert scene.durable("/f") == b"n"

    assert Scene(1).play(scenario).ended == [(60_010, None)]


def test_a_power_cut_in_a_stall_may_take_what_the_fsync_covers() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.begin_fsync()
        scene.disk.slow(1e9)
        await asyncio.sleep(1)
        scene.host.power_cut()
        await asyncio.sleep(1)

    left = {Scene(seed).play(scenario).durable("/f") for seed in SEEDS}
    assert left == {b"o", b"n"}


def test_an_error_in_a_stall_comes_when_the_stall_is_over() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.begin_fsync()
        scene.disk.slow(1e9)
        scene.disk.fail_fsync(1)
        await asyncio.sleep(2)
        assert scene.ended == []
        scene.disk.heal()
        await asyncio.sleep(0.02)

    assert Scene(1).play(scenario).ended == [(2_010, errno.EIO)]


def saving(file: File) -> None:
    file.pwrite(b"n", 0)
    file.fsync()


async def heal(scene: Scene) -> None:
    environment = SimpleNamespace(
        nodes={"node": SimpleNamespace(host=scene.host)}, now_ns=lambda: scene.world.now_ns
    )
    await SimulatedDisks(cast(SimulationEnvironment, environment), None).heal("node")


@pytest.mark.parametrize(
    ("job", "healed_ms"), [(saving, 1_000), (File.fsync, 100)], ids=["also writes", "syncs only"]
)
def test_a_slow_disk_is_healed_when_its_last_call_has_ended(
    job: Callable[[File], None], healed_ms: int
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.disk.slow(100)
        scene.begin(partial(job, scene.files[0]))
        await asyncio.sleep(0.1)
        await heal(scene)
        assert scene.now_ms - scene.begin_ms == healed_ms

    Scene(1).play(scenario)


def test_calls_that_begin_after_the_heal_do_not_put_its_end_off() -> None:
    async def scenario(scene: Scene) -> None:
        scene.disk.slow(100)
        scene.begin(partial(saving, scene.files[0]))
        await asyncio.sleep(0.995)
        healing = asyncio.ensure_future(heal(scene))
        await asyncio.sleep(0.001)
        scene.begin(partial(saving, scene.files[1]))
        await healing
        assert scene.now_ms - scene.begin_ms == 1_000

    Scene(1).play(scenario)


def test_a_killed_process_ends_the_wait_for_its_calls() -> None:
    async def scenario(scene: Scene) -> None:
        assert scene.host.process is not None
        scene.disk.slow(100)
        scene.begin(partial(saving, scene.files[0]))
        await asyncio.sleep(0.1)
        healing = asyncio.ensure_future(heal(scene))
        await asyncio.sleep(0.15)
        scene.host.process.kill()
        await healing
        assert scene.now_ms - scene.begin_ms == 300

    Scene(1).play(scenario)


def test_a_killed_process_hears_nothing_of_its_fsync() -> None:
    async def scenario(scene: Scene) -> None:
        assert scene.host.process is not None
        await scene.begin_fsync()
        scene.disk.fail_fsync(1)
        scene.host.process.kill()
        await asyncio.sleep(1)

    assert Scene(1).play(scenario).ended == []


def _sync_all(files: list[File]) -> None:
    for file in files:
        file.fsync()
