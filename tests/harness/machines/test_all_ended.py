"""Concurrent starts: after a failure or a cancellation, none creates anything once removal has begun."""

from __future__ import annotations

import asyncio
import threading

import pytest

from staticfire.harness.machines.all_ended import all_or_first_error, to_its_end


def test_when_one_fails_the_others_have_ended() -> None:
    asyncio.run(_when_one_fails_the_others_have_ended())


async def _when_one_fails_the_others_have_ended() -> None:
    made: list[str] = []

    async def fail() -> None:
        raise ValueError("no")

    async def make() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            made.append("ended")

    with pytest.raises(ValueError, match="no"):
        await all_or_first_error([make(), fail(), make()])
    assert made == ["ended", "ended"]


def test_results_come_in_order() -> None:
    asyncio.run(_results_come_in_order())


async def _results_come_in_order() -> None:
    async def number(value: int) -> int:
        return value

    assert await all_or_first_error(number(value) for value in (3, 1, 2)) == [3, 1, 2]


def test_a_thread_has_ended_when_the_cancellation_is_out() -> None:
    asyncio.run(_a_thread_has_ended_when_the_cancellation_is_out())


async def _a_thread_has_ended_when_the_cancellation_is_out() -> None:
    go = threading.Event()
    made: list[str] = []

    def make() -> None:
        go.wait(10)
        made.append("made")

    waiting = asyncio.create_task(to_its_end(asyncio.ensure_future(asyncio.to_thread(make))))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert made == ["made"]
