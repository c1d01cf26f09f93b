"""The loop of a run: takes ops from the generator, lets clients apply them, and writes the history.

A process does one op at a time. An op that ends as `info` may still take effect later, so its process retires: the
client is opened anew under an unused process number (Jepsen: generator/interpreter.clj). After a one-way send the same
client continues under a new number. A batch is one request, and the history has a send for each of its messages; the
same holds for every other request that stores messages (docs/history.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from staticfire.checkers.model.history import OpType
from staticfire.checkers.op_kinds.values import AnswerReport, RefusedReport, SendValue
from staticfire.harness.accounts import GUEST, GuestRights
from staticfire.harness.campaign.ops import NS_PER_S, BatchValue, GeneratedOp, PlannedOp
from staticfire.harness.clients.port import ONE_WAY, TO_BE_ASKED, Outcome, Request
from staticfire.harness.generators.account_sends import ACCOUNT
from staticfire.harness.generators.illegal_sends import ILLEGAL
from staticfire.harness.recording.recorder import Recorder

TO_BE_REFUSED = "to be refused"  # begins the error of an illegal send that no broker refused
ACL_REFUSED = "AclException"  # part of a broker's remark when its access control refuses a request
WITHDRAWN = "the right was withdrawn"  # begins the error of a send after the withdrawal
REFUSED = "refused"  # the op that records the code with which a broker refused an illegal send
# A field of an answered request's outcome, which the history has in the op `answer`.
REPLY_PROPERTIES = "reply_properties"
SENDS = frozenset({"send_batch", "transact", "request"})  # requests that the history has as sends


class Generator(Protocol):
    def next_op(self, process: int) -> GeneratedOp | None:
        """Return the next op of a process as (f, value); None if there are no more."""
        ...


class Clients(Protocol):
    """The client processes of the environment, by node."""

    async def ready(self, node: str) -> None:
        """Wait until the client process of this node runs."""
        ...

    async def request(self, node: str, request: Request) -> Outcome: ...


class Interpreter:
    """Runs the load: one worker for each client node.

    Args:
        think_s: returns the pause of a process before its next op.
        idle_ns: begin and end, by the clock of the run, of the time in which no process begins an op.
        rights: the rights of the guest account.
        late_ns: returns by how much the end of the load is delayed so far.
        ops: the ops of the load, in place of the generator's ops and of pauses.
        start_ns: the time from which the times of `ops` count, by the clock of the run.

    Attributes:
        begun: every op that a worker began, as data of a campaign.
    """

    def __init__(
        self,
        recorder: Recorder,
        clients: Clients,
        generator: Generator,
        think_s: Callable[[], float],
        now_ns: Callable[[], int],
        *,
        idle_ns: tuple[int, int] = (0, 0),
        rights: GuestRights | None = None,
        late_ns: Callable[[], int] = lambda: 0,
        ops: Sequence[PlannedOp] | None = None,
        start_ns: int = 0,
    ) -> None:
        self.begun: list[PlannedOp] = []
        self._ops = ops
        self._start_ns = start_ns
        self._recorder = recorder
        self._clients = clients
        self._generator = generator
        self._think_s = think_s
        self._now_ns = now_ns
        self._idle_ns = idle_ns
        self._rights = rights or GuestRights()
        self._late_ns = late_ns
        self._until_ns = 0
        self._is_cut_short = asyncio.Event()

    async def run(self, nodes: Sequence[str], until_ns: int) -> None:
        """Run until the clock of the run reaches `until_ns`, or later by the delay of `late_ns`."""
        self._until_ns = until_ns
        work = self._work if self._ops is None else self._work_off
        workers = (work(node, number, len(nodes)) for number, node in enumerate(nodes))
        await asyncio.gather(*workers)

    def cut_short(self) -> None:
        """Begin no more ops."""
        self._until_ns = 0
        self._is_cut_short.set()

    async def _work(self, node: str, process: int, step: int) -> None:
        while True:
            await asyncio.sleep(self._think_s())
            if self._idle_ns[0] <= self._now_ns() < self._idle_ns[1]:
                await self._wait_until(self._idle_ns[1])
            await self._clients.ready(node)
            if self._now_ns() >= self._until_ns + self._late_ns():
                return
            op = self._generator.next_op(process)
            if op is None:
                await self._wait_until(self._until_ns)
                return
            outcome = await self._apply(node, process, *op)
            process = await self._next_process(node, process, step, outcome)

    async def _work_off(self, node: str, process: int, step: int) -> None:
        """Do the given ops, each at its time, or as soon as the previous one has ended."""
        assert self._ops is not None
        for op in sorted((op for op in self._ops if op.node == node), key=lambda op: op.at_ns):
            # Half a nanosecond less, since a loop rounds up: a repeated op must begin at the same nanosecond.
            await self._wait_until(self._start_ns + op.at_ns + self._late_ns() - 0.5)
            await self._clients.ready(node)
            if self._now_ns() >= self._until_ns + self._late_ns():
                return
            outcome = await self._apply(node, process, op.f, op.value)
            process = await self._next_process(node, process, step, outcome)
        await self._wait_until(self._until_ns)

    async def _next_process(self, node: str, process: int, step: int, outcome: Outcome) -> int:
        """Return the process number under which the client continues: a new one after an uncertain end."""
        if outcome.type != "info":
            return process
        if outcome.error != ONE_WAY:
            await self._clients.ready(node)
            await self._clients.request(node, {"f": "open"})
        return process + step

    async def _wait_until(self, time_ns: float) -> None:
        """Wait until `time_ns`, or until the run is cut short."""
        try:
            async with asyncio.timeout(max(time_ns - self._now_ns(), 0) / 1e9):
                await self._is_cut_short.wait()
        except TimeoutError:
            pass

    async def _apply(self, node: str, process: int, f: str, value: Mapping[str, object]) -> Outcome:
        """Do one op; if it ends as `info` the process must retire."""
        at_s = (self._now_ns() - self._start_ns) / NS_PER_S
        self.begun.append(PlannedOp(node=node, at_s=at_s, f=f, value=value))
        sends = (
            _sends_of_batch(cast(BatchValue, value))
            if f == "send_batch"
            else [cast(SendValue, value)]
        )
        name = "send" if f in SENDS else f
        for send in sends:
            self._recorder.record(process, "invoke", name, send, node=node)
        were_withdrawn = self._rights.are_withdrawn
        outcome = await self._clients.request(node, {"f": f, **value})
        if value.get(ACCOUNT) == GUEST and were_withdrawn and self._rights.are_withdrawn:
            outcome = _without_right(outcome)
        ends = outcome.value.get("messages", [outcome.value] * len(sends))
        for send, end in zip(sends, ends, strict=True):
            refusal = _refusal(send, outcome) if ILLEGAL in send else None
            if ILLEGAL in send:
                end = {}
            stored = {name: of for name, of in end.items() if name != REPLY_PROPERTIES}
            completed = {**send, **(_stored_elsewhere(stored) if _is_kept_back(send) else stored)}
            type, error = _end_of_send(send, outcome)
            self._recorder.record(process, type, name, completed, error, node, outcome.stamp)
            if "reply" in end:
                answer: AnswerReport = {
                    "topic": send["topic"],
                    "key": send["key"],
                    "reply": end["reply"],
                }
                if REPLY_PROPERTIES in end:
                    answer["properties"] = end[REPLY_PROPERTIES]
                self._recorder.record(process, "ok", "answer", answer, None, node, outcome.stamp)
            if refusal is not None:
                self._recorder.record(process, "ok", REFUSED, refusal, None, node, outcome.stamp)
        return outcome


def _without_right(outcome: Outcome) -> Outcome:
    """Return the end of a send whose account had no right throughout, as every master had confirmed.

    No group may get such a message, whatever its client reported. Only without an answer may it still be stored later,
    once the account has its right again.
    """
    if outcome.type == "ok" or "status" in outcome.value:
        error = f"{TO_BE_REFUSED}; it ended as {outcome.type}: {outcome.error}"
    elif ACL_REFUSED in (outcome.error or ""):
        error = f"{WITHDRAWN}: {outcome.error}"
    else:
        return outcome
    return outcome._replace(type="fail", value={}, error=error)


def _sends_of_batch(value: BatchValue) -> list[SendValue]:
    messages = value["messages"]
    return [{**message, "topic": value["topic"], "batch": len(messages)} for message in messages]


def _refusal(send: SendValue, outcome: Outcome) -> RefusedReport | None:
    """Return a broker's answer to an illegal send; None if the client refused it, or does not report the answer."""
    if "code" not in outcome.value:
        return None
    return {
        "topic": send["topic"],
        "key": send["key"],
        "illegal": send["illegal"],
        "code": outcome.value["code"],
        "broker": outcome.value.get("refused_by"),
    }


