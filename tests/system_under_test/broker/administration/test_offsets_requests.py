"""Offsets of groups through the handler table: codes 43, 45, 208, 303, 308, 314, 317, 321."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.broker.administration import offsets_requests
from staticfire.system_under_test.broker.metadata.topics import make_topic
from staticfire.system_under_test.broker.policies.admin_policy import lowest_offsets
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.bodies_queues import (
    BrokerConsumeStats,
    ConsumeQueuePage,
    ConsumeStats,
    ConsumeTimeSpans,
    CorrectionOffsets,
    OffsetPosition,
)
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import java_string_hash
from tests.system_under_test.broker.admin_language import consume, queue
from tests.system_under_test.broker.bench import Bench, Peer

STATS = RequestCode.GET_CONSUME_STATS
CLONE = RequestCode.CLONE_GROUP_OFFSET
CORRECT = RequestCode.QUERY_CORRECTION_OFFSET
ENTRIES = RequestCode.QUERY_CONSUME_QUEUE


def fill(bench: Bench, topic: str = "t", count: int = 3) -> None:
    """A topic of two queues with messages in the first, 10 s apart."""
    bench.topics.put(make_topic(topic, 2))
    for _ in range(count):
        bench.send(topic)
        bench.clock.move(10)


def test_tables_for_slaves(bench: Bench) -> None:
    bench.offsets.commit("g", "t", 3, 7)
    answer = bench.request(RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert json_dialect.loads(answer.body) == {"offsetTable": {"t@g": {"3": 7}}}
    answer = bench.request(RequestCode.GET_ALL_DELAY_OFFSET)
    assert json_dialect.loads(answer.body) == {"offsetTable": {}}


# Progress: 208, 317


def test_progress_in_each_read_queue(bench: Bench) -> None:
    first_ms = bench.clock.now_ms
    fill(bench)
    bench.offsets.commit("g", "t", 0, 1)
    answer = bench.request(STATS, {"consumerGroup": "g"})
    stats = ConsumeStats.from_bytes(answer.body)
    assert stats.offset_table == {
        queue("t", 0): OffsetPosition(broker_offset=3, consumer_offset=1, last_timestamp=first_ms),
        queue("t", 1): OffsetPosition(),
    }
    assert stats.total_lag == 2


def test_progress_leaves_out_what_is_not_subscribed_any_more(bench: Bench) -> None:
    fill(bench, "t")
    fill(bench, "u")
    for topic in ("t", "u", "deleted"):
        bench.offsets.commit("g", topic, 0, 1)
    consume(bench, "g", "u")
    stats = ConsumeStats.from_bytes(bench.request(STATS, {"consumerGroup": "g"}).body)
    assert {one.topic for one in stats.offset_table} == {"u"}
    asked = ConsumeStats.from_bytes(bench.request(STATS, {"consumerGroup": "g", "topic": "t"}).body)
    assert asked.offset_table == {}


def test_a_committed_minus_one_counts_as_nothing_consumed(bench: Bench) -> None:
    fill(bench)
    bench.offsets.commit("g", "t", 0, -1)
    stats = ConsumeStats.from_bytes(bench.request(STATS, {"consumerGroup": "g"}).body)
    assert stats.offset_table[queue("t", 0)].consumer_offset == 0


def test_rate_of_a_group(bench: Bench) -> None:
    fill(bench)
    bench.statistics.sample()
    bench.pull("t", group="g")
    bench.clock.move(10)
    bench.statistics.sample()
    bench.offsets.commit("g", "t", 0, 3)
    stats = ConsumeStats.from_bytes(bench.request(STATS, {"consumerGroup": "g"}).body)
    assert stats.consume_tps == pytest.approx(0.3)


def test_progress_of_all_groups(bench: Bench) -> None:
    fill(bench)
    bench.groups.put(SubscriptionGroupConfig(group_name="g"))
    bench.offsets.commit("g", "t", 0, 1)
    answer = bench.request(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    body = BrokerConsumeStats.from_bytes(answer.body)
    assert (body.broker_addr, body.total_diff) == ("10.0.0.1:10911", 2)
    by_group = {group: stats for one in body.consume_stats_list for group, stats in one.items()}
    assert [stats.total_lag for stats in by_group["g"]] == [2]
    assert by_group["TOOLS_CONSUMER"] == []
    answer = bench.request(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "true"})
    assert BrokerConsumeStats.from_bytes(answer.body).total_diff == 0


# Times: 303


def test_time_spans(bench: Bench) -> None:
    first_ms = bench.clock.now_ms
    fill(bench)
    bench.offsets.commit("g", "t", 0, 2)
    answer = bench.request(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "t", "group": "g"})
    full, empty = ConsumeTimeSpans.from_bytes(answer.body).spans
    assert (full.message_queue, full.min_time_stamp) == (queue("t", 0), first_ms)
    assert full.max_time_stamp == first_ms + 20_000
    assert full.consume_time_stamp == first_ms + 10_000
    assert full.delay_time == 10_000
    assert (empty.min_time_stamp, empty.delay_time) == (-1, 0)


def test_time_spans_as_text() -> None:
    bench = Bench(utc_offset_s=7200)
    fill(bench)
    bench.offsets.commit("g", "t", 0, 2)
    answer = bench.request(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "t", "group": "g"})
    full, empty = json_dialect.loads(answer.body)["consumeTimeSpanSet"]
    assert list(full) == sorted(full)  # fastjson's order
    assert full["minTimeStampStr"] == "2020-09-13#14:26:40:000"
    assert full["maxTimeStampStr"] == "2020-09-13#14:27:00:000"
    assert full["consumeTimeStampStr"] == "2020-09-13#14:26:50:000"
    assert empty["minTimeStampStr"] == "1970-01-01#01:59:59:999"  # -1, as Java prints it


def test_time_spans_of_an_unknown_topic(bench: Bench) -> None:
    answer = bench.request(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "t", "group": "g"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


# Correction and clone: 308, 314


def correct(bench: Bench, **ext: str) -> dict[int, int]:
    answer = bench.request(CORRECT, {"topic": "t", "compareGroup": "mine", **ext})
    return CorrectionOffsets.from_bytes(answer.body).correction_offsets


def test_correction_is_the_lowest_offset_of_all_groups(bench: Bench) -> None:
    for group, offset in (("a", 5), ("b", 3), ("mine", 4)):
        bench.offsets.commit(group, "t", 0, offset)
    bench.offsets.commit("a", "t", 1, 9)
    assert correct(bench) == {0: 3, 1: 9}
    bench.offsets.commit("mine", "t", 1, 8)
    bench.offsets.commit("mine", "t", 0, 2)
    assert correct(bench) == {0: 2, 1: 8}


def test_correction_of_a_group_that_is_behind_all_others(bench: Bench) -> None:
    bench.offsets.commit("a", "t", 0, 5)
    bench.offsets.commit("mine", "t", 0, 2)
    assert correct(bench, filterGroups="mine") in ({0: 5}, {0: (1 << 63) - 1})


@pytest.mark.parametrize(("mode", "kept"), [(Mode.HARDENED, True), (Mode.FAITHFUL, False)])
def test_groups_left_out_of_a_correction(mode: Mode, kept: bool) -> None:
    bench = Bench(mode=mode)
    bench.offsets.commit("a", "t", 0, 5)
    bench.offsets.commit("b", "t", 0, 3)
    bench.offsets.commit("b", "u", 0, 3)
    assert correct(bench, filterGroups="b") == {0: 5}
    assert (bench.offsets.query("b", "t", 0) == 3) == kept
    assert (bench.offsets.query("b", "u", 0) == 3) == kept


@pytest.mark.parametrize("mode", list(Mode))
def test_clone_of_one_topic(mode: Mode) -> None:
    bench = Bench(mode=mode)
    fill(bench)
    bench.offsets.commit("a", "t", 0, 2)
    bench.offsets.commit("b", "t", 1, 9)
    ext = {"srcGroup": "a", "destGroup": "b", "topic": "t", "offline": "true"}
    assert bench.request(CLONE, ext).code == 0
    assert bench.offsets.queues("b", "t") == {0: 2}
    bench.offsets.commit("a", "t", 0, 3)
    assert bench.offsets.query("b", "t", 0) == 2


@pytest.mark.parametrize(("mode", "cloned"), [(Mode.HARDENED, ["t"]), (Mode.FAITHFUL, [])])
def test_clone_of_all_topics(mode: Mode, cloned: list[str]) -> None:
    bench = Bench(mode=mode)
    fill(bench)
    bench.offsets.commit("a", "t", 0, 2)
    bench.offsets.commit("a", "deleted", 0, 2)
    bench.request(CLONE, {"srcGroup": "a", "destGroup": "b", "offline": "true"})
    assert bench.offsets.topics_of("b") == cloned


def test_clone_from_a_group_that_is_online_and_consumes_something_else(bench: Bench) -> None:
    fill(bench)
    bench.offsets.commit("a", "t", 0, 2)
    consume(bench, "a", "other")
    ext = {"srcGroup": "a", "destGroup": "b", "topic": "t", "offline": "false"}
    bench.request(CLONE, ext)
    assert bench.offsets.topics_of("b") == []
    bench.request(CLONE, {**ext, "offline": "true"})
    assert bench.offsets.topics_of("b") == ["t"]


# Entries: 321


def ask_entries(bench: Bench, index: int = 0, count: int = 10, **ext: str) -> ConsumeQueuePage:
    fields = {"topic": "t", "queueId": "0", "index": str(index), "count": str(count), **ext}
    return ConsumeQueuePage.from_bytes(bench.request(ENTRIES, fields).body)


def test_entries_of_a_queue(bench: Bench) -> None:
    fill(bench)
    page = ask_entries(bench, 1)
    assert (page.min_queue_index, page.max_queue_index) == (0, 3)
    assert len(page.queue_data) == 2
    entry = page.queue_data[0]
    record = bench.store.look_up(entry.physic_offset)
    assert record is not None
    assert len(record) == entry.physic_size
    assert len(ask_entries(bench, 0, 1).queue_data) == 1


def test_entries_judged_by_the_filter_of_a_group(bench: Bench) -> None:
    bench.topics.put(make_topic("t", 1))
    for tag in ("a", "b"):
        bench.send("t", properties={"TAGS": tag})
    consume(bench, "g", "t", expression="a")
    page = ask_entries(bench, consumerGroup="g")
    assert [(one.tags_code, one.eval) for one in page.queue_data] == [
        (java_string_hash("a"), True),
        (java_string_hash("b"), False),
    ]
    assert page.subscription_data is not None
    assert page.filter_data == "null"  # no expression; as RocketMQ prints it
    assert ask_entries(bench, consumerGroup="h").filter_data == "h@t is not online!"


@pytest.mark.parametrize(
    ("ext", "remark"),
    [
        ({"topic": "unknown"}, "0@unknown is not exist!"),
        ({"index": "99"}, "Index 99 of 0@t is not exist!"),
        ({"index": "-1"}, "Index -1 of 0@t is not exist!"),
    ],
)
def test_entries_that_are_not_there(bench: Bench, ext: dict[str, str], remark: str) -> None:
    fill(bench)
    fields = {"topic": "t", "queueId": "0", "index": "0", "count": "5", **ext}
    answer = bench.request(ENTRIES, fields)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)


def test_a_negative_count_gets_nothing(bench: Bench) -> None:
    fill(bench)
    assert ask_entries(bench, count=-5).queue_data == []


def test_offsets_before_the_start_of_a_queue_do_not_count(bench: Bench) -> None:
    for group, offset in (("a", 5), ("b", 3)):
        bench.offsets.commit(group, "t", 0, offset)
    assert lowest_offsets(bench.offsets, "t", (), lambda topic, queue_id: 4) == {0: 5}


@pytest.mark.parametrize("code", [STATS, RequestCode.GET_BROKER_CONSUME_STATS])
def test_progress_in_many_queues_is_reported_in_chunks(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(offsets_requests, "POSITIONS_A_TURN", 4)
    bench.groups.put(SubscriptionGroupConfig(group_name="g"))
    for number in range(5):
        bench.topics.put(make_topic(f"t{number}", 2))
        bench.offsets.commit("g", f"t{number}", 0, 1)
    ext = {"consumerGroup": "g", "isOrder": "false"}

    async def main() -> tuple[int, bytes]:
        peer = Peer()
        request = RemotingCommand.request(code, ext)
        assert bench.handlers[code](peer.connection, request) is None
        turns = 0
        while not peer.sent:
            turns += 1
            await asyncio.sleep(0)
        return turns, peer.take().body

    turns, body = asyncio.run(main())
    assert turns == 2
    monkeypatch.undo()
    assert body == bench.request(code, ext).body


def test_two_reports_in_chunks_take_turns(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_requests, "POSITIONS_A_TURN", 4)
    bench.groups.put(SubscriptionGroupConfig(group_name="g"))
    for number in range(5):
        bench.topics.put(make_topic(f"t{number}", 2))
        bench.offsets.commit("g", f"t{number}", 0, 1)

    async def main() -> int:
        peer = Peer()
        for _ in range(2):
            request = RemotingCommand.request(STATS, {"consumerGroup": "g"})
            assert bench.handlers[STATS](peer.connection, request) is None
        for _ in range(20):
            await asyncio.sleep(0)
        return len(peer.sent)

    assert asyncio.run(main()) == 2
