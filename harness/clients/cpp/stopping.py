"""Ends a client of the library even if the library hangs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

STOP_TIMEOUT_S = 10.0
EXIT_FAILED = 1


async def stop_in_time(stop: Callable[[], None]) -> None:
    """Stop the library's producer or consumer; if that takes longer than `STOP_TIMEOUT_S`, end the process."""
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await asyncio.to_thread(stop)
    except TimeoutError:
        sys.stderr.write(f"librocketmq did not stop within {STOP_TIMEOUT_S:g} s.\n")
        sys.stderr.flush()
        os._exit(EXIT_FAILED)
