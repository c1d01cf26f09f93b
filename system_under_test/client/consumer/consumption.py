"""Interfaces shared by concurrent and orderly consumption."""

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

# Sends a message back for a later retry: (message, its queue, delay level) -> False if no broker has stored it.
SendBack = Callable[[Message, MessageQueue, int], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerParts(PullParts):
    """Options and services shared by all queues of one topic of one consumer.

    Args:
        send_back: None if failed messages are retried in this client, or dropped.
        drops_failed: failed messages count as consumed (broadcasting).
        calls_max: most concurrent calls of the listener for one queue; always 1 in order.
        is_ordered: whether a failed message blocks all messages behind it.
        may_consume: whether the queue is still locked for us; called before each orderly call of the listener.
        reconsume_times_max: retries of a message in order before it becomes a dead letter; or UNLIMITED.
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
    """Passes the messages of one queue to the listener."""

    consumed_at_s: float

    def wake(self, messages: ProcessQueue) -> None:
        """Consume if there is something to consume."""
        ...

    def close(self) -> None:
        """Begin no further call; results of calls under way still count."""
        ...

    def drop(self) -> None:
        """Begin no further call; results of calls under way do not count."""
        ...

    @property
    def calls(self) -> list[asyncio.Task[None]]:
        """The calls under way."""
        ...

    def expire(self, messages: ProcessQueue) -> None:
        """Send back messages that the listener has had for too long."""
        ...
