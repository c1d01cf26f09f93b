"""Tracks the queues that brokers have locked for this client, and when each lock expires (RocketMQ: ProcessQueue)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from staticfire.system_under_test.protocol.bodies import MessageQueue

LOCK_LIVE_MAX_S = 30.0  # RocketMQ: rocketmq.client.rebalance.lockMaxLiveTime; brokers wait for 60 s


class LockTable:
    """Locks by queue. Times are seconds of one monotonic clock.

    A lock counts from when it was *requested*: the broker may count from then.
    """

    def __init__(self, live_max_s: float = LOCK_LIVE_MAX_S) -> None:
        self._live_max_s = live_max_s
        self._asked_at_s: dict[MessageQueue, float] = {}

    def granted(self, queue: MessageQueue, asked_at_s: float) -> None:
        self._asked_at_s[queue] = max(asked_at_s, self._asked_at_s.get(queue, asked_at_s))

    def forget(self, queue: MessageQueue) -> None:
        self._asked_at_s.pop(queue, None)

    def asked_at_s(self, queue: MessageQueue) -> float | None:
        """When the lock was last requested; None if there is none."""
        return self._asked_at_s.get(queue)

    def is_held(self, queue: MessageQueue, now_s: float) -> bool:
        asked_at_s = self._asked_at_s.get(queue)
        return asked_at_s is not None and now_s - asked_at_s < self._live_max_s

    @property
    def queues(self) -> list[MessageQueue]:
        """All queues with a granted lock, expired ones included, sorted."""
        return sorted(self._asked_at_s)

    def take_expired(self, now_s: float) -> list[MessageQueue]:
        """Drop expired locks, and return their queues."""
        return self._take(lambda queue: not self.is_held(queue, now_s))

    def take_of(self, broker_names: Iterable[str]) -> list[MessageQueue]:
        """Drop the locks at these brokers, and return their queues: it is unknown which client has them now."""
        names = list(broker_names)
        return self._take(lambda queue: queue.broker_name in names)

    def _take(self, is_lost: Callable[[MessageQueue], bool]) -> list[MessageQueue]:
        lost = [queue for queue in self.queues if is_lost(queue)]
        for queue in lost:
            del self._asked_at_s[queue]
        return lost
