"""Processes and hosts: start, pause and end."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from staticfire.harness.simulation import ExitStatus, PowerCut, SimulationError, World
from staticfire.system_under_test.runtime.env import Env
from tests.harness.simulation.two_hosts import TwoHosts


async def for_ever(env: Env) -> None:
    await asyncio.Event().wait()


def exit_of(main: Any, *, after_s: float = 1.0, then: str | None = None) -> ExitStatus:
    """Run `main` on a host of its own and call one method of the process after a while."""
    world = World(1)
    host = world.add_host("node", "10.0.0.1")

    async def harness() -> ExitStatus:
        process = host.start("node", main)
        if then is not None:
            await asyncio.sleep(after_s)
            getattr(process, then)()
        return await process.exit

    return world.run(harness)


async def returning(env: Env) -> None:
    await asyncio.sleep(0.1)


async def raising(env: Env) -> None:
    raise ValueError("broken")


async def leaving(env: Env) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("main", "then", "kind", "error"),
    [
        (returning, None, "returned", None),
        (raising, None, "raised", "ValueError('broken')"),
        (leaving, None, "raised", "SystemExit(3)"),
        (for_ever, "kill", "killed", None),
        (for_ever, "terminate", "terminated", None),
    ],
)
def test_exit_status(main: Any, then: str | None, kind: str, error: str | None) -> None:
    status = exit_of(main, then=then)
    assert status.kind == kind
    assert (repr(status.error) if status.error else None) == error


def test_terminate_before_the_first_line() -> None:
    assert exit_of(for_ever, after_s=0, then="terminate").kind == "terminated"


class Cleaner:
    """A main with work to do at its end, in every form that Python has."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def __del__(self) -> None:
        self.done.append("__del__")

    async def child(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.done.append("child")

    async def main(self, env: Env) -> None:
        task = asyncio.create_task(self.child())
        asyncio.get_running_loop().call_later(1.5, self.done.append, "timer")
        file = env.storage.open("/file", create=True)
        try:
            await asyncio.Event().wait()
        finally:
            self.done.append("main")
            file.pwrite(b"after death", 0)
            env.storage.unlink("/file")
            env.storage.open("/other", create=True)
            task.cancel()
            await asyncio.sleep(1)
            self.done.append("later")


def test_terminate_runs_every_finally() -> None:
    cleaner = Cleaner()
    assert exit_of(cleaner.main, then="terminate").kind == "terminated"
    assert cleaner.done == ["main", "child", "timer", "later"]


def test_kill_runs_no_finally() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    cleaner = Cleaner()

    async def harness() -> list[str]:
        process = host.start("node", cleaner.main)
        await asyncio.sleep(1)
        process.kill()
        gc.collect()
        await asyncio.sleep(1)
        return list(cleaner.done)

    assert world.run(harness) == []
    # The end of the run had to close its coroutines; they could not touch the disk.
    assert "/other" not in host.disk.snapshot()
    assert host.disk.read_cached("/file") == b""


def test_what_runs_at_the_end_of_the_world_finds_the_loop_of_its_life() -> None:
    """Otherwise asyncio would make a real loop for it, which no code closes."""
    found: list[asyncio.AbstractEventLoop] = []
    hosts = TwoHosts()

    async def main(env: Env) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            found.append(asyncio.get_event_loop())

    async def harness() -> None:
        hosts.client.start("client", main)
        await asyncio.sleep(1)

    hosts.world.run(harness)
    assert found == [hosts.world.loop]


def test_what_runs_at_the_end_of_the_world_has_no_effect() -> None:
    async def without_finally(env: Env) -> None:
        task = asyncio.create_task(for_ever(env))
        env.storage.open("/file", create=True)
        await task

    def ends(main: Any) -> tuple[str, list[str]]:
        hosts = TwoHosts()

        async def harness() -> None:
            hosts.client.start("client", main)
            await asyncio.sleep(1)

        hosts.world.run(harness)
        return hosts.world.trace.digest(), list(hosts.client.disk.snapshot())

    cleaner = Cleaner()
    assert ends(cleaner.main) == ends(without_finally)
    assert cleaner.done[:2] == ["main", "child"]


def test_a_power_cut_inside_a_disk_call_stops_the_node_there() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    reached: list[str] = []

    async def main(env: Env) -> None:
        file = env.storage.open("/file", create=True)
        try:
            for number in range(10):
                file.pwrite(b"x", number)
                reached.append("wrote")
        except Exception:
            reached.append("caught")

    async def harness() -> ExitStatus:
        host.disk.cut_at(4)  # open counts as one
        status = await host.start("node", main).exit
        await asyncio.sleep(1)
        return status

    assert world.run(harness).kind == "power cut"
    assert reached == ["wrote", "wrote"]
    assert not host.powered
    assert host.disk.counters.power_cuts == 1


def test_a_power_cut_inside_an_executor_job() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    reached: list[str] = []

    async def main(env: Env) -> None:
        file = env.storage.open("/file", create=True)
        file.pwrite(b"x", 0)
        await asyncio.get_running_loop().run_in_executor(None, file.fsync)
        reached.append("synced")

    async def harness() -> ExitStatus:
        host.disk.cut_at(3)
        return await host.start("node", main).exit

    assert world.run(harness).kind == "power cut"
    assert not reached


def test_the_page_cache_survives_a_kill_but_not_a_power_cut() -> None:
    async def write(env: Env) -> None:
        env.storage.open("/file", create=True).pwrite(b"unsynced", 0)
        await asyncio.Event().wait()

    def kept(then: str) -> bytes | None:
        world = World(1)
        host = world.add_host("node", "10.0.0.1")

        async def harness() -> None:
            host.start("node", write)
            await asyncio.sleep(1)
            if then == "kill":
                assert host.process is not None
                host.process.kill()
            else:
                host.power_cut()

        world.run(harness)
        return host.disk.snapshot().get("/file")

    assert kept("kill") == b"unsynced"
    assert kept("power_cut") in (None, b"")


@pytest.mark.parametrize("how", ["kill", "power_cut"])
def test_a_process_that_was_killed_in_a_long_turn_has_written_nothing_after_it(how: str) -> None:
    async def main(env: Env) -> None:
        file = env.storage.open("/file", create=True)
        file.pwrite(bytes(4096), 0)
        env.log.info("flushes")
        for _ in range(20):
            file.fsync()  # all in one turn
        env.log.info("has flushed")
        await asyncio.Event().wait()

    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    host.disk.slow(400.0)

    async def harness() -> list[str]:
        process = host.start("node", main)
        await asyncio.sleep(0.1)
        process.kill() if how == "kill" else host.power_cut()
        return [line.event for line in process.log.lines]

    assert world.run(harness) == ["flushes"]


def test_power_cut_reports_what_it_took_and_the_host_boots_again() -> None:
    world = World(3)
    host = world.add_host("node", "10.0.0.1")

    async def write(env: Env) -> None:
        file = env.storage.open("/file", create=True)
        file.pwrite(b"x" * 4096, 0)
        file.fsync()
        env.storage.fsync_dir("/")
        file.pwrite(b"y" * 4096, 4096)
        await asyncio.Event().wait()

    async def harness() -> list[str]:
        first = host.start("node", write)
        await asyncio.sleep(1)
        report = host.power_cut()
        assert 0 <= report.bytes_lost <= 4096
        with pytest.raises(RuntimeError, match="host node has no power"):
            host.start("node", for_ever)
        host.power_on()
        second = host.start("node", for_ever)
        assert (first.incarnation, second.incarnation) == (1, 2)
        assert second.alive
        return [(await first.exit).kind]

    assert world.run(harness) == ["power cut"]
    assert host.disk.read_durable("/file")[:4096] == b"x" * 4096


def test_one_process_at_a_time() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    host.start("first", for_ever)
    with pytest.raises(RuntimeError, match="host node already runs first"):
        host.start("second", for_ever)


def test_a_paused_process_stands_still_while_time_goes_on() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    ticks: list[float] = []

    async def tick(env: Env) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(1)
            ticks.append(loop.time())

    async def harness() -> None:
        process = host.start("node", tick)
        await asyncio.sleep(3.5)
        process.pause()
        await asyncio.sleep(10)
        process.resume()
        await asyncio.sleep(2)

    world.run(harness)
    assert [int(at_s) for at_s in ticks] == [1, 2, 3, 13, 14]


def test_a_paused_process_does_not_even_finish_its_turn() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    count = 0

    async def spin(_: Env) -> None:
        nonlocal count
        while True:
            await asyncio.sleep(0)
            count += 1

    async def harness() -> None:
        process = host.start("node", spin)
        await asyncio.sleep(0.5)
        process.pause()
        before = count
        assert before > 0
        await asyncio.sleep(0.5)
        assert count == before

    world.run(harness)


def test_pause_and_resume_in_one_instant_loses_and_doubles_nothing() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    count = 0

    async def spin(env: Env) -> None:
        nonlocal count
        for _ in range(1000):
            await asyncio.sleep(0)
            count += 1

    async def harness() -> None:
        process = host.start("node", spin)
        for _ in range(100):
            await asyncio.sleep(0.0005)
            process.pause()
            process.resume()
        await process.exit

    world.run(harness)
    assert count == 1000


def test_a_paused_process_is_killed_at_once_and_terminated_when_it_goes_on() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")

    async def harness() -> list[str]:
        kinds: list[str] = []
        for end in ("kill", "terminate"):
            process = host.start("node", for_ever)
            await asyncio.sleep(1)
            process.pause()
            getattr(process, end)()
            await asyncio.sleep(1)
            assert process.alive == (end == "terminate")
            process.resume()
            kinds.append((await process.exit).kind)
        return kinds

    assert world.run(harness) == ["killed", "terminated"]


def test_executor_jobs_stand_still_with_their_process() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    ran_at_s: list[float] = []

    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(1)
        process.pause()
        await loop.run_in_executor(None, lambda: ran_at_s.append(loop.time()))

    async def harness() -> None:
        asyncio.get_running_loop().call_later(5, process.resume)
        await process.exit

    process = host.start("node", main)
    world.run(harness)
    assert ran_at_s[0] >= 5


def test_executor_jobs_of_a_killed_process_never_begin() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    ran: list[str] = []

    async def main(_: Env) -> None:
        job = asyncio.get_running_loop().run_in_executor(None, ran.append, "job")
        process.kill()
        await job
        ran.append("main")

    async def harness() -> str:
        status = await process.exit
        await asyncio.sleep(1)
        return status.kind

    process = host.start("node", main)
    assert world.run(harness) == "killed"
    assert ran == []


def test_a_process_has_ended_once_its_last_calls_of_the_disk_are_over() -> None:
    """A new process changed names that the last one seemed to change later; a power cut made that true."""
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    over_ns: list[int] = []

    async def main(env: Env) -> None:
        try:
            await for_ever(env)
        finally:
            env.storage.open("/file", create=True).fsync()
            over_ns.append(env.clock.monotonic_ns())

    async def harness() -> None:
        process = host.start("node", main)
        await asyncio.sleep(1)
        terminated_ns = world.now_ns
        process.terminate()
        await process.exit
        assert terminated_ns < over_ns[0] <= world.now_ns

    world.run(harness)


def test_the_lock_of_a_killed_process_is_free() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    locked: list[bool] = []

    async def main(env: Env) -> None:
        locked.append(env.storage.open("/lock", create=True).try_lock())
        await for_ever(env)

    async def harness() -> None:
        for _ in range(2):
            process = host.start("node", main)
            await asyncio.sleep(1)
            process.kill()

    world.run(harness)
    assert locked == [True, True]


def test_a_main_that_returns_has_its_tasks_cancelled() -> None:
    ended: list[str] = []

    async def child() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)
            ended.append("child")
            raise

    async def main(env: Env) -> None:
        task = asyncio.create_task(child())
        await asyncio.sleep(0.1)
        assert not task.done()

    assert exit_of(main).kind == "returned"
    assert ended == ["child"]


