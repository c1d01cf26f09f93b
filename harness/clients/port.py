"""The port between a client process and the harness: requests in, outcomes and emitted ops out.

In the simulation the two share memory (`ClientPort`); elsewhere the same messages are JSON lines on stdin and stdout
(`LinePort` in the client, `ProcessPort` in the harness).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from staticfire.checkers.op_kinds.consumer import GO_ON
from staticfire.checkers.op_kinds.producer import SEND_MANY

if TYPE_CHECKING:  # a client process starts sooner without this import
    from staticfire.checkers.model.history import OpType, Stamp


class Outcome(NamedTuple):
    """The end of a request. `fail` is a promise that the request had no effect."""

    type: OpType
    value: Mapping[str, Any]
    error: str | None = None
    stamp: Stamp | None = None  # the client's time stamp of the end


ONE_WAY = "one way: no broker answers"  # the error of a one-way op that was sent
TO_BE_ASKED = (
    "undecided: the broker has to ask"  # the error of a transaction that the broker must ask about
)

Request = dict[str, Any]  # {"f": "send", ...}
Reply = Callable[[Outcome], None]
# Type, f, value (checkers/op_kinds/values.py has the type of each kind), error.
Emit = Callable[["OpType", str, Mapping[str, object], str | None], None]


def answer_to_emitted(type: OpType, f: str, value: Mapping[str, object]) -> Request | None:
    """Return the request that answers a recorded op; None for nearly all.

    A client waits for it before a send of its own, so that the history has the send's beginning before the message is
    in a queue.
    """
    return {"f": GO_ON, "key": value["key"]} if f == SEND_MANY and type == "invoke" else None


class PortClosed(Exception):
    """There will be no more requests. The client finishes its work and ends."""


class ClientSide(Protocol):
    """The client's side of a port."""

    @property
    def emit(self) -> Emit:
        """Report an op that the harness did not request. It is recorded once this returns."""
        ...

    async def next(self) -> tuple[Request, Reply]:
        """Wait for a request. Raises PortClosed."""
        ...


class ClientPort:
    """One client process, seen from both sides. A new process gets a new port."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._requests: asyncio.Queue[tuple[Request, asyncio.Future[Outcome]]] = asyncio.Queue()
        # When each was sent, by the clock of the harness's loop, in seconds; the oldest is first.
        self._unanswered: dict[asyncio.Future[Outcome], float] = {}
        self._abandoned = ""

    # For the harness

    async def request(self, request: Request) -> Outcome:
        """Send a request and wait for its outcome; `info` if the process dies first."""
        if self._abandoned:
            return Outcome("info", {}, self._abandoned)
        future = self._hand_over(request)
        self._unanswered[future] = asyncio.get_running_loop().time()
        try:
            return await future
        finally:
            self._unanswered.pop(future, None)

    def abandon(self, reason: str) -> None:
        """Note the end of the process: its unanswered requests have an unknown outcome."""
        self._abandoned = reason
        for future in list(self._unanswered):
            if not future.done():
                future.set_result(Outcome("info", {}, reason))

    def unanswered_since_s(self) -> float | None:
        """Return when the oldest request without an outcome was sent, by the loop's clock; None if there is none."""
        return next(iter(self._unanswered.values()), None)

    def _hand_over(self, request: Request) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._requests.put_nowait((request, future))
        return future

    # For the client

    def emit(self, type: OpType, f: str, value: Mapping[str, object], error: str | None) -> None:
        self._emit(type, f, value, error)
        answer = answer_to_emitted(type, f, value)
        if answer is not None:
            self._hand_over(answer)

    async def next(self) -> tuple[Request, Reply]:
        request, future = await self._requests.get()

        def reply(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        return request, reply
