"""Counters, their windows, and the answers to codes 28 and 315."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.system_under_test.broker.administration.statistics_requests import duration_text
from staticfire.system_under_test.broker.statistics import statistics as module
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics
from staticfire.system_under_test.broker.statistics.store_rates import StoreRates
from staticfire.system_under_test.broker.statistics.windows import Window
from staticfire.system_under_test.broker.text import size_text
from staticfire.system_under_test.protocol.bodies_clients import BrokerStats, KVTable, StatsSummary
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.store.reading.reading import GetResult
from tests.system_under_test.broker.bench import Bench

DAY_MS = 86_400_000

# requests.md section 10 without those that only a transient store pool or delay levels have
RUNTIME_KEYS = (
    "bootTimestamp",
    "runtime",
    "putMessageEntireTimeMax",
    "putMessageTimesTotal",
    "putMessageFailedTimes",
    "putMessageSizeTotal",
    "putMessageDistributeTime",
    "putMessageAverageSize",
    "dispatchMaxBuffer",
    "getMessageEntireTimeMax",
    "putTps",
    "getFoundTps",
    "getMissTps",
    "getTotalTps",
    "getTransferedTps",
    "putLatency99",
    "putLatency999",
    "commitLogDiskRatio",
    "consumeQueueDiskRatio",
    "commitLogMinOffset",
    "commitLogMaxOffset",
    "brokerVersionDesc",
    "brokerVersion",
    "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "sendThreadPoolQueueSize",
    "sendThreadPoolQueueCapacity",
    "pullThreadPoolQueueSize",
    "pullThreadPoolQueueCapacity",
    "queryThreadPoolQueueSize",
    "queryThreadPoolQueueCapacity",
    "EndTransactionQueueSize",
    "EndTransactionThreadPoolQueueCapacity",
    "dispatchBehindBytes",
    "pageCacheLockTimeMills",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "earliestMessageTimeStamp",
    "startAcceptSendRequestTimeStamp",
    "remainTransientStoreBufferNumbs",
    "remainHowManyDataToFlush",
    "commitLogDirCapacity",
)


def message(topic: str) -> Message:
    return Message(topic=topic, body=b"x", store_host=("10.0.0.1", 10911))


class Counted:
    """Statistics on a clock moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.statistics = BrokerStatistics("cluster", now_ms=lambda: self.now_ms)

    def after(self, seconds: int) -> None:
        self.now_ms += seconds * 1000
        self.statistics.sample()

    def sums(self, name: str, key: str) -> tuple[int, int, int]:
        """Sums of the last minute, hour and day."""
        found = self.statistics.view(name, key)
        assert found is not None
        return found.stats_minute.sum, found.stats_hour.sum, found.stats_day.sum


def test_a_put_counts_for_its_queue_its_topic_and_the_broker() -> None:
    counted = Counted()
    counted.statistics.put("t", 0, 1, 100)
    counted.statistics.put("t", 1, 3, 900)
    counted.statistics.put("u", 0, 1, 5)
    counted.after(10)
    assert counted.sums("TOPIC_PUT_NUMS", "t") == (4, 4, 4)
    assert counted.sums("TOPIC_PUT_SIZE", "t")[0] == 1000
    assert counted.sums("QUEUE_PUT_NUMS", "t@1")[0] == 3
    assert counted.sums("QUEUE_PUT_SIZE", "t@0")[0] == 100
    assert counted.sums("BROKER_PUT_NUMS", "cluster")[0] == 5
    found = counted.statistics.view("TOPIC_PUT_NUMS", "t")
    assert found is not None
    assert (found.stats_minute.tps, found.stats_minute.avgpt) == (0.4, 2.0)


def test_a_get_counts_for_its_group() -> None:
    counted = Counted()
    counted.statistics.get("g", "t", 0, 2, 50, 7, 2_600_000)
    counted.statistics.get("g", "t", 0, 0, 0, 7, 3_600_000)
    counted.statistics.get("h", "t", 0, 1, 50, 3, 0)
    counted.after(10)
    assert counted.sums("GROUP_GET_NUMS", "t@g")[0] == 2
    assert counted.sums("GROUP_GET_SIZE", "t@g")[0] == 50
    assert counted.sums("QUEUE_GET_NUMS", "t@0@g")[0] == 2
    assert counted.sums("BROKER_GET_NUMS", "cluster")[0] == 3
    assert counted.statistics.group_get_tps("g", "t") == 0.2
    latency = counted.statistics.view("GROUP_GET_LATENCY", "0@t@g")
    assert latency is not None
    assert (latency.stats_minute.sum, latency.stats_minute.avgpt) == (6, 3.0)
    assert list(counted.statistics.positions()) == [("g", "t", 0, 7), ("h", "t", 0, 3)]


def test_what_came_back_and_what_died() -> None:
    counted = Counted()
    counted.statistics.send_back("g", "t")
    counted.statistics.send_back("g", "t")
    counted.statistics.dead_letter("g", "t")
    counted.after(10)
    assert counted.sums("SNDBCK_PUT_NUMS", "t@g")[0] == 2
    assert counted.sums("DLQ_PUT_NUMS", "t@g")[0] == 1


