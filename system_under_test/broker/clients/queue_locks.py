"""Locks queues for the clients that consume them in order (RocketMQ, RebalanceLockManager).

The locks exist only in the memory of a master: after a restart all queues are free, and clients ask again every 20 s.
Ages come from the monotonic clock, so a step of the wall clock neither frees a queue nor prolongs its lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from staticfire.system_under_test.protocol.bodies import MessageQueue

LOCK_LIVE_MAX_NS = 60_000_000_000  # RocketMQ: rocketmq.broker.rebalance.lockMaxLiveTime
# RocketMQ has no limits. Beyond them the broker refuses a lock as if another client held it.
LOCKS_MAX = 50_000
NAMES_LENGTH_MAX = 1_024  # characters of group, client id, topic and broker name together


class QueueLock:
    """The owner of one queue, and when it last renewed its lock."""

    __slots__ = ("client_id", "renewed_at_ns")

    def __init__(self, client_id: str, renewed_at_ns: int) -> None:
        self.client_id = client_id
        self.renewed_at_ns = renewed_at_ns

    def is_expired(self, now_ns: int) -> bool:
        return now_ns - self.renewed_at_ns > LOCK_LIVE_MAX_NS


class QueueLocks:
    """All locks of one broker, by group and queue. `on_expired` is called when another client takes an expired one."""

    def __init__(
        self,
        *,
        now_ns: Callable[[], int],
        on_expired: Callable[[str, MessageQueue], None] | None = None,
    ) -> None:
        self._now_ns = now_ns
        self._on_expired = on_expired
        self._groups: dict[str, dict[MessageQueue, QueueLock]] = {}
        self._count = 0

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str
    ) -> list[MessageQueue]:
        """Lock or renew those of `queues` that are free, expired or already the client's; return those it now holds."""
        now_ns = self._now_ns()
        locks = self._groups.get(group, {})
        names_length = len(group) + len(client_id)
        taken = []
        for queue in queues:
            known = locks.get(queue)
            if known is None and not self._add(queue, names_length):
                continue
            if known is not None and known.client_id != client_id:
                if not known.is_expired(now_ns):
                    continue
                if self._on_expired is not None:
                    self._on_expired(group, queue)
            locks[queue] = QueueLock(client_id, now_ns)
            taken.append(queue)
        if locks:
            self._groups[group] = locks
        return taken

    def _add(self, queue: MessageQueue, names_length: int) -> bool:
        """Count one more lock; False if there are too many or its names are too long."""
        names_length += len(queue.topic) + len(queue.broker_name)
        if self._count >= LOCKS_MAX or names_length > NAMES_LENGTH_MAX:
            return False
        self._count += 1
        return True

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Free those of `queues` that the client holds; locks of others stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            known = locks.get(queue)
            if known is not None and known.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._groups.pop(group, None)

    def owner(self, group: str, queue: MessageQueue) -> str | None:
        """The client id that holds the queue; None if it is free."""
        lock = self._groups.get(group, {}).get(queue)
        return None if lock is None or lock.is_expired(self._now_ns()) else lock.client_id

    def forget_expired(self) -> None:
        """Drop the expired locks: clients that never come back must not fill the memory."""
        now_ns = self._now_ns()
        for group, locks in list(self._groups.items()):
            alive = {queue: lock for queue, lock in locks.items() if not lock.is_expired(now_ns)}
            if alive:
                self._groups[group] = alive
            else:
                del self._groups[group]
        self._count = sum(map(len, self._groups.values()))

    def __len__(self) -> int:
        return self._count
