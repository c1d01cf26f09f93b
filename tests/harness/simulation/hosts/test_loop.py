"""The asyncio surface that nodes use: as on a real loop, in virtual time."""

from __future__ import annotations

import asyncio
import contextvars
from itertools import pairwise
from typing import Any

import pytest

from staticfire.harness.simulation import World
from staticfire.system_under_test.runtime.env import Env
from tests.harness.simulation.two_hosts import TwoHosts, run_process


def test_sleep_takes_virtual_time_and_is_a_little_late() -> None:
    async def main(env: Env) -> list[float]:
        loop = asyncio.get_running_loop()
        late = []
        for _ in range(50):
            before_s = loop.time()
            await asyncio.sleep(0.1)
            late.append(loop.time() - before_s - 0.1)
        return late

    late = run_process(main)
    assert all(0 <= one < 0.002 for one in late)
    assert max(late) > 2 * min(late)


def test_callbacks_run_in_the_order_of_call_soon() -> None:
    async def main(env: Env) -> list[int]:
        loop = asyncio.get_running_loop()
        order: list[int] = []
        for number in range(10):
            loop.call_soon(order.append, number)
        await asyncio.sleep(0)
        return order

    assert run_process(main) == list(range(10))


def test_timers_run_in_the_order_of_their_times() -> None:
    async def main(env: Env) -> list[int]:
        loop = asyncio.get_running_loop()
        order: list[int] = []
        for number in range(200):
            loop.call_at(loop.time() + 0.01 + (200 - number) / 1e5, order.append, 200 - number)
        await asyncio.sleep(1)
        return order

    assert run_process(main) == list(range(1, 201))


def test_call_at_is_not_early() -> None:
    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()

        def settle(reached: asyncio.Future[float]) -> None:
            reached.set_result(loop.time())

        for number in range(1, 200):
            when_s = loop.time() + number / 977
            reached = loop.create_future()
            loop.call_at(when_s, settle, reached)
            assert await reached >= when_s

    run_process(main)


def test_a_cancelled_timer_never_fires_and_leaves_the_heap() -> None:
    hosts = TwoHosts()
    fired: list[int] = []

    async def story(env: Env) -> int:
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(10, fired.append, number) for number in range(2000)]
        for timer in timers[1:]:
            timer.cancel()
            assert timer.cancelled()
        size = len(hosts.world.scheduler.timers)
        await asyncio.sleep(11)
        return size

    assert hosts.run(story) < 600
    assert fired == [0]


def test_wait_for_gather_event_queue_and_lock() -> None:
    async def main(env: Env) -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        lock, event = asyncio.Lock(), asyncio.Event()

        async def produce() -> None:
            for number in range(3):
                await queue.put(number)
            event.set()

        async def consume() -> list[int]:
            async with lock:
                return [await queue.get() for _ in range(3)]

        _, got = await asyncio.gather(produce(), consume())
        await asyncio.wait_for(event.wait(), 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.sleep(10)
        return got

    assert run_process(main) == [0, 1, 2]


def test_gather_wait_shield_and_task_group() -> None:
    async def main(env: Env) -> None:
        async def answer(number: int) -> int:
            await asyncio.sleep(number / 10)
            return number

        results = await asyncio.gather(answer(2), answer(1), fail(), return_exceptions=True)
        assert list(results[:2]) == [2, 1]
        assert isinstance(results[2], ValueError)
        assert await asyncio.shield(answer(1)) == 1
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(answer(number)) for number in range(3)]
        assert [task.result() for task in tasks] == [0, 1, 2]

    async def fail() -> None:
        raise ValueError

    run_process(main)


def test_executor_results_errors_and_cost() -> None:
    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, pow, 2, 10) == 1024
        assert await asyncio.to_thread(pow, 2, 10) == 1024
        with pytest.raises(FileNotFoundError):
            await loop.run_in_executor(None, env.storage.open, "/missing")
        file = env.storage.open("/file", create=True)
        file.pwrite(b"x", 0)
        before_s = loop.time()
        await loop.run_in_executor(None, file.fsync)
        assert 0.000150 < loop.time() - before_s < 0.001

    run_process(main)