def test_old_counts_leave_the_windows_one_after_the_other() -> None:
    counted = Counted()
    counted.after(10)
    counted.statistics.put("t", 0, 5, 10)
    counted.after(10)
    for _ in range(6):
        counted.after(10)
    assert counted.sums("TOPIC_PUT_NUMS", "t") == (0, 5, 5)
    for _ in range(6 * 61):
        counted.after(10)
    assert counted.sums("TOPIC_PUT_NUMS", "t") == (0, 0, 5)
    for _ in range(360 * 24):
        counted.after(10)
    assert counted.sums("TOPIC_PUT_NUMS", "t") == (0, 0, 0)


def test_what_was_counted_but_not_yet_sampled_exists() -> None:
    counted = Counted()
    assert counted.statistics.view("TOPIC_PUT_NUMS", "t") is None
    counted.statistics.put("t", 0, 1, 1)
    assert counted.statistics.view("TOPIC_PUT_NUMS", "t") == BrokerStats()


def test_deleted_topics_and_groups_are_forgotten() -> None:
    counted = Counted()
    counted.statistics.put("t", 0, 1, 1)
    counted.statistics.get("g", "t", 0, 1, 1, 1, 0)
    counted.statistics.get("g", "u", 0, 1, 1, 1, 0)
    counted.statistics.send_back("g", "u")
    counted.after(10)
    counted.statistics.forget_topic("t")
    assert counted.statistics.view("TOPIC_PUT_NUMS", "t") is None
    assert counted.statistics.view("GROUP_GET_NUMS", "t@g") is None
    assert counted.sums("GROUP_GET_NUMS", "u@g")[0] == 1
    counted.statistics.forget_group("g")
    assert counted.statistics.view("GROUP_GET_NUMS", "u@g") is None
    assert counted.statistics.view("SNDBCK_PUT_NUMS", "u@g") is None


