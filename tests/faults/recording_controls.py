"""Capabilities that do nothing and remember what they were asked, with the time of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from staticfire.faults.model.capabilities import Controls


class RecordingControl:
    """Stands for any capability. `calls` holds (second, method, arguments); counters are 0 but those in `counted`."""

    def __init__(self, calls: list[tuple[float, str, tuple[Any, ...]]], **counted: int) -> None:
        self._calls = calls
        self.counted = counted

    def __getattr__(self, method: str) -> Callable[..., Awaitable[None]]:
        async def call(*arguments: Any, **named: Any) -> None:
            now_s = round(asyncio.get_running_loop().time(), 3)
            self._calls.append((now_s, method, (*arguments, *named.values())))

        return call

    async def counters(self, node: str) -> dict[str, int]:
        return {"lost_bytes": 0, "power_cuts": 0, **self.counted}


def recording_controls(
    calls: list[tuple[float, str, tuple[Any, ...]]], lacks: dict[str, str] | None = None
) -> Controls:
    control = cast(Any, RecordingControl(calls))
    return Controls(network=control, disk=control, lacks=lacks or {})
