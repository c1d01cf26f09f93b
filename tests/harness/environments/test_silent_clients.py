"""A client that closes its standard output and goes on would consume what no history holds."""

from __future__ import annotations

import asyncio
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from harness.environments import real
from harness.environments.real import RealEnvironment

KILLED = (["SIGKILL"], "consumer-1 closed its standard output and did not end")


class Client:
    """A process whose output has ended; it ends by itself, or when it is killed."""

    def __init__(self, *, ends: bool) -> None:
        self.signals: list[str] = []
        self._end = asyncio.Event()
        if ends:
            self._end.set()

    async def wait(self) -> str:
        await self._end.wait()
        return "status 0"

    async def signal(self, number: signal.Signals) -> bool:
        self.signals.append(number.name)
        self._end.set()
        return True


@pytest.mark.parametrize(("ends", "found"), [(False, KILLED), (True, ([], ""))])
def test_a_client_that_goes_on_is_killed(
    ends: bool, found: tuple[list[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "CLOSED_TIMEOUT_S", 0.001)
    node: Any = SimpleNamespace(name="consumer-1", wanted=True)
    environment: Any = SimpleNamespace(_ending=False)

    async def watched() -> tuple[list[str], str]:
        client: Any = Client(ends=ends)
        said = await RealEnvironment._end_of_silent(environment, node, client)
        return client.signals, said

    assert asyncio.run(watched()) == found
