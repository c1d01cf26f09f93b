"""Starts a process so that cancellation cannot leak it: a launch cancelled midway kills the process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import TypeVar

from staticfire.harness.machines.machine import RunningProcess

Started = TypeVar("Started", bound=RunningProcess)


async def launched_wholly(launching: Coroutine[object, object, Started]) -> Started:
    """Return the started process. When cancelled, first wait for the end of the launch and kill its process."""
    task = asyncio.ensure_future(launching)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            await task.result().signal(signal.SIGKILL)
            await task.result().wait()
        raise
