"""Counts a broker's traffic (RocketMQ, BrokerStatsManager and BrokerStats).

Processors only add to one small object per queue, or per queue and group. Totals of topics, groups, the broker and the
time windows are computed from these objects every 10 s, and on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from staticfire.system_under_test.broker.statistics.windows import Windows
from staticfire.system_under_test.protocol.bodies_clients import BrokerStats
from staticfire.system_under_test.store.delay_levels import SCHEDULE_TOPIC

SAMPLING_INTERVAL_S = 10.0
DAY_MS = 86_400_000
NS_PER_MS = 1_000_000
# Limit of each: puts, gets, events. A sample of so many takes about 100 ms. Others count for the whole broker only.
COUNTERS_MAX = 10_000
NEW_WINDOWS_MAX = 5_000  # created by one sample; later samples create the others
# RocketMQ, MixAll: the group that delivers delayed messages
SCHEDULE_CONSUMER = "SCHEDULE_CONSUMER"

StatsKey = tuple[str, str]  # name and key, as in code 315


class Counter:
    """Counts messages, bytes and calls of one queue, or of one group in a queue."""

    __slots__ = ("bytes", "calls", "elapsed_ns", "messages", "next_offset")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.calls = 0
        self.next_offset = 0  # for gets: the queue offset where the last one ended
        self.elapsed_ns = 0  # for gets: total time


class BrokerStatistics:
    """All counters of one broker.

    Args:
        now_ms: wall clock.
        cluster: the key of counters for the whole broker.
        utc_offset_s: time zone of the days whose totals are reported.
    """

    def __init__(self, cluster: str, *, now_ms: Callable[[], int], utc_offset_s: int = 0) -> None:
        self._cluster = cluster
        self._now_ms = now_ms
        self._utc_offset_ms = utc_offset_s * 1000
        self._puts: dict[tuple[str, int], Counter] = {}  # by topic and queue id
        self._gets: dict[tuple[str, str, int], Counter] = {}  # by group, topic and queue id
        self._delivered: dict[int, Counter] = {}  # delayed messages, by the queue id of their level
        self._events: dict[StatsKey, Counter] = {}  # rare events
        self._other_puts = Counter()  # for queues beyond COUNTERS_MAX
        self._other_gets = Counter()
        self._windows: dict[StatsKey, Windows] = {}
        self.failed_puts = 0
        self.get_misses = 0  # pulls that found nothing
        self.puts = DayTotals()
        self.gets = DayTotals()
        self._day = self._day_of(now_ms())

    # Counting

    def put(self, topic: str, queue_id: int, messages: int, size_bytes: int) -> None:
        """Count stored messages."""
        counter = self._puts.get((topic, queue_id))
        if counter is None:
            counter = self._other_puts
            if len(self._puts) < COUNTERS_MAX:
                counter = self._puts[topic, queue_id] = Counter()
        counter.messages += messages
        counter.bytes += size_bytes
        counter.calls += 1

    def get(
        self,
        group: str,
        topic: str,
        queue_id: int,
        messages: int,
        size_bytes: int,
        next_offset: int,
        elapsed_ns: int,
    ) -> None:
        """Count delivered messages. `next_offset` is where the group's next pull begins."""
        counter = self._gets.get((group, topic, queue_id))
        if counter is None:
            counter = self._other_gets
            if len(self._gets) < COUNTERS_MAX:
                counter = self._gets[group, topic, queue_id] = Counter()
        counter.messages += messages
        counter.bytes += size_bytes
        counter.calls += 1
        counter.next_offset = next_offset
        counter.elapsed_ns += elapsed_ns

    def delivered(self, queue_id: int, size_bytes: int) -> None:
        """Count a delayed message that was delivered."""
        counter = self._delivered.get(queue_id)
        if counter is None:
            counter = self._delivered[queue_id] = Counter()
        counter.messages += 1
        counter.bytes += size_bytes
        counter.calls += 1

    def send_back(self, group: str, topic: str) -> None:
        """Count a message that a consumer sent back."""
        self._count("SNDBCK_PUT_NUMS", f"{topic}@{group}")

    def dead_letter(self, group: str, topic: str) -> None:
        """Count a message that has used up its retries."""
        self._count("DLQ_PUT_NUMS", f"{topic}@{group}")

    def _count(self, name: str, key: str) -> None:
        counter = self._events.get((name, key))
        if counter is None:
            if len(self._events) >= COUNTERS_MAX:
                return
            counter = self._events[name, key] = Counter()
        counter.messages += 1
        counter.calls += 1

    def forget_topic(self, topic: str) -> None:
        """Drop the counters of a deleted topic."""
        self._puts = {key: counter for key, counter in self._puts.items() if key[0] != topic}
        self._gets = {key: counter for key, counter in self._gets.items() if key[1] != topic}
        self._keep_only_counted()

    def forget_group(self, group: str) -> None:
        """Drop the counters of a deleted group."""
        self._gets = {key: counter for key, counter in self._gets.items() if key[0] != group}
        suffix = f"@{group}"
        self._events = {k: c for k, c in self._events.items() if not k[1].endswith(suffix)}
        self._keep_only_counted()

    def _keep_only_counted(self) -> None:
        counted = self._totals()
        self._windows = {key: kept for key, kept in self._windows.items() if key in counted}

    # Asking

    @property
    def put_messages(self) -> int:
        return self._other_puts.messages + sum(one.messages for one in self._puts.values())

    @property
    def put_bytes(self) -> int:
        return self._other_puts.bytes + sum(one.bytes for one in self._puts.values())

    @property
    def got_messages(self) -> int:
        return self._other_gets.messages + sum(one.messages for one in self._gets.values())

    @property
    def get_hits(self) -> int:
        """Pulls that found something."""
        return self._other_gets.calls + sum(one.calls for one in self._gets.values())

    def positions(self) -> Iterator[tuple[str, str, int, int]]:
        """Group, topic, queue id, and where the group's last pull ended."""
        for (group, topic, queue_id), counter in self._gets.items():
            yield group, topic, queue_id, counter.next_offset

    def view(self, name: str, key: str) -> BrokerStats | None:
        """The windows of one counter (code 315); None if nothing was counted under this name and key."""
        windows = self._windows.get((name, key))
        if windows is not None:
            return windows.summary()
        return BrokerStats() if (name, key) in self._totals() else None

    def group_get_tps(self, group: str, topic: str) -> float:
        """Messages per second that the group got in the last minute (RocketMQ, tpsGroupGetNums)."""
        windows = self._windows.get(("GROUP_GET_NUMS", f"{topic}@{group}"))
        return 0.0 if windows is None else windows.minute.summary().tps

    # Sampling

    def sample(self) -> None:
        """Take a sample of all counters; call every SAMPLING_INTERVAL_S."""
        now_ms = self._now_ms()
        made = 0
        for key, (value, times) in self._totals().items():
            windows = self._windows.get(key)
            if windows is None:
                if made == NEW_WINDOWS_MAX:
                    continue
                made += 1
                windows = self._windows[key] = Windows()
            windows.take(now_ms, value, times)
        day = self._day_of(now_ms)
        if day != self._day:
            self._day = day
            self.puts.begin_day(self.put_messages)
            self.gets.begin_day(self.got_messages)

    def _day_of(self, time_ms: int) -> int:
        return (time_ms + self._utc_offset_ms) // DAY_MS

    def _totals(self) -> dict[StatsKey, tuple[int, int]]:
        """Value and calls of every counter that code 315 knows, by name and key."""
        totals: dict[StatsKey, tuple[int, int]] = {}

        def add(name: str, key: str, value: int, calls: int) -> None:
            known = totals.get((name, key), (0, 0))
            totals[name, key] = (known[0] + value, known[1] + calls)

        for (topic, queue_id), put in self._puts.items():
            for prefix, key in (("TOPIC", topic), ("QUEUE", f"{topic}@{queue_id}")):
                add(f"{prefix}_PUT_NUMS", key, put.messages, put.calls)
                add(f"{prefix}_PUT_SIZE", key, put.bytes, put.calls)
            add("BROKER_PUT_NUMS", self._cluster, put.messages, put.calls)
        for (group, topic, queue_id), got in self._gets.items():
            pair = f"{topic}@{group}"
            for prefix, key in (("GROUP", pair), ("QUEUE", f"{topic}@{queue_id}@{group}")):
                add(f"{prefix}_GET_NUMS", key, got.messages, got.calls)
                add(f"{prefix}_GET_SIZE", key, got.bytes, got.calls)
            add("BROKER_GET_NUMS", self._cluster, got.messages, got.calls)
            elapsed_ms = got.elapsed_ns // NS_PER_MS
            add("GROUP_GET_LATENCY", f"{queue_id}@{topic}@{group}", elapsed_ms, got.calls)
        for name, other in (("PUT", self._other_puts), ("GET", self._other_gets)):
            if other.calls:
                add(f"BROKER_{name}_NUMS", self._cluster, other.messages, other.calls)
        pair = f"{SCHEDULE_TOPIC}@{SCHEDULE_CONSUMER}"
        for queue_id, due in self._delivered.items():
            of_queue = f"{SCHEDULE_TOPIC}@{queue_id}@{SCHEDULE_CONSUMER}"
            for prefix, key in (("GROUP", pair), ("QUEUE", of_queue)):
                add(f"{prefix}_GET_NUMS", key, due.messages, due.calls)
                add(f"{prefix}_GET_SIZE", key, due.bytes, due.calls)
        for (name, key), event in self._events.items():
            add(name, key, event.messages, event.calls)
        return totals


class DayTotals:
    """The values of a total at the beginning of yesterday and of today."""

    __slots__ = ("today", "yesterday")

    def __init__(self) -> None:
        self.yesterday = 0
        self.today = 0

    def begin_day(self, total: int) -> None:
        self.yesterday, self.today = self.today, total
