"""Client processes for end-to-end tests, spoken to through a ProcessPort."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from staticfire.checkers.model.history import Stamp
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.clients.process_port import ProcessPort

ROOT = Path(__file__).parent.parent.parent
WAIT_S = 60.0


class ClientProcess:
    """One client. `emitted` holds type, f and value of what it reported by itself."""

    def __init__(self, name: str, process: Process, configuration: Mapping[str, Any]) -> None:
        self.emitted: list[tuple[str, str, Mapping[str, Any]]] = []
        self._changed = asyncio.Event()
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self.port = ProcessPort(
            name, self._emit, process.stdout, process.stdin.write, configuration
        )
        self._reading = asyncio.create_task(self.port.run())

    def _emit(
        self, type: str, f: str, value: Mapping[str, Any], error: str | None, _stamp: Stamp | None
    ) -> None:
        self.emitted.append((type, f, value))
        self._changed.set()

    async def ask(self, f: str, **fields: Any) -> Outcome:
        request: Request = {"f": f, **fields}
        return await asyncio.wait_for(self.port.request(request), WAIT_S)

    async def until(self, count: int, type: str, f: str) -> list[Mapping[str, Any]]:
        """Wait for this many ops; returns their values."""
        async with asyncio.timeout(WAIT_S):
            while len(found := self.values(type, f)) < count:
                self._changed.clear()
                await self._changed.wait()
        return found

    def values(self, type: str, f: str) -> list[Mapping[str, Any]]:
        return [value for t, name, value in self.emitted if (t, name) == (type, f)]

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def close_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def ended(self) -> int:
        """Wait for its end and for all that it said; returns the exit status."""
        async with asyncio.timeout(WAIT_S):
            await self._reading
            return await self._process.wait()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self.send_signal(signal.SIGKILL)
        await self.ended()


@asynccontextmanager
async def client_process(
    module: str, role: str, configuration: Mapping[str, Any], *, log: int = DEVNULL
) -> AsyncIterator[ClientProcess]:
    """`python -m <module> <role>`, killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", module, role),
        stdin=PIPE,
        stdout=PIPE,
        stderr=log,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    client = ClientProcess(role, process, configuration)
    try:
        yield client
    finally:
        await client.kill()
