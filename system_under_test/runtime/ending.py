"""Ends tasks in the same number of event-loop turns on every version of Python."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


async def end_tasks(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel `tasks` and return when all have ended: returned, failed or cancelled.

    In Python 3.11 `asyncio.gather` takes one turn of the loop for a task that has already ended, from 3.12 on none.
    A simulated run would differ between the two.
    """
    left = list(tasks)
    for task in left:
        task.cancel()
    await until_ended(left)


async def until_ended(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Return when all `tasks` have ended: returned, failed or cancelled."""
    left = list(tasks)
    if not left:
        return
    all_ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    missing = len(left)

    def one_ended(task: asyncio.Task[object]) -> None:
        nonlocal missing
        missing -= 1
        if not task.cancelled():
            task.exception()  # marks it as retrieved; otherwise asyncio logs it
        if not missing and not all_ended.done():
            all_ended.set_result(None)

    for task in left:
        task.add_done_callback(one_ended)
    await all_ended
