"""The queues of an orderly consumer whose group is reset to other offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from staticfire.system_under_test.client.consumer.rebalance.assignment import Assignment
from staticfire.system_under_test.protocol.bodies import MessageQueue

FIRST, SECOND = (MessageQueue(topic="t", broker_name="a", queue_id=n) for n in range(2))


class Consumer:
    """A consumer of one queue; its listener works until the test ends it."""

    def __init__(self, configured: list[str], queue: MessageQueue) -> None:
        self._is_reported, self._number = configured, queue.queue_id
        self.listener = asyncio.Event()
        self.commit_offset = 70

    def start(self) -> None:
        self._is_reported.append(f"start {self._number}")

    def drop(self) -> None:
        self._is_reported.append(f"drop {self._number}")

    async def ended(self, _timeout_s: float | None) -> None:
        await self.listener.wait()


class Locks:
    """A broker that grants everything."""

    def __init__(self, configured: list[str]) -> None:
        self._is_reported = configured

    async def lock(self, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        return list(queues)

    def is_held(self, _queue: MessageQueue) -> bool:
        return True

    def unlock(self, queues: Iterable[MessageQueue]) -> None:
        self._is_reported.extend(f"unlock {queue.queue_id}" for queue in queues)


class Offsets:
    def __init__(self, configured: list[str]) -> None:
        self._is_reported = configured

    def commit(self, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        self._is_reported.extend(
            f"commit {q.queue_id} at {offset}" for q, offset in offsets.items()
        )
        return offsets


def test_a_queue_that_is_sent_back_is_free_for_others_when_the_listener_has_finished() -> None:
    configured: list[str] = []
    consumers: dict[MessageQueue, Consumer] = {}

    def make(queue: MessageQueue) -> Any:
        consumers[queue] = Consumer(configured, queue)
        return consumers[queue]

    async def story() -> None:
        assigned = Assignment(
            make,
            cast(Any, Offsets(configured)),
            on_commit=None,
            on_change=lambda: configured.append("look for a share"),
        )
        assigned.locking = cast(Any, Locks(configured))
        await assigned.take_share("t", [FIRST, SECOND])
        working = consumers[FIRST].listener
        configured.clear()

        assigned.reset({FIRST: 5})
        await asyncio.sleep(0)

        assert assigned.queues == [SECOND]
        assert configured == ["commit 0 at 5", "drop 0", "look for a share"]
        assert await assigned.take_share("t", [FIRST, SECOND]) == (False, False)  # not free yet
        configured.clear()
        working.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert configured == ["unlock 0", "look for a share"]
        await assigned.take_share("t", [FIRST, SECOND])
        assert assigned.queues == [FIRST, SECOND]

    asyncio.run(story())
