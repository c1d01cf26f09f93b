"""The queues that a consumer has now: takes them, gives them up, commits their consumed offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial

from staticfire.system_under_test.client.consumer.queue_consumer import QueueConsumer
from staticfire.system_under_test.client.consumer.rebalance.queue_locking import QueueLocking
from staticfire.system_under_test.client.offsets.offset_store import Offsets
from staticfire.system_under_test.client.waiting import wait_until
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.runtime.ending import end_tasks

OnCommit = Callable[[dict[MessageQueue, int]], None]


class Assignment:
    """One consumer's queues, of all its topics.

    With `locking`, it takes a queue only once the broker has locked it for this client, and gives it back only after
    the listener has finished with it: until then no other client may have it.

    Args:
        make: makes the consumer of a queue, not started yet.
        on_commit: called with the offsets just committed.
        on_change: called after queues were lost or became free outside a rebalance.
    """

    def __init__(
        self,
        make: Callable[[MessageQueue], QueueConsumer],
        offsets: Offsets,
        *,
        on_commit: OnCommit | None,
        on_change: Callable[[], None],
    ) -> None:
        self._make = make
        self._offsets = offsets
        self._on_commit = on_commit
        self._on_change = on_change
        self._consumers: dict[MessageQueue, QueueConsumer] = {}
        # queues given up, of which the listener still has messages
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        self.locking: QueueLocking | None = None

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues of this consumer, sorted."""
        return sorted(self._consumers)

    @property
    def consumers(self) -> list[QueueConsumer]:
        return list(self._consumers.values())

    def count(self, topic: str) -> int:
        """The number of queues of the topic that this consumer has."""
        return sum(queue.topic == topic for queue in self._consumers)

    def consumer(self, queue: MessageQueue) -> QueueConsumer:
        return self._consumers[queue]

    # Who has what

    async def take_share(self, topic: str, share: Sequence[MessageQueue]) -> tuple[bool, bool]:
        """Take exactly these queues of the topic; return whether anything changed, and whether it has all of them."""
        lost = [q for q in self._consumers if q.topic == topic and q not in share]
        self._give_up(lost)
        wanted = [q for q in share if q not in self._consumers]
        won = await self._lock([q for q in wanted if q not in self._leaving])
        for queue in won:
            consumer = self._consumers[queue] = self._make(queue)
            consumer.start()
        return bool(lost or won), len(won) == len(wanted)

    async def _lock(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Those of `queues` that we have locked; all without `locking`."""
        if self.locking is None or not queues:
            return queues
        return await self.locking.lock(queues)

    def _give_up(self, queues: list[MessageQueue]) -> None:
        """Give up queues that belong to other members from now on."""
        if self.locking is None:
            self.commit(queues)
            for queue in queues:
                self._consumers.pop(queue).drop()
            return
        for queue in queues:
            consumer = self._consumers.pop(queue)
            consumer.close()
            self._leave(queue, self._give_back(queue, consumer, self.locking))

    async def _give_back(
        self, queue: MessageQueue, consumer: QueueConsumer, locking: QueueLocking
    ) -> None:
        """Once the listener has finished, commit and unlock, in this order, on one connection."""
        await consumer.ended(None)
        self._commit_of({queue: consumer})
        consumer.drop()
        locking.unlock([queue])

    def lose(self, queues: Iterable[MessageQueue]) -> None:
        """Drop queues that other members may have already: later results do not count.

        Unlocks them nevertheless, because the broker may still have our locks.
        """
        lost = [queue for queue in queues if queue in self._consumers]
        for queue in lost:
            consumer = self._consumers.pop(queue)
            consumer.drop()
            assert self.locking is not None  # only locks are lost
            self._leave(queue, self._unlock(queue, consumer, self.locking))
        if lost:
            self._on_change()

    def _leave(self, queue: MessageQueue, ending: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(ending)
        self._leaving[queue] = task
        task.add_done_callback(partial(self._left, queue))

    def _left(self, queue: MessageQueue, task: asyncio.Task[None]) -> None:
        del self._leaving[queue]
        if not task.cancelled():
            self._on_change()

    async def stop(self, timeout_s: float) -> None:
        """Let the listener finish its messages, commit, and unlock all queues."""
        consumers = dict(self._consumers)
        await asyncio.gather(*(consumer.finish(timeout_s) for consumer in consumers.values()))
        self._commit_of(consumers)
        leaving = list(self._leaving.values())
        await wait_until(leaving, lambda: False, timeout_s)
        await end_tasks(leaving)
        if self.locking is not None:
            self.locking.unlock([q for q, consumer in consumers.items() if not consumer.is_busy])
        for consumer in consumers.values():
            consumer.drop()
        self._consumers.clear()

    # Offsets

    def commit(self, queues: Iterable[MessageQueue]) -> None:
        """Commit the consumed offsets of these queues."""
        self._commit_of({queue: self._consumers[queue] for queue in queues})

    def _commit_of(self, consumers: Mapping[MessageQueue, QueueConsumer]) -> None:
        locking = self.locking
        self._commit(
            {
                queue: offset
                for queue, consumer in consumers.items()
                if (offset := consumer.commit_offset) is not None
                and (locking is None or locking.is_held(queue))
            }
        )

    def _commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        written = self._offsets.commit(offsets)
        if written and self._on_commit is not None:
            self._on_commit(written)

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The consumed offset of each queue of the topic."""
        return {
            queue: offset
            for queue in self.queues
            if queue.topic == topic and (offset := self._consumers[queue].commit_offset) is not None
        }

    def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Drop the pulled messages of these queues, commit the new offsets at once, and go on there."""
        targets = {queue: offset for queue, offset in offsets.items() if queue in self._consumers}
        if self.locking is not None:
            self._start_over(targets, self.locking)
            return
        for queue, offset in targets.items():
            self._consumers[queue].drop()
            consumer = self._consumers[queue] = self._make(queue)
            consumer.start_at(offset)
        self._commit(targets)

    def _start_over(self, targets: Mapping[MessageQueue, int], locking: QueueLocking) -> None:
        """Commit the offsets and give the queues up: their next owner, this member or another, begins there."""
        self._commit(targets)
        for queue in targets:
            consumer = self._consumers.pop(queue)
            consumer.drop()
            self._leave(queue, self._unlock(queue, consumer, locking))
        if targets:
            self._on_change()

    async def _unlock(
        self, queue: MessageQueue, consumer: QueueConsumer, locking: QueueLocking
    ) -> None:
        """Unlock a queue once the listener has finished, whose results do not count."""
        await consumer.ended(None)
        locking.unlock([queue])
