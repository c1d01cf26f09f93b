"""Makes several things at the same time; after an error none of them is still being made."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TypeVar

Made = TypeVar("Made")
THREAD_S = 10.0


async def all_or_first_error(makings: Iterable[Coroutine[object, object, Made]]) -> list[Made]:
    """Do the same as `asyncio.gather`, but after a failure cancel the others and wait for their end.

    `gather` leaves them running, so they would make more while the caller removes what was made. Raises the first
    error.
    """
    tasks = [asyncio.ensure_future(making) for making in makings]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def to_its_end(thread: asyncio.Future[Made]) -> Made:
    """Wait for work in a thread, for up to `THREAD_S` also when cancelled.

    A thread cannot be stopped, so it would make more while the caller removes what was made.
    """
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        await asyncio.wait([thread], timeout=THREAD_S)
        if thread.done() and not thread.cancelled():
            thread.exception()  # the wait for it ends
        raise
