"""The harness's end of the line protocol: requests into a client process, outcomes and emitted ops out of it.

The environment decides where the process runs and what carries the bytes. docs/client-protocol.md describes the lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from staticfire.checkers.model.history import OpType, Stamp
from staticfire.checkers.op_kinds.fields import OBJECT, TEXT, TEXT_OR_NULL, WHOLE
from staticfire.checkers.op_kinds.harness import CLOCK
from staticfire.harness.clients.client_clock import ClientClock
from staticfire.harness.clients.line_values import check_emitted, check_result
from staticfire.harness.clients.lines import (
    LineError,
    LineSplitter,
    check_fields,
    decode_line,
    encode_line,
    show,
)
from staticfire.harness.clients.port import Outcome, Request, answer_to_emitted

READ_BYTES = 1 << 16
OUTCOME = {"type": TEXT, "value": OBJECT}
OUTCOME_OPTIONAL = {"error": TEXT_OR_NULL, "at_ns": WHOLE}
FIRST_EXCHANGES = 4  # with a client's clock, one right after the other
EXCHANGE_PERIOD_S = 2.0

# Type, f, value, error, and the client's time stamp.
EmitStamped = Callable[["OpType", str, Mapping[str, object], str | None, Stamp | None], None]


class ClientBroken(Exception):
    """A client process breaks the line protocol; the text is one sentence. The caller must end the process."""


class Waiting(NamedTuple):
    """A request without an answer so far. Its caller may have given up."""

    request: Request
    future: asyncio.Future[Outcome]
    asked_ns: int  # on the clock of the run; 0 without one


class ProcessPort:
    """One client process, seen from the harness. A new process gets a new port.

        port = ProcessPort("producer-1", emit, process.stdout, process.stdin.write, configuration)
        reading = asyncio.create_task(port.run())  # until the process ends
        outcome = await port.request({"f": "send", ...})

    Args:
        name: the node's name, for error messages.
        emit: called with type, f, value, error and stamp of each op that the client reports by itself, in order.
        reader: the standard output of the process, with any limit.
        write: queues bytes for the standard input of the process and does not wait; may raise OSError.
        configuration: the first line (see `configuration.configuration_of`), which the constructor writes.
        clock: measures the clock of a client that stamps its `open`. Without it no op has a stamp.
        answer_s: seconds after which a client without an answer counts as broken; None: no bound.
    """

    def __init__(
        self,
        name: str,
        emit: EmitStamped,
        reader: asyncio.StreamReader,
        write: Callable[[bytes], object],
        configuration: Mapping[str, object],
        clock: ClientClock | None = None,
        answer_s: float | None = None,
    ) -> None:
        self.name = name
        self._answer_s = answer_s
        self._reading: asyncio.Task[None] | None = None  # the task that is in `run`
        self._is_given_up = False
        self._emit = emit
        self._reader = reader
        self._write_bytes = write
        self._unanswered: dict[int, Waiting] = {}
        self._last_id = 0
        self._abandoned = ""
        self._clock = clock
        self._read_ns = 0  # time at which the current line was read
        self._exchanges = 0
        self._next_exchange: asyncio.TimerHandle | None = None
        self._write(configuration)

    async def request(self, request: Request) -> Outcome:
        """Send a request and wait for its outcome; `info` if the process dies or falls silent first."""
        if not self._abandoned:
            try:
                async with asyncio.timeout(self._answer_s):
                    return await self._hand_over(request)
            except TimeoutError:
                self.give_up(f"it has not answered {request['f']!r} for {self._answer_s:g} s")
        return Outcome("info", {}, self._abandoned)

    def give_up(self, what: str) -> None:
        """Let `run` raise ClientBroken with `what`, the client's mistake, and ignore its later lines."""
        self._is_given_up = True
        self.abandon(f"{self.name} does not keep to the line protocol: {what}")
        if self._reading is not None:
            self._reading.cancel()

    def _hand_over(self, request: Request) -> asyncio.Future[Outcome]:
        self._last_id += 1
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        asked_ns = 0 if self._clock is None else self._clock.now_ns()
        self._unanswered[self._last_id] = Waiting(request, future, asked_ns)
        self._write({"id": self._last_id, **request})
        return future

    def abandon(self, reason: str) -> None:
        """Note the end of the process: its unanswered requests have an unknown outcome. Its earlier lines still count.

        `run` calls this at the end of the output. Call it directly only if the output cannot end, as after the loss of
        a host.
        """
        self._abandoned = self._abandoned or reason
        if self._next_exchange is not None:
            self._next_exchange.cancel()
        for waiting in self._unanswered.values():
            if not waiting.future.done():
                waiting.future.set_result(Outcome("info", {}, self._abandoned))

    async def run(self) -> None:
        """Read lines of the process until its output ends, then abandon its unanswered requests.

        Raises:
            ClientBroken: the client broke the protocol, or left a request without an answer. Its requests are
                abandoned, and its further lines ignored.
        """
        reason = f"{self.name} ended"
        reading = self._reading = asyncio.current_task()
        splitter = LineSplitter()
        try:
            # A killed process may leave half a line at the end.
            while data := await self._read():
                if self._clock is not None:
                    self._read_ns = self._clock.now_ns()
                for line in splitter.feed(data):
                    self._take(line)
        except LineError as error:
            reason = f"{self.name} does not keep to the line protocol: {error}"
            raise ClientBroken(reason) from None
        except asyncio.CancelledError:
            if not self._is_given_up or reading is None:
                raise
            reading.uncancel()
            raise ClientBroken(self._abandoned) from None
        finally:
            self._reading = None
            self.abandon(reason)

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except OSError:  # the connection to its machine has broken, so no more lines come
            return b""

    def _write(self, fields: Mapping[str, object]) -> None:
        try:
            self._write_bytes(encode_line(fields))
        except OSError as error:
            self.abandon(f"{self.name} cannot be sent anything: {error}")

    def _take(self, line: bytes) -> None:
        """Raises LineError."""
        fields = decode_line(line)
        if "emit" in fields:
            self._take_emitted(fields)
        elif "id" in fields:
            self._take_answer(fields)
        else:
            raise LineError(f"{show(line)} has neither 'id' nor 'emit'")

    def _take_emitted(self, fields: dict[str, Any]) -> None:
        check_fields("an op", fields, {"emit": TEXT, **OUTCOME}, OUTCOME_OPTIONAL)
        f = fields["emit"]
        outcome = self._outcome(f"an op {f!r:.40}", fields)
        check_emitted(outcome.type, f, outcome.value)
        self._emit(outcome.type, f, outcome.value, outcome.error, outcome.stamp)
        if f == "open" and "at_ns" in fields and self._clock is not None:
            self._exchange()
        answer = answer_to_emitted(outcome.type, f, outcome.value)
        if answer is not None and not self._abandoned:
            self._hand_over(answer)

    def _take_answer(self, fields: dict[str, Any]) -> None:
        check_fields("an answer", fields, {"id": WHOLE, **OUTCOME}, OUTCOME_OPTIONAL)
        waiting = self._unanswered.get(fields["id"])
        if waiting is None:
            raise LineError(f"{fields['id']} is not the id of a request that waits for its answer")
        outcome = self._outcome("an answer", fields)
        check_result(waiting.request, outcome)
        del self._unanswered[fields["id"]]
        if waiting.request["f"] == CLOCK:
            self._exchanged(waiting, fields)
        if not waiting.future.done():
            waiting.future.set_result(outcome)

    def _exchange(self) -> None:
        """Exchange times with the client's clock."""
        if not self._abandoned:
            self._hand_over({"f": CLOCK})

    def _exchanged(self, waiting: Waiting, fields: dict[str, Any]) -> None:
        if self._clock is None or "at_ns" not in fields:
            return
        self._clock.exchanged(waiting.asked_ns, fields["at_ns"], self._read_ns)
        self._exchanges += 1
        if self._exchanges < FIRST_EXCHANGES:
            self._exchange()
        else:
            loop = asyncio.get_running_loop()
            self._next_exchange = loop.call_later(EXCHANGE_PERIOD_S, self._exchange)

    def _outcome(self, what: str, fields: dict[str, Any]) -> Outcome:
        """Return the outcome of an answer. Raises LineError for an unknown type."""
        if fields["type"] not in get_args(OpType):
            allowed = ", ".join(get_args(OpType))
            raise LineError(f"'type' of {what} is {fields['type']!r:.80}; allowed are {allowed}")
        if fields.get("at_ns", 0) < 0:
            raise LineError(f"'at_ns' of {what} is {fields['at_ns']}; allowed are 0 and more")
        stamp = None
        if self._clock is not None:
            stamp = self._clock.stamp(fields.get("at_ns"), self._read_ns)
        return Outcome(fields["type"], fields["value"], fields.get("error"), stamp)
