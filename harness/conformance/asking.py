"""Repeated questions, for what a target does some time after a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def ask_until(
    ask: Callable[[], Awaitable[T]],
    holds: Callable[[T], object],
    *,
    within_s: float,
    every_s: float = 0.5,
) -> T:
    """Ask every `every_s` seconds until the answer holds or the time is over. Return the last answer."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    while not holds(answer := await ask()) and loop.time() <= until_s:
        await asyncio.sleep(every_s)
    return answer