def test_a_blocking_call_stalls_its_own_loop_and_no_other() -> None:
    hosts = TwoHosts()
    hosts.client.disk.slow(400)
    ticks: dict[str, list[float]] = {"server": [], "client": []}

    async def tick(name: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            ticks[name].append(loop.time())
            await asyncio.sleep(0.01)

    hosts.server.start("server", lambda env: tick("server"))

    async def story(env: Env) -> float:
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(tick("client"))
        await asyncio.sleep(0.05)
        file = env.storage.open("/file", create=True)
        file.pwrite(b"x", 0)
        before_s = loop.time()
        file.fsync()
        elapsed_s = loop.time() - before_s
        await asyncio.sleep(0.1)
        task.cancel()
        return elapsed_s

    assert hosts.run(story) > 0.059

    def longest_gap_s(name: str) -> float:
        times = ticks[name]
        return max(later - earlier for earlier, later in pairwise(times))

    assert longest_gap_s("client") > 0.059
    assert longest_gap_s("server") < 0.02


def test_segments_leave_after_the_blocking_call_before_them() -> None:
    hosts = TwoHosts()
    hosts.listen()
    hosts.client.disk.slow(400)

    async def story(env: Env) -> float:
        loop = asyncio.get_running_loop()
        client = await hosts.connect()
        file = env.storage.open("/file", create=True)
        file.pwrite(b"x", 0)
        await asyncio.sleep(0.01)
        before_s = loop.time()
        file.fsync()
        client.transport.write(b"after the fsync")
        await asyncio.sleep(0)
        assert loop.time() - before_s > 0.059
        received_early = len(hosts.accepted[0].received)
        await asyncio.sleep(0.01)
        assert len(hosts.accepted[0].received) == 15
        return received_early

    assert hosts.run(story) == 0


def test_tasks_and_futures_hash_by_creation() -> None:
    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        tasks: list[Any] = [asyncio.create_task(asyncio.sleep(0)) for _ in range(3)]
        assert [hash(task) - hash(tasks[0]) for task in tasks] == [0, 1, 2]
        first, second = loop.create_future(), loop.create_future()
        assert hash(second) == hash(first) + 1
        await asyncio.gather(*tasks)

    run_process(main)


def test_task_names_do_not_depend_on_other_worlds() -> None:
    async def main(env: Env) -> str:
        task = asyncio.current_task()
        assert task is not None
        child = asyncio.create_task(asyncio.sleep(0))
        await child
        return f"{task.get_name()} {child.get_name()}"

    assert run_process(main) == run_process(main)


def test_a_context_variable_is_inherited() -> None:
    request: contextvars.ContextVar[str] = contextvars.ContextVar("request")

    async def main(env: Env) -> str:
        request.set("r1")

        async def child() -> str:
            return request.get()

        return await asyncio.create_task(child()) + await asyncio.to_thread(request.get)

    assert run_process(main) == "r1r1"


def test_a_future_wakes_the_process_that_waits_for_it() -> None:
    hosts = TwoHosts()
    loop = hosts.world.loop
    asked, answered = loop.create_future(), loop.create_future()

    async def serve(env: Env) -> None:
        answered.set_result(await asked + 1)

    hosts.server.start("server", serve)

    async def story(env: Env) -> int:
        asked.set_result(41)
        answer: int = await answered
        process = hosts.client.process
        assert process is not None
        task = asyncio.current_task()
        assert task in process.queue.tasks
        return answer

    assert hosts.run(story) == 42


def test_the_harness_has_no_network() -> None:
    async def harness() -> None:
        with pytest.raises(OSError, match="the harness runs on no host"):
            await asyncio.get_running_loop().create_connection(asyncio.Protocol, "10.0.0.1", 1)

    World(1).run(harness)


def test_what_is_not_simulated_is_refused() -> None:
    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(
            NotImplementedError, match="interleave: the simulated network knows TCP"
        ):
            await loop.create_connection(asyncio.Protocol, "10.0.0.1", 1, interleave=1)

    run_process(main)