def _is_kept_back(send: SendValue) -> bool:
    """Whether brokers first store the message in another topic, where consumers do not get it."""
    return "delay_level" in send or "transaction" in send


def _stored_elsewhere(end: Mapping[str, object]) -> Mapping[str, object]:
    """Rewrite an answer whose position is that of the message while the broker keeps it back.

    Consumers read the message at another position.
    """
    kept = {**end, "queue_offset": -1} if "broker" in end else dict(end)
    for field in ("physical_offset", "half_physical_offset"):
        if field in kept:
            kept["stored_at"] = kept.pop(field)
    return kept


def _end_of_send(send: SendValue, outcome: Outcome) -> tuple[OpType, str | None]:
    """Return type and error of a send's end. A transaction's outcome is that of its half message, not of its end."""
    if ILLEGAL in send and outcome.type != "fail":
        # No group may get it, whatever its client reported.
        return "fail", f"{TO_BE_REFUSED}; it ended as {outcome.type}: {outcome.error}"
    decision = send.get("transaction")
    if decision is None or outcome.type == "fail":
        return outcome.type, outcome.error
    if decision != "commit":
        # Even if its half message is stored, no producer will ever commit it.
        return "fail", "rolled back" if decision == "rollback" else "never decided"
    if outcome.type == "ok" and send["state"] == "unknown":
        return "info", TO_BE_ASKED
    return outcome.type, outcome.error
