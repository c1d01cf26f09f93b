"""Things that are made at the same time, and none of them any more when the error is out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Made = TypeVar("Made")
THREAD_S = 10.0


async def all_or_first_error(makings: Iterable[Coroutine[Any, Any, Made]]) -> list[Made]:
    """As `asyncio.gather`, which leaves the others at work when one fails: they would go on making things while what
    was made is removed. Here they are cancelled and have ended. Raises the first error.
    """
    tasks = [asyncio.ensure_future(making) for making in makings]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def to_its_end(thread: asyncio.Future[Made]) -> Made:
    """Wait for what is at work in a thread, also when cancelled (for `THREAD_S`): a thread cannot be stopped, and would
    go on making things while what was made is removed.
    """
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        await asyncio.wait([thread], timeout=THREAD_S)
        if thread.done() and not thread.cancelled():
            thread.exception()  # it is not waited for any more
        raise
