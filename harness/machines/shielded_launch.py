"""A launch that is cancelled half way would leave its process running: no list names it yet."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from staticfire.harness.machines.machine import RunningProcess

Started = TypeVar("Started", bound=RunningProcess)


async def launched_wholly(launching: Coroutine[Any, Any, Started]) -> Started:
    """The process; when cancelled, only once it was started and killed, or could not be started."""
    task = asyncio.ensure_future(launching)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            await task.result().signal(signal.SIGKILL)
            await task.result().wait()
        raise
