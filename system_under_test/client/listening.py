"""The interface and the results of listeners (RocketMQ: ConsumeConcurrentlyStatus, ConsumeOrderlyStatus)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from staticfire.system_under_test.client.message_properties import CONSUME_START
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.env import Env


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeResult:
    """The result of one call of a listener.

    `acknowledged`: the number of messages, from the front, that count as consumed; None: all (RocketMQ: ackIndex + 1).
    `delay_level`: the delay of a message that is sent back; 0: by the number of tries so far; below 0: make it a dead
    letter. `suspend_s`: how long a queue in order waits before the next try; None: the default.
    """

    succeeded: bool
    acknowledged: int | None = None
    delay_level: int = 0
    suspend_s: float | None = None

    def failed(self, batch: Sequence[Message]) -> Sequence[Message]:
        """The messages of `batch` that have to be retried."""
        if not self.succeeded:
            return batch
        return () if self.acknowledged is None else batch[self.acknowledged :]


SUCCESS = ConsumeResult(succeeded=True)
LATER = ConsumeResult(succeeded=False)

# Called with messages of one queue in offset order. True stands for SUCCESS; False and an exception stand for LATER.
Listener = Callable[[list[Message], MessageQueue], Awaitable[bool | ConsumeResult]]


def has_succeeded(result: bool | ConsumeResult) -> bool:
    """Whether the listener reports success for at least some of the messages."""
    return result.succeeded if isinstance(result, ConsumeResult) else bool(result)


async def listen(
    env: Env, listener: Listener, batch: list[Message], queue: MessageQueue
) -> ConsumeResult:
    """Call the listener and return a result, even if it raises."""
    now_ms = str(env.clock.wall_ms())
    for message in batch:
        message.properties[CONSUME_START] = now_ms
    try:
        result = await listener(batch, queue)
    except Exception as error:
        env.log.warning("listener failed", queue=str(queue), error=repr(error))
        return LATER
    if isinstance(result, ConsumeResult):
        return result
    return SUCCESS if result else LATER