def test_an_uncaught_error_in_a_callback_is_logged_and_life_goes_on() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")

    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    async def harness() -> str:
        return (await host.start("node", main).exit).kind

    assert world.run(harness) == "returned"
    assert host.process is not None
    lines = [(line.level, line.fields) for line in host.process.log.lines]
    assert lines == [("error", {"error": "ZeroDivisionError('division by zero')"})]


def test_an_error_that_no_task_awaits_is_logged_by_its_process() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")

    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(raising(env)), loop.run_in_executor(None, int, "x")]
        await asyncio.sleep(0.1)
        tasks.clear()
        await asyncio.gather(*[asyncio.create_task(asyncio.sleep(0)) for _ in range(100)])

    async def harness() -> None:
        await host.start("node", main).exit

    world.run(harness)
    assert host.process is not None
    events = sorted(line.event for line in host.process.log.lines)
    assert events == [
        "SimFuture exception was never retrieved",
        "SimTask exception was never retrieved",
    ]


def test_the_harness_gets_its_own_errors() -> None:
    async def harness() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        World(1).run(harness)


def test_a_world_in_which_nothing_can_happen_ends() -> None:
    async def harness() -> None:
        await asyncio.Event().wait()

    with pytest.raises(SimulationError, match="no event left at 0 ns"):
        World(1).run(harness)


