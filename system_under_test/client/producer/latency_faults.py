"""Marks brokers that a producer should avoid for a while (RocketMQ: MQFaultStrategy, LatencyFaultToleranceImpl).

RocketMQ avoids a slow broker for 30 s to 10 min, because it cannot see that the broker has recovered. Here a silent
broker is reinstated as soon as it answers a probe, and all durations are a tenth of RocketMQ's. Producers that avoid
brokers as RocketMQ does (`avoids_as_rocketmq`) use its durations. They count every failure as 30 s of latency, so they
avoid the broker for 10 min, and they never reinstate it earlier.
"""

from __future__ import annotations

from collections.abc import Sequence

LATENCY_MAX_MS = (50, 100, 550, 1000, 2000, 3000, 15000)  # RocketMQ: latencyMax
NOT_AVAILABLE_OF_ROCKETMQ_MS = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
NOT_AVAILABLE_MS = tuple(duration // 10 for duration in NOT_AVAILABLE_OF_ROCKETMQ_MS)
BROKEN_LATENCY_MS = 30_000  # counts for a broken connection (RocketMQ: isolation)
REFUSED_LATENCY_MS = 550  # counts for a broker that answers but does not accept messages now


class FaultItem:
    """The latency of the last send to one broker, and until when to avoid the broker."""

    __slots__ = ("available_at_ms", "latency_ms")

    def __init__(self) -> None:
        self.latency_ms = 0
        self.available_at_ms = 0


class LatencyFaults:
    """Brokers by name. Times are milliseconds of a monotonic clock.

    Args:
        durations_ms: how long to avoid a broker, for each limit in LATENCY_MAX_MS.
    """

    def __init__(self, durations_ms: Sequence[int] = NOT_AVAILABLE_MS) -> None:
        self._durations_ms = durations_ms
        self._items: dict[str, FaultItem] = {}
        self._next_pick = 0

    def record(self, broker_name: str, latency_ms: int, now_ms: int) -> None:
        """Record how long the last send to this broker took, answered or not."""
        item = self._items.get(broker_name)
        if item is None:
            item = self._items[broker_name] = FaultItem()
        item.latency_ms = latency_ms
        item.available_at_ms = now_ms + not_available_ms(latency_ms, self._durations_ms)

    def lift(self, broker_name: str) -> None:
        """Stop avoiding a broker: it has answered again."""
        self._items.pop(broker_name, None)

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        item = self._items.get(broker_name)
        return item is None or now_ms >= item.available_at_ms

    def pick_one_at_least(self, now_ms: int) -> str | None:
        """A broker of the better half of all recorded ones, in turn; None if nothing was recorded."""
        names = sorted(self._items, key=lambda name: self._rank(name, now_ms))
        if not names:
            return None
        self._next_pick += 1
        return names[self._next_pick % max(len(names) // 2, 1)]

    def _rank(self, broker_name: str, now_ms: int) -> tuple[bool, int, int]:
        item = self._items[broker_name]
        return now_ms < item.available_at_ms, item.latency_ms, item.available_at_ms


def not_available_ms(latency_ms: int, durations_ms: Sequence[int] = NOT_AVAILABLE_MS) -> int:
    """How long to avoid a broker with this latency: the duration of the largest limit that it has reached."""
    for limit_ms, duration_ms in zip(reversed(LATENCY_MAX_MS), reversed(durations_ms), strict=True):
        if latency_ms >= limit_ms:
            return duration_ms
    return 0
