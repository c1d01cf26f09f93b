"""Ending tasks: all of them, whatever becomes of them, in the same number of turns of the loop everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from staticfire.system_under_test.runtime.ending import end_tasks, until_ended


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def fail() -> None:
    raise ValueError("no")


async def turns_of(waiting: Awaitable[None]) -> int:
    """How many turns of the loop `waiting` takes; each turn runs one more `count`."""
    loop = asyncio.get_running_loop()
    turns = 0

    def count() -> None:
        nonlocal turns
        turns += 1
        again[0] = loop.call_soon(count)

    again = [loop.call_soon(count)]
    await waiting
    again[0].cancel()
    return turns


def test_tasks_are_cancelled_and_have_ended() -> None:
    async def main() -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(forever()) for _ in range(3)]
        await end_tasks(tasks)
        return tasks

    assert all(task.cancelled() for task in asyncio.run(main()))


def test_a_failed_task_is_no_error_of_the_one_that_waits() -> None:
    complaints: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: complaints.append(context)
        )
        await until_ended([asyncio.create_task(fail())])

    asyncio.run(main())
    assert complaints == []


def test_none_takes_no_turn() -> None:
    assert asyncio.run(turns_of(end_tasks([]))) == 0


def test_a_task_that_has_ended_takes_two_turns_in_every_version_of_python() -> None:
    async def main() -> int:
        task = asyncio.create_task(fail())
        await asyncio.sleep(0)
        assert task.done()
        return await turns_of(until_ended([task]))

    assert asyncio.run(main()) == 2