def test_a_world_that_never_ends_is_ended() -> None:
    async def harness() -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(SimulationError, match="event_limit of 1000 events reached"):
        World(1, event_limit=1000).run(harness)


def test_a_world_runs_once_and_not_inside_another_loop() -> None:
    async def nothing() -> None:
        pass

    world = World(1)
    world.run(nothing)
    with pytest.raises(RuntimeError, match="this world has ended"):
        world.run(nothing)

    async def outer() -> None:
        with pytest.raises(RuntimeError, match="inside a running event loop"):
            World(1).run(nothing)

    asyncio.run(outer())


def test_collection_is_off_only_during_the_run() -> None:
    async def harness() -> bool:
        return gc.isenabled()

    assert gc.isenabled()
    assert World(1).run(harness) is False
    assert gc.isenabled()


def test_each_host_has_its_wall_clock_and_only_it_steps() -> None:
    hosts = TwoHosts()

    async def story(env: Env) -> None:
        clock = env.clock
        wall_ms, monotonic_ns = clock.wall_ms(), clock.monotonic_ns()
        hosts.client.clock.step(-3_600_000)
        assert clock.wall_ms() == wall_ms - 3_600_000
        assert clock.monotonic_ns() == monotonic_ns
        await asyncio.sleep(2)
        assert 2000 <= clock.wall_ms() - wall_ms + 3_600_000 < 2010
        assert hosts.server.clock.wall_ms() - clock.wall_ms() == 3_600_000

    hosts.run(story)


def test_an_env_is_drawn_anew_for_each_incarnation() -> None:
    world = World(7)
    host = world.add_host("node", "10.0.0.1")
    draws: list[float] = []

    async def main(env: Env) -> None:
        draws.append(env.random.random())

    async def harness() -> None:
        for _ in range(2):
            await host.start("node", main).exit

    world.run(harness)
    assert draws[0] != draws[1]
    assert draws[0] == World(7).stream("env/node/1").random()


def test_power_cut_is_no_exception() -> None:
    assert not issubclass(PowerCut, Exception)
