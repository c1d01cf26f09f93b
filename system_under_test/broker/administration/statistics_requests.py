"""Statistics: codes 28 and 315 (RocketMQ, AdminBrokerProcessor, StoreStatsService)."""

from __future__ import annotations

from staticfire.system_under_test.broker.administration.parts import AdminParts
from staticfire.system_under_test.broker.responses import answer_error, answer_ok
from staticfire.system_under_test.broker.statistics.statistics import NS_PER_MS
from staticfire.system_under_test.broker.text import size_text
from staticfire.system_under_test.protocol.bodies_clients import KVTable
from staticfire.system_under_test.protocol.codes import VERSION, RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers_admin import BrokerStatsHeader
from staticfire.system_under_test.remoting import Connection, Handler

VERSION_TEXT = "V4_9_8"


class StatisticsRequests:
    """Handles requests for the broker's counters and measurements."""

    def __init__(self, parts: AdminParts, *, started_at_ms: int) -> None:
        self._parts = parts
        self._started_at_ms = started_at_ms

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.VIEW_BROKER_STATS_DATA: self.view,
        }

    def view(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """One counter over the last minute, hour and day."""
        header = BrokerStatsHeader.from_ext(request.ext_fields)
        found = self._parts.statistics.view(header.stats_name, header.stats_key)
        if found is None:
            return answer_error(
                request, f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            )
        return answer_ok(request, found)

    def runtime_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """All lines of RocketMQ's table; the `figures` of other components add lines or replace some."""
        table = {**self._counts(), **self._rates(), **self._store()}
        for figures in self._parts.figures:
            table |= figures()
        return answer_ok(request, KVTable(table={key: str(value) for key, value in table.items()}))

    def _counts(self) -> dict[str, object]:
        counted = self._parts.statistics
        return {
            "msgPutTotalYesterdayMorning": counted.puts.yesterday,
            "msgPutTotalTodayMorning": counted.puts.today,
            "msgPutTotalTodayNow": counted.put_messages,
            "msgGetTotalYesterdayMorning": counted.gets.yesterday,
            "msgGetTotalTodayMorning": counted.gets.today,
            "msgGetTotalTodayNow": counted.got_messages,
            "putMessageTimesTotal": counted.put_messages,
            "putMessageFailedTimes": counted.failed_puts,
            "putMessageSizeTotal": counted.put_bytes,
            "putMessageAverageSize": counted.put_bytes / max(1, counted.put_messages),
        }

    def _rates(self) -> dict[str, object]:
        times = self._parts.rates.put_times
        return {
            **self._parts.rates.texts(),
            "putMessageEntireTimeMax": times.longest_ms,
            "putMessageDistributeTime": times.text(),
            "getMessageEntireTimeMax": self._parts.rates.longest_get_ns // NS_PER_MS,
            "putLatency99": f"{times.quantile_ms(0.99):.2f}",
            "putLatency999": f"{times.quantile_ms(0.999):.2f}",
            "dispatchMaxBuffer": 0,
        }

    def _store(self) -> dict[str, object]:
        store, root = self._parts.store, self._parts.config.store_path
        usage = self._parts.storage.disk_usage(root)
        running_ms = self._parts.clock.wall_ms() - self._started_at_ms
        return {
            "bootTimestamp": self._started_at_ms,
            "runtime": duration_text(running_ms),
            "brokerVersionDesc": VERSION_TEXT,
            "brokerVersion": VERSION,
            "commitLogMinOffset": store.min_offset,
            "commitLogMaxOffset": store.end_offset,
            "commitLogDiskRatio": store.disks.log_ratio,
            **{f"commitLogDiskRatio_{path}": used for path, used in store.disks.log_ratios.items()},
            "consumeQueueDiskRatio": store.disks.queue_ratio,
            "commitLogDirCapacity": (
                f"Total : {size_text(usage.total_bytes)}, Free : {size_text(usage.free_bytes)}."
            ),
            "earliestMessageTimeStamp": store.earliest_message_time_ms(),
            "dispatchBehindBytes": store.end_offset - store.dispatched_offset,
            "pageCacheLockTimeMills": 0,
            "remainTransientStoreBufferNumbs": 2**31 - 1,  # RocketMQ's value without a pool
            "remainHowManyDataToFlush": size_text(store.end_offset - store.flushed_offset),
            "startAcceptSendRequestTimeStamp": self._parts.config.accept_sends_from_ms,
        }


def duration_text(elapsed_ms: int) -> str:
    """A duration as RocketMQ prints its uptime."""
    minutes, seconds = divmod(max(0, elapsed_ms) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"
