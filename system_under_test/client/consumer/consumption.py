"""The part common to concurrent and orderly calls of a listener."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from staticfire.system_under_test.client.consumer.process_queue import ProcessQueue
from staticfire.system_under_test.client.consumer.queue_puller import PullParts
from staticfire.system_under_test.client.listening import Listener
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message

CONSUME_TIMEOUT_S = 900.0  # RocketMQ: consumeTimeout, 15 minutes
SUSPEND_S = 1.0  # RocketMQ: suspendCurrentQueueTimeMillis
UNLIMITED = -1

# Has the message come again, later: message, its queue, delay level. False if only this client has it now.
SendBack = Callable[[Message, MessageQueue, int], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerParts(PullParts):
    """What all queues of one topic of one consumer share.

    Args:
        send_back: None where failed messages are tried again here and now, or dropped.
        drops_failed: failed messages count as consumed (broadcasting).
        calls_max: of the listener at the same time, for one queue; always 1 in order.
        is_ordered: whether a message that fails holds up all that are behind it.
        may_consume: asked before each call in order: whether the queue is still ours alone.
        reconsume_times_max: of a message in order; UNLIMITED, or it is a dead letter then.
    """

    listener: Listener
    consume_batch: int
    send_back: SendBack | None = None
    drops_failed: bool = False
    calls_max: int = 1
    consume_timeout_s: float = CONSUME_TIMEOUT_S
    is_ordered: bool = False
    may_consume: Callable[[MessageQueue], bool] = lambda _: True
    suspend_s: float = SUSPEND_S
    reconsume_times_max: int = UNLIMITED


class Consumption(Protocol):
    """Hands the messages of one queue to the listener."""

    consumed_at_s: float

    def wake(self, messages: ProcessQueue) -> None:
        """There may be something to consume."""
        ...

    def close(self) -> None:
        """Begin no further call; the results of those under way count."""
        ...

    def drop(self) -> None:
        """Begin no further call; the results of those under way do not count."""
        ...

    @property
    def calls(self) -> list[asyncio.Task[None]]:
        """Those under way."""
        ...

    def expire(self, messages: ProcessQueue) -> None:
        """Deal with messages that the listener has had for too long."""
        ...
