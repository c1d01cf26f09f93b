"""Waits for the first good one of several answers, without tasks: with futures and one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def wait_until(
    futures: Sequence[asyncio.Future[T]], is_enough: Callable[[], bool], timeout_s: float | None
) -> None:
    """Return when `is_enough()` holds, when all futures are done, or after `timeout_s`.

    It calls `is_enough` now and each time one of the futures ends. It neither cancels nor awaits the futures.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def check(_: object = None) -> None:
        if not over.done() and (is_enough() or all(future.done() for future in futures)):
            over.set_result(None)

    def stop_waiting() -> None:
        if not over.done():
            over.set_result(None)

    check()
    for future in futures:
        future.add_done_callback(check)
    timer = None if timeout_s is None else loop.call_later(timeout_s, stop_waiting)
    try:
        await over
    finally:
        if timer is not None:
            timer.cancel()
        for future in futures:
            future.remove_done_callback(check)


def succeeded(future: asyncio.Future[T]) -> bool:
    """Whether the future has a result. This also marks its exception as retrieved for asyncio."""
    return future.done() and not future.cancelled() and future.exception() is None


def see_exception(future: asyncio.Future[T]) -> None:
    """Done callback for a request whose failure does not matter."""
    if not future.cancelled():
        future.exception()


async def first_good(
    questions: Sequence[Callable[[], asyncio.Future[T]]],
    is_good: Callable[[T], bool],
    *,
    patience_s: float,
) -> T | None:
    """Ask one after the other until an answer is good; None if all were asked and none was good.

    It asks the next as soon as the last one has failed or given a bad answer, and after `patience_s` at the latest.
    Earlier requests stay pending: the first good answer wins.
    """
    asked: list[asyncio.Future[T]] = []

    def good() -> T | None:
        answers = (future.result() for future in asked if succeeded(future))
        return next((answer for answer in answers if is_good(answer)), None)

    for number, ask in enumerate(questions, start=1):
        future = ask()
        future.add_done_callback(see_exception)
        asked.append(future)
        is_last = number == len(questions)
        await wait_until(asked, lambda: good() is not None, None if is_last else patience_s)
        if (answer := good()) is not None:
            return answer
    return None