def test_totals_of_yesterday_and_today() -> None:
    counted = Counted()
    counted.statistics.put("t", 0, 3, 1)
    counted.after(DAY_MS // 1000)
    counted.statistics.put("t", 0, 4, 1)
    counted.after(DAY_MS // 1000)
    counted.statistics.put("t", 0, 5, 1)
    counted.after(10)
    puts = counted.statistics.puts
    assert (puts.yesterday, puts.today, counted.statistics.put_messages) == (3, 7, 12)


def test_the_day_is_that_of_the_machine() -> None:
    now_ms = [DAY_MS - 7_200_001]
    statistics = BrokerStatistics("cluster", now_ms=lambda: now_ms[0], utc_offset_s=7200)
    statistics.put("t", 0, 3, 1)
    statistics.sample()
    assert statistics.puts.today == 0
    now_ms[0] += 1  # midnight, two hours before that of UTC
    statistics.sample()
    assert statistics.puts.today == 3


def test_samples_closer_than_the_period_are_left_out() -> None:
    window = Window(10_000, 7)
    window.take(0, 5, 1)
    window.take(9_999, 100, 2)
    assert window.summary() == StatsSummary(sum=5, tps=0.5, avgpt=5.0)


def test_rates_over_ten_seconds_and_more() -> None:
    counted = Counted()
    rates = StoreRates(counted.statistics)
    assert rates.texts()["putTps"] == "0.0 0.0 0.0"
    for second in range(21):
        rates.sample(second * 1_000_000_000)
        counted.statistics.put("t", 0, 10 if second >= 10 else 0, 1)
    assert rates.texts()["putTps"] == "10.0 5.0 5.0"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")]
)
def test_sizes_as_text(size: int, text: str) -> None:
    assert size_text(size) == text


def test_durations_as_text() -> None:
    assert duration_text(90_061_000) == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"


# Through the handler table


def runtime_info(bench: Bench) -> dict[str, str]:
    answer = bench.request(RequestCode.GET_BROKER_RUNTIME_INFO)
    return KVTable.from_bytes(answer.body).table


def test_runtime_info_has_every_key(bench: Bench) -> None:
    assert set(RUNTIME_KEYS) <= set(runtime_info(bench))


def test_runtime_info_counts(bench: Bench) -> None:
    bench.send()
    bench.send(body=b"x" * 100)
    bench.pull()
    table = runtime_info(bench)
    assert (table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == ("2", "2")
    assert table["putMessageSizeTotal"] == str(bench.store.end_offset)
    assert table["commitLogMaxOffset"] == str(bench.store.end_offset)
    assert table["earliestMessageTimeStamp"] == str(bench.clock.now_ms)
    assert table["dispatchBehindBytes"] == "0"
    assert table["brokerVersionDesc"] == "V4_9_8"
    assert 0 <= float(table["commitLogDiskRatio"]) <= 1


def test_components_add_figures(bench: Bench) -> None:
    bench.administration.figures.append(
        lambda: {"sendThreadPoolQueueSize": 7, "scheduleMessageOffset_3": "1,2"}
    )
    table = runtime_info(bench)
    assert (table["sendThreadPoolQueueSize"], table["scheduleMessageOffset_3"]) == ("7", "1,2")


def test_refused_puts_are_counted(bench: Bench) -> None:
    bench.send()
    bench.disk.fill()
    for _ in range(20):
        bench.send(body=bytes(100_000))
    assert int(runtime_info(bench)["putMessageFailedTimes"]) == bench.refusals > 0


def test_pulls_that_find_nothing_are_misses(bench: Bench) -> None:
    bench.send()
    bench.pull(offset=1)
    assert bench.statistics.get_misses == 1
    assert bench.pull(offset=1, sys_flag=6) is None  # held
    assert bench.statistics.get_misses == 2


def test_one_counter_over_the_wire(bench: Bench) -> None:
    bench.send("t")
    bench.clock.move(10)
    bench.statistics.sample()
    ext = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "t"}
    answer = bench.request(RequestCode.VIEW_BROKER_STATS_DATA, ext)
    assert BrokerStats.from_bytes(answer.body).stats_minute.sum == 1
    answer = bench.request(RequestCode.VIEW_BROKER_STATS_DATA, {**ext, "statsKey": "u"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "The stats <TOPIC_PUT_NUMS> <u> not exist"


def test_what_the_broker_stores_itself_counts_too(bench: Bench) -> None:
    bench.copies.put(message("%RETRY%g"))
    bench.statistics.delivered(2, 70)
    bench.clock.move(10)
    bench.statistics.sample()

    def count(name: str, key: str) -> int:
        found = bench.statistics.view(name, key)
        assert found is not None
        return found.stats_minute.sum

    assert count("TOPIC_PUT_NUMS", "%RETRY%g") == 1
    assert count("GROUP_GET_SIZE", "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER") == 70
    assert count("QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER") == 1
    assert runtime_info(bench)["putMessageTimesTotal"] == "1"
    assert runtime_info(bench)["getFoundTps"] == "0.0 0.0 0.0"


def test_refused_copies_are_counted(bench: Bench) -> None:
    bench.copies.put(message("no:topic"))
    assert bench.statistics.failed_puts == 1


@pytest.mark.needs_sources
def test_a_pull_is_timed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send("t")
    read = bench.store.get

    def slow_read(*arguments: Any) -> GetResult:
        bench.clock.move(0.045)
        return read(*arguments)

    monkeypatch.setattr(bench.store, "get", slow_read)
    bench.pull("t", group="g")
    bench.pull("t", group="g", offset=1)
    bench.statistics.sample()
    latency = bench.statistics.view("GROUP_GET_LATENCY", "0@t@g")
    assert latency is not None
    assert latency.stats_minute.sum == 45  # of what was delivered
    assert runtime_info(bench)["getMessageEntireTimeMax"] == "45"


def test_put_times_are_reported(bench: Bench) -> None:
    assert runtime_info(bench)["putLatency99"] == "0.00"
    bench.administration.rates.put_times.took(1_500_000)
    table = runtime_info(bench)
    assert table["putMessageEntireTimeMax"] == "1"
    assert "[0~10ms]:1 " in table["putMessageDistributeTime"]
    assert (table["putLatency99"], table["putLatency999"]) == ("1.00", "1.00")


def test_the_disk_of_each_folder_of_the_log(bench: Bench) -> None:
    table = runtime_info(bench)
    assert table["commitLogDiskRatio_/store/commitlog"] == table["commitLogDiskRatio"]


def test_counters_are_bounded_and_the_others_count_for_the_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "COUNTERS_MAX", 2)
    counted = BrokerStatistics("c", now_ms=lambda: 0)
    for queue_id in range(4):
        counted.put("t", queue_id, 1, 10)
        counted.get("g", "t", queue_id, 1, 10, 1, 0)
        counted.send_back("g", f"t{queue_id}")
    assert (counted.put_messages, counted.put_bytes) == (4, 40)
    assert (counted.got_messages, counted.get_hits) == (4, 4)
    assert len(list(counted.positions())) == 2
    assert counted.view("QUEUE_PUT_NUMS", "t@1") is not None
    assert counted.view("QUEUE_PUT_NUMS", "t@2") is None
    assert counted.view("SNDBCK_PUT_NUMS", "t2@g") is None
    counted.sample()
    broker = counted.view("BROKER_PUT_NUMS", "c")
    assert broker is not None
    assert broker.stats_minute.sum == 4


def test_a_sample_makes_only_so_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEW_WINDOWS_MAX", 3)
    counted = BrokerStatistics("c", now_ms=lambda: 0)
    counted.put("t", 0, 1, 10)
    counted.sample()
    view = counted.view("QUEUE_PUT_SIZE", "t@0")
    assert view is not None
    assert view.stats_minute.sum == 0
    counted.sample()
    view = counted.view("QUEUE_PUT_SIZE", "t@0")
    assert view is not None
    assert view.stats_minute.sum == 10
