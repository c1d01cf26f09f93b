"""One client under test: the requests of a case, and the client's reports and frames."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.conformance.failures import NotTriable

if TYPE_CHECKING:
    from staticfire.checkers.model.history import OpType
    from staticfire.harness.conformance.client_proxy import ClientProxy

ANSWER_S = 30.0  # for one request, and for the start
POLL_S = 0.05

PRODUCER, CONSUMER, ADMINISTRATOR = "producer", "consumer", "administrator"
Emit = Callable[["OpType", str, Mapping[str, object], str | None], None]


class ClientUnusable(Exception):
    """The client cannot be started, hangs or breaks the line protocol, so no case can use it."""


class ClientGone(Exception):
    """A client ended without a request to do so, or did not answer a request."""


@dataclass(slots=True)
class Call:
    """One call of a listener. Times are seconds of the loop's clock."""

    began_s: float
    topic: str
    broker: str
    queue: int
    keys: tuple[str, ...]
    ended_s: float | None = None
    succeeded: bool = False


class RunningClient(Protocol):
    """A client process."""

    @property
    def ended(self) -> str:
        """Return the reason of its end, as a sentence; empty while it runs."""
        ...

    async def request(self, request: Request) -> Outcome: ...

    def kill(self) -> None: ...

    async def stop(self) -> None:
        """Stop it gracefully, and kill it if that takes too long."""
        ...

    async def gone(self) -> None:
        """Wait until a process that was killed has ended."""
        ...


class ClientMaker(Protocol):
    """The client library under test."""

    name: str
    roles: tuple[str, ...]  # of the clients that it can start
    broken: str  # why no case can use it any more, as a sentence

    async def start(
        self, role: str, configuration: Mapping[str, object], emit: Emit
    ) -> RunningClient:
        """Start a client process. Raises ClientUnusable."""
        ...


class Client:
    """A client that was started for a case. `proxy` is its way to the target."""

    def __init__(self, name: str, client_id: str, proxy: ClientProxy) -> None:
        self.name = name
        self.client_id = client_id
        self.proxy = proxy
        self.calls: list[Call] = []
        self.killed_s: float | None = None
        self._opened: tuple[OpType, str] | None = None
        self._running: RunningClient | None = None

    # --- reports of the client ----------------------------------------------------------------------

    def emit(self, type: OpType, f: str, value: Mapping[str, object], error: str | None) -> None:
        """Process an event that the client reports."""
        if f == "open":
            self._opened = self._opened or (type, error or "no reason given")
        elif f == "consume":
            self._consumed(type, value)

    def _consumed(self, type: OpType, value: Mapping[str, Any]) -> None:
        now_s = asyncio.get_running_loop().time()
        keys = tuple(str(row[0]) for row in value["messages"])
        call_key = value["topic"], value["broker"], value["queue"], keys
        if type == "invoke":
            self.calls.append(Call(now_s, *call_key))
            return
        for call in reversed(self.calls):
            if (
                call.ended_s is None
                and (call.topic, call.broker, call.queue, call.keys) == call_key
            ):
                call.ended_s, call.succeeded = now_s, type == "ok"
                return

    def consumed_keys(self) -> list[str]:
        """Return the keys of the messages for which its listener succeeded, in that order."""
        return [key for call in self.calls if call.succeeded for key in call.keys]

    # --- for cases ----------------------------------------------------------------------------------

    async def open(self, running: RunningClient) -> None:
        """Wait until it reports its start. Raises NotTriable, ClientUnusable."""
        self._running = running
        loop = asyncio.get_running_loop()
        until_s = loop.time() + ANSWER_S
        while self._opened is None:
            if running.ended:
                raise ClientUnusable(f"{running.ended}, before it had started")
            if loop.time() > until_s:
                raise ClientUnusable(f"the client did not start within {ANSWER_S:g} s")
            await asyncio.sleep(POLL_S)
        type, reason = self._opened
        if type != "ok":
            raise NotTriable(f"the client cannot do it: {reason}")

    async def request(self, f: str, **fields: object) -> Outcome:
        """Send a request to the client and return its outcome. Raises ClientGone."""
        assert self._running is not None, "a case gets its clients started"
        try:
            async with asyncio.timeout(ANSWER_S):
                outcome = await self._running.request({"f": f, **fields})
        except TimeoutError:
            raise ClientGone(f"the client did not answer {f} in {ANSWER_S:g} s") from None
        if self._running.ended:
            raise ClientGone(self._running.ended)
        return outcome

    async def require_alive(self) -> None:
        """Raise ClientGone if the client has ended."""
        if self._running is not None and self.killed_s is None and self._running.ended:
            raise ClientGone(self._running.ended)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._running is not None and self.killed_s is None:
            self.killed_s = asyncio.get_running_loop().time()
            self._running.kill()

    async def gone(self) -> None:
        """Wait until it has ended, after a kill."""
        if self._running is not None:
            await self._running.gone()

    async def stop(self) -> None:
        """End it gracefully."""
        if self._running is not None and self.killed_s is None:
            await self._running.stop()
            self.killed_s = asyncio.get_running_loop().time()
