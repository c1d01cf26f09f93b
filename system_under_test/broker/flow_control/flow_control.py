"""Processor table, queues in front of the appender, and fast failure (RocketMQ, NettyRemotingAbstract.processorTable
and BrokerFastFailure).

Normally the broker handles a request when it arrives, at the cost of one test. A request must queue when the appender
is stuck (a flush has lasted too long, or too many bytes wait for one) or when its class has used its share of this turn
of the loop. Queues are served in order. The broker answers SYSTEM_BUSY to a request that has waited too long or finds
its queue full. It never does so for a stored message: a request is either queued or handled, never both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.flow_control.request_classes import (
    APPENDING,
    CLASSES,
    NS_PER_S,
    RequestClass,
    make_limits,
)
from staticfire.system_under_test.broker.flow_control.request_queue import (
    NS_PER_MS,
    RequestQueue,
    WaitingRequest,
)
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, Handler
from staticfire.system_under_test.remoting.connection import not_supported
from staticfire.system_under_test.remoting.turn_share import TurnShare

SCAN_INTERVAL_S = 0.010  # RocketMQ: BrokerFastFailure
UNFLUSHED_BYTES_MAX = 64 << 20
STUCK_SYNC_NS = 50_000_000  # a send that arrives during a flush waits for the next one anyway
STUCK_ASYNC_NS = 500_000_000  # no send waits for this flush: only a disk that hangs counts

REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"
OVERLOADED = "[OVERLOAD]system busy, start flow control for a while"
BUSY = "broker busy, start flow control for a while"


class Processor(NamedTuple):
    """The handler of a request code, and the queue in front of it."""

    handler: Handler
    queue: RequestQueue


class FlowControl:
    """Handles requests at once, queues them, or refuses them.

    Args:
        unflushed_bytes: returns how many bytes of the log wait for a flush.
        share: how much of this loop turn the node's requests have used.
    """

    def __init__(
        self,
        config: BrokerConfig,
        handlers: Mapping[int, Handler],
        *,
        unflushed_bytes: Callable[[], int],
        now_ns: Callable[[], int],
        share: TurnShare | None = None,
    ) -> None:
        self._share = TurnShare() if share is None else share
        self.queues = {name: RequestQueue(limits) for name, limits in make_limits(config).items()}
        self._processors: dict[int, Processor] = {}
        self.set_handlers(handlers)
        self._appending = [self.queues[name] for name in APPENDING]
        self._sends = self.queues[RequestClass.SEND]
        self._unflushed_bytes = unflushed_bytes
        self._now_ns = now_ns
        self._stuck_ns = STUCK_SYNC_NS if config.sync_flush else STUCK_ASYNC_NS
        self._reject_ns = 0
        self._flush_began_ns: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        # With a transient store pool a send needs no disk: only an empty pool stops it.
        self._is_pooled = config.transient_pool
        self._is_pool_empty = False  # RocketMQ, isTransientStorePoolDeficient
        self.options_changed(config)

    def options_changed(self, config: BrokerConfig) -> None:
        """Apply changed limits of how long requests may wait."""
        self._reject_ns = int(config.page_cache_busy_s * NS_PER_S)
        for name, limits in make_limits(config).items():
            self.queues[name].limits = limits

    def set_handlers(self, handlers: Mapping[int, Handler]) -> None:
        """Use these handlers for requests that arrive from now on."""
        self._processors = {
            code: Processor(handler, self.queues[CLASSES.get(code, RequestClass.ADMIN)])
            for code, handler in handlers.items()
        }

    # Requests

    def handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Answer one request, or None if the answer comes later."""
        processor = self._processors.get(request.code)
        if processor is None:
            return not_supported(request)
        handler, queue = processor
        if queue.room:
            queue.room -= 1
            return handler(connection, request)
        return self._enqueue(queue, WaitingRequest(self._now_ns(), connection, request, handler))

    def _enqueue(self, queue: RequestQueue, waiting: WaitingRequest) -> RemotingCommand | None:
        if queue is self._sends and (self._is_pool_empty or self.is_page_cache_busy):
            return busy(waiting.request, REJECTED)
        if not queue.put(waiting):
            return busy(waiting.request, OVERLOADED)
        self._schedule(queue)
        self._watch()
        return None

    def _schedule(self, queue: RequestQueue) -> None:
        if not queue.is_scheduled and not queue.is_blocked:
            queue.is_scheduled = True
            asyncio.get_running_loop().call_soon(self._serve, queue)

    def _serve(self, queue: RequestQueue) -> None:
        if self._share.is_over:
            self._share.wait(partial(self._serve_some, queue), asyncio.get_running_loop())
        else:
            self._serve_some(queue)

    def _serve_some(self, queue: RequestQueue) -> None:
        """Serve one turn's share of a queue, in order. Drops a request whose client is gone."""
        queue.is_scheduled = False
        if queue.is_blocked or self._stopped:
            return
        left = queue.limits.burst
        began_ns = self._now_ns()
        until_ns = began_ns + int(self._share.slice_s * NS_PER_S)
        while queue and left and not queue.is_blocked and self._now_ns() < until_ns:
            _, connection, request, handler = queue.take()
            if not connection.closed:
                connection.serve(request, handler)
                left -= 1
        self._share.spend((self._now_ns() - began_ns) / NS_PER_S, asyncio.get_running_loop())
        if queue.is_blocked:
            return
        queue.room = 0 if queue else left
        if queue:
            self._schedule(queue)

    # The appender

    @property
    def is_page_cache_busy(self) -> bool:
        """Whether the flush in flight is older than osPageCacheBusyTimeOutMills (RocketMQ, isOSPageCacheBusy)."""
        return self.flush_ns > self._reject_ns and not self._is_pooled

    @property
    def is_stuck(self) -> bool:
        """Whether the flush in flight has lasted so long that the disk may hang."""
        return self.flush_ns > self._stuck_ns

    @property
    def flush_ns(self) -> int:
        """How long the flush in flight has lasted; 0 if there is none (RocketMQ, pageCacheLockTimeMills)."""
        return 0 if self._flush_began_ns is None else self._now_ns() - self._flush_began_ns

    def flush_began(self) -> None:
        self._flush_began_ns = self._now_ns()
        self._watch()

    def flush_ended(self) -> None:
        """Serve waiting requests, unless the log is still too far ahead of the disk."""
        self._flush_began_ns = None
        self._unblock()

    def _unblock(self) -> None:
        if not self._sends.is_blocked or self._is_pool_empty:
            return
        if self.is_stuck and not self._is_pooled:
            return
        if self._unflushed_bytes() <= UNFLUSHED_BYTES_MAX:
            for queue in self._appending:
                queue.is_blocked = False
                self._schedule(queue)

    def pool_emptied(self) -> None:
        """The transient store pool has no buffer left: refuse sends until something is committed."""
        self._is_pool_empty = True
        self._block()

    def pool_refilled(self) -> None:
        """The transient store pool has buffers: accept sends, if they were refused."""
        if self._is_pool_empty:
            self._is_pool_empty = False
            self._unblock()

    def appended(self) -> None:
        """Block the appending classes if the log is too far ahead of the disk; call once in a turn with appends."""
        if self._unflushed_bytes() > UNFLUSHED_BYTES_MAX:
            self._block()

    def _block(self) -> None:
        for queue in self._appending:
            queue.block()

    # Time

    def _watch(self) -> None:
        """Start the one timer, which ticks while a flush is in flight or a request waits."""
        if self._timer is None and not self._stopped:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SCAN_INTERVAL_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.is_stuck and not self._is_pooled:
            self._block()
        now_ns = self._now_ns()
        if self.is_page_cache_busy:
            while self._sends:
                refuse(self._sends.take(), "[PCBUSY_CLEAN_QUEUE]", now_ns, len(self._sends))
        waiting = [queue for queue in self.queues.values() if queue]
        for queue in waiting:
            for late in queue.take_late(now_ns):
                refuse(late, "[TIMEOUT_CLEAN_QUEUE]", now_ns, len(queue))
        if self._flush_began_ns is not None or any(waiting):
            self._watch()

    def stop(self) -> None:
        """Drop all waiting requests: their connections are about to be closed."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def refuse(waiting: WaitingRequest, why: str, now_ns: int, queue_size: int) -> None:
    """Answer a queued request with SYSTEM_BUSY instead of handling it."""
    wait_ms = (now_ns - waiting.arrived_ns) // NS_PER_MS
    text = f"{why}{BUSY}, period in queue: {wait_ms}ms, size of queue: {queue_size}"
    if not waiting.request.is_oneway:
        waiting.connection.send(busy(waiting.request, text))


def busy(request: RemotingCommand, text: str) -> RemotingCommand:
    return RemotingCommand.response(request, ResponseCode.SYSTEM_BUSY, text)
