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
    """What became of the messages that a listener was given.

    `acknowledged` is how many of them, from the front, count as consumed although it succeeded for no more (RocketMQ:
    ackIndex + 1). `delay_level` is when a message that is sent back comes again: 0 by how often it was tried, below 0
    never, it becomes a dead letter. `suspend_s` is how long a queue in order waits before it tries again.
    """

    succeeded: bool
    acknowledged: int | None = None
    delay_level: int = 0
    suspend_s: float | None = None

    def failed(self, batch: Sequence[Message]) -> Sequence[Message]:
        """The messages that have to come again."""
        if not self.succeeded:
            return batch
        return () if self.acknowledged is None else batch[self.acknowledged :]


SUCCESS = ConsumeResult(succeeded=True)
LATER = ConsumeResult(succeeded=False)

# Called with messages of one queue in offset order. True and False stand for SUCCESS and LATER, as does an exception
# for LATER.
Listener = Callable[[list[Message], MessageQueue], Awaitable[bool | ConsumeResult]]


def has_succeeded(result: bool | ConsumeResult) -> bool:
    """Whether the listener says so, of some of the messages at least."""
    return result.succeeded if isinstance(result, ConsumeResult) else bool(result)


async def listen(
    env: Env, listener: Listener, batch: list[Message], queue: MessageQueue
) -> ConsumeResult:
    """Call the listener; whatever it does, there is a result."""
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
