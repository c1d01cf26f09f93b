"""Topics through the handler table: codes 17, 21, 202, 215, 300, 305."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.metadata import topics
from staticfire.system_under_test.broker.metadata.topics import make_topic
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import MessageQueue, TopicConfigTable
from staticfire.system_under_test.protocol.bodies_clients import GroupList, TopicList
from staticfire.system_under_test.protocol.bodies_queues import TopicOffset, TopicStats
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from tests.system_under_test.broker.admin_language import consume
from tests.system_under_test.broker.bench import Bench

CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC
DELETE = RequestCode.DELETE_TOPIC_IN_BROKER


def topic_ext(topic: str, queues: int = 2, **fields: str) -> dict[str, str]:
    """Fields of UPDATE_AND_CREATE_TOPIC."""
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        **fields,
    }


def test_topic_is_created_changed_and_deleted(bench: Bench) -> None:
    for queues in (2, 5):
        assert bench.request(CREATE, topic_ext("New", queues)).code == 0
        topic = bench.topics.get("New")
        assert topic is not None
        assert topic.write_queue_nums == queues
    bench.offsets.commit("g", "New", 0, 1)
    assert bench.request(DELETE, {"topic": "New"}).code == 0
    assert bench.topics.get("New") is None
    assert bench.offsets.query("g", "New", 0) is None
    assert bench.topic_changes == 3


def test_order_of_the_header_is_ignored(bench: Bench) -> None:
    bench.request(CREATE, topic_ext("New", order="true"))
    topic = bench.topics.get("New")
    assert topic is not None
    assert not topic.order


@pytest.mark.parametrize("topic", ["TBW102", "SELF_TEST_TOPIC", "rmq_sys_x", "bad topic", " "])
def test_topics_that_cannot_be_created_or_deleted(bench: Bench, topic: str) -> None:
    for answer in (
        bench.request(CREATE, topic_ext(topic)),
        bench.request(DELETE, {"topic": topic}),
    ):
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark


@pytest.mark.parametrize(
    ("field", "value", "remark"),
    [
        ("readQueueNums", "-1", "readQueueNums is -1, allowed are 0 to 4096"),
        ("writeQueueNums", "99999999", "writeQueueNums is 99999999"),
        ("perm", "16", "perm is 16, allowed are 0 to 15"),
        ("perm", "x", "field perm is 'x'"),
        ("topicFilterType", "NO_TAG", "'NO_TAG' is unknown, allowed SINGLE_TAG, MULTI_TAG"),
    ],
)
def test_settings_that_make_no_sense(bench: Bench, field: str, value: str, remark: str) -> None:
    answer = bench.request(CREATE, {**topic_ext("New"), field: value})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert remark in (answer.remark or "")
    assert bench.topics.get("New") is None


def test_slave_changes_no_topics(slave_bench: Bench) -> None:
    for answer in (
        slave_bench.request(CREATE, topic_ext("New")),
        slave_bench.request(DELETE, {"topic": "New"}),
    ):
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "from slave broker" in (answer.remark or "")


def test_topics_travel_to_a_slave(bench: Bench, slave_bench: Bench) -> None:
    bench.request(CREATE, topic_ext("New"))
    table = TopicConfigTable.from_bytes(bench.request(RequestCode.GET_ALL_TOPIC_CONFIG).body)
    assert slave_bench.topics.adopt(table)
    assert slave_bench.topics.get("New") == bench.topics.get("New")
    assert not slave_bench.topics.adopt(table)


def test_stats_of_each_write_queue(bench: Bench) -> None:
    bench.topics.put(make_topic("t", 2))
    bench.send("t")
    bench.clock.move(5)
    bench.send("t")
    answer = bench.request(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "t"})
    full = TopicOffset(min_offset=0, max_offset=2, last_update_timestamp=bench.clock.now_ms)
    assert TopicStats.from_bytes(answer.body).offset_table == {
        MessageQueue("t", "broker-a", 0): full,
        MessageQueue("t", "broker-a", 1): TopicOffset(),
    }
    assert b'{{"brokerName":"broker-a","queueId":0,"topic":"t"}:{' in answer.body


def test_stats_of_an_unknown_topic(bench: Bench) -> None:
    answer = bench.request(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "t"})
    assert (answer.code, answer.remark) == (17, "topic[t] not exist")


def test_groups_of_a_topic_are_those_online_and_those_with_offsets(bench: Bench) -> None:
    consume(bench, "online", "t")
    consume(bench, "elsewhere", "u")
    bench.offsets.commit("gone", "t", 0, 1)
    bench.offsets.commit("online", "t", 0, 1)
    answer = bench.request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "t"})
    assert GroupList.from_bytes(answer.body).group_list == ["online", "gone"]
    answer = bench.request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "unknown"})
    assert json_dialect.loads(answer.body) == {"groupList": []}


def test_system_topics(bench: Bench) -> None:
    answer = bench.request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    topics = TopicList.from_bytes(answer.body).topic_list
    assert sorted(topics) == sorted(
        (
            *("TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC"),
            *("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"),
            *("SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"),
            *("DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC"),
        )
    )


@pytest.mark.parametrize(
    "topic", ["RMQ_SYS_TRANS_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "RMQ_SYS_TRACE_TOPIC"]
)
def test_reserved_names_are_refused(bench: Bench, topic: str) -> None:
    """The half messages of open transactions must not be deleted."""
    bench.topics.put(make_topic(topic, 1))
    answer = bench.request(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"The topic[{topic}] is conflict with system topic."
    assert bench.topics.get(topic) is not None


def test_the_table_of_topics_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TABLE_MAX", len(bench.topics.table().topics) + 1)
    assert bench.request(CREATE, topic_ext("New")).code == 0
    answer = bench.request(CREATE, topic_ext("Other"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"a broker has up to {topics.TABLE_MAX} topics"
    assert bench.request(CREATE, topic_ext("New", 3)).code == 0  # it is there


def test_the_queues_of_all_topics_are_bounded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.request(CREATE, topic_ext("New", 2)).code == 0
    used = sum(map(topics.queue_count, bench.topics.table().topics.values()))
    monkeypatch.setattr(topics, "BROKER_QUEUES_MAX", used + 1)
    answer = bench.request(CREATE, topic_ext("New", 4))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"the topics of a broker have up to {used + 1} queues"
    assert bench.request(CREATE, topic_ext("New", 3)).code == 0
    assert bench.send("Sent").code == ResponseCode.SERVICE_NOT_AVAILABLE
