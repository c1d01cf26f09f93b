"""Stores large batches in parts over several turns of the event loop, so that no turn lasts too long.

It first decodes all parts, so that it can refuse a malformed batch as a whole; then it stores them. Meanwhile other
sends to the same queue wait, and the store refuses the broker's own copies for that queue. So the messages of a batch
are adjacent in their queue. In the log other messages may lie between the parts, and a broker that dies may have stored
only the first parts. RocketMQ copies a batch into its log at once, and every other put waits (putMessageLock).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from staticfire.system_under_test.broker.refusal import SendRefused
from staticfire.system_under_test.broker.sending.batches import parts_of
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting import Connection, Handler
from staticfire.system_under_test.remoting.turn_share import TurnShare
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.results import PutResult

# bytes of the bodies of large batches and of sends that wait for one
WAITING_SIZE_MAX = 64 << 20
REQUEST_SIZE = 1_000  # approximate bytes that a request takes besides its body
RELEASED_AT_ONCE = 50  # waiting sends handled in one turn: about 5 ms
NS_PER_S = 1_000_000_000

Parts = Iterator[list[Message]]
StorePart = Callable[[Sequence[Message]], Sequence[PutResult]]


class LargeBatch:
    """A batch that is being stored. `parts` yields the parts not yet decoded, at first from the third one on."""

    __slots__ = ("connection", "first", "is_sound", "last", "message", "parts", "request", "texts")

    def __init__(
        self, connection: Connection, request: RemotingCommand, message: Message, parts: Parts
    ) -> None:
        self.connection = connection
        self.request = request
        self.message = message
        self.parts = parts
        self.is_sound = False  # all parts have been decoded once
        self.first: PutResult | None = None
        self.last: PutResult | None = None
        self.texts: list[str] = []  # the joined message ids of each part

    @property
    def size_bytes(self) -> int:
        return len(self.message.body) + REQUEST_SIZE


class LargeBatches:
    """Stores the large batches of a broker, one after the other.

    Args:
        store_part: stores some messages. Raises SendRefused.
        finish: answers a stored batch once it is as safe as its sender requested.
        send_again: handles a send that has waited for a batch.
        refuse: makes the answer to a refused batch.
        share: how much of this loop turn the node's requests have used.
    """

    def __init__(
        self,
        store: MessageStore,
        share: TurnShare,
        *,
        store_part: StorePart,
        finish: Callable[[LargeBatch], None],
        send_again: Handler,
        refuse: Callable[[RemotingCommand, SendRefused], RemotingCommand],
        now_ns: Callable[[], int],
    ) -> None:
        self._store = store
        self._share = share
        self._store_part = store_part
        self._finish = finish
        self._send_again = send_again
        self._refuse = refuse
        self._now_ns = now_ns
        self._batches: deque[LargeBatch] = deque()
        # sends that wait for the first batch
        self._waiting: deque[tuple[Connection, RemotingCommand]] = deque()
        # sends whose batch is over
        self._released: deque[tuple[Connection, RemotingCommand]] = deque()
        self._size_bytes = 0
        self._is_scheduled = False

    def holds(self, topic: str, queue_id: int) -> bool:
        """Whether a batch is being stored in this queue."""
        return self._store.held_queue == (topic, queue_id)

    def add(self, batch: LargeBatch) -> None:
        """Store a batch in later turns. Raises SendRefused if too many bytes wait already."""
        self._count(batch.size_bytes)
        self._batches.append(batch)
        self._step_soon()

    def _step_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._share.wait(self._step, asyncio.get_running_loop())

    def defer(self, connection: Connection, request: RemotingCommand) -> None:
        """Let a send wait until its queue has the whole batch. Raises SendRefused if too many bytes wait already."""
        self._count(len(request.body) + REQUEST_SIZE)
        self._waiting.append((connection, request))

    def _count(self, size_bytes: int) -> None:
        if self._size_bytes + size_bytes > WAITING_SIZE_MAX:
            raise SendRefused(
                ResponseCode.SYSTEM_BUSY,
                f"large batches and the sends that wait for them have more than {WAITING_SIZE_MAX} bytes",
            )
        self._size_bytes += size_bytes

    def _step(self) -> None:
        """Handle some released sends, or one part of the first batch."""
        self._is_scheduled = False
        began_ns = self._now_ns()
        if self._released:
            self._serve_released()
        else:
            self._serve_first()
        spent_s = (self._now_ns() - began_ns) / NS_PER_S
        self._share.spend(spent_s, asyncio.get_running_loop())
        if self._released or self._batches:
            self._step_soon()

    def _serve_first(self) -> None:
        batch = self._batches[0]
        is_over = True

        def go_on(_connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
            nonlocal is_over
            try:
                is_over = self._go_on(batch)
            except SendRefused as refusal:
                return self._refuse(request, refusal)
            return None

        batch.connection.serve(batch.request, go_on)
        if is_over:
            self._end()

    def _go_on(self, batch: LargeBatch) -> bool:
        """Decode or store the next part; return whether the whole batch is stored."""
        part = next(batch.parts, None)
        if batch.is_sound:
            if part is None:
                self._finish(batch)
                return True
            self._put(batch, part)
        elif part is None:
            batch.is_sound = True
            batch.parts = parts_of(batch.message)
            self._store.held_queue = batch.message.topic, batch.message.queue_id
        return False

    def _put(self, batch: LargeBatch, part: Sequence[Message]) -> None:
        try:
            results = self._store_part(part)
        except SendRefused as refusal:
            if batch.first is None:
                raise
            # so not a code that means "nothing stored"
            text = f"the batch is stored in part: {refusal}"
            raise SendRefused(ResponseCode.SYSTEM_ERROR, text) from refusal
        batch.first = batch.first or results[0]
        batch.last = results[-1]
        batch.texts.append(",".join([result.message_id for result in results]))

    def _end(self) -> None:
        """The first batch is stored or refused: release the sends that have waited for it."""
        self._size_bytes -= self._batches.popleft().size_bytes
        self._store.held_queue = None
        self._released.extend(self._waiting)
        self._waiting.clear()
        self._serve_released()

    def _serve_released(self) -> None:
        for _ in range(min(len(self._released), RELEASED_AT_ONCE)):
            connection, request = self._released.popleft()
            self._size_bytes -= len(request.body) + REQUEST_SIZE
            connection.serve(request, self._send_again)
