"""The topic table: names, system topics, durability."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from staticfire.system_under_test.broker.metadata.topics import (
    TopicChange,
    Topics,
    covering,
    make_topic,
    topic_name_error,
)
from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    DataVersion,
    HeartbeatData,
    TopicConfigTable,
)
from staticfire.system_under_test.store.metadata_file import MetadataFile
from tests.system_under_test.broker.admin_language import beat
from tests.system_under_test.broker.bench import Bench, Peer


@pytest.mark.parametrize("name", ["a", "%RETRY%g", "a|b", "A_1-", "x" * 127])
def test_valid_names(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize("name", ["", " ", "a b", "a@b", "ä", "x" * 128, "a\n"])
def test_invalid_names(name: str) -> None:
    assert topic_name_error(name) is not None


@pytest.mark.parametrize(
    ("topic", "queues", "perm"),
    [
        ("SELF_TEST_TOPIC", 1, 6),
        ("TBW102", 8, 7),
        ("BenchmarkTest", 1024, 6),
        ("DefaultCluster", 16, 7),
        ("broker-a", 1, 7),
        ("OFFSET_MOVED_EVENT", 1, 6),
        ("SCHEDULE_TOPIC_XXXX", 18, 6),
        ("DefaultCluster_REPLY_TOPIC", 1, 6),
    ],
)
def test_system_topics(bench: Bench, topic: str, queues: int, perm: int) -> None:
    config = bench.topics.get(topic)
    assert config is not None
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (queues, queues, perm)
    assert bench.topics.is_system(topic)


def test_topics_of_cluster_and_broker_may_be_closed_and_one_for_traces_made() -> None:
    bench = Bench(
        cluster_topic=False, broker_topic=False, makes_trace_topic=True, trace_topic="Traces"
    )
    perms = {name: topic.perm for name, topic in bench.topics.table().topics.items()}
    assert (perms["DefaultCluster"], perms["broker-a"], perms["Traces"]) == (1, 1, 6)
    assert bench.topics.is_system("Traces")
    assert Bench().topics.get("RMQ_SYS_TRACE_TOPIC") is None


def test_every_change_gets_another_version(bench: Bench) -> None:
    versions = [bench.topics.table().data_version]
    bench.topics.put(make_topic("a", 1))
    versions.append(bench.topics.table().data_version)
    bench.topics.delete("a")
    versions.append(bench.topics.table().data_version)
    assert [version.counter for version in versions] == [0, 1, 2]


def test_topic_that_cannot_be_made_durable_does_not_exist(bench: Bench) -> None:
    bench.disk.fill()
    with pytest.raises(OSError, match=str(errno.ENOSPC)):
        bench.topics.put(make_topic("a", 1))
    assert bench.topics.get("a") is None
    assert bench.topic_changes == 0


def test_topics_are_durable_before_they_are_used(bench: Bench) -> None:
    bench.topics.put(make_topic("a", 1))
    bench.disk.power_cut()
    bench.disk.power_on()
    bench.topics.load()
    assert bench.topics.get("a") == make_topic("a", 1)


def test_a_slave_tells_of_every_queue_that_it_holds() -> None:
    """Its copy of the topics may be older than its copy of the log."""
    version = DataVersion(timestamp=1, counter=1)
    known = TopicConfigTable(topics={"T": make_topic("T", 4)}, data_version=version)
    reported = covering(known, [("T", 1), ("T", 6), ("U", 2)])
    queues = {name: topic.read_queue_nums for name, topic in reported.topics.items()}
    assert (queues, reported.topics["T"].write_queue_nums) == ({"T": 7, "U": 3}, 4)
    assert covering(known, [("T", 3)]) == known


def test_queues_of_deleted_topics_are_not_used_but_those_of_transactions_are(bench: Bench) -> None:
    bench.topics.put(make_topic("TopicTest", 4))
    assert bench.topics.is_used("TopicTest")
    bench.topics.delete("TopicTest")
    assert not bench.topics.is_used("TopicTest")
    assert bench.topics.get("RMQ_SYS_TRANS_OP_HALF_TOPIC") is None
    assert bench.topics.is_used("RMQ_SYS_TRANS_OP_HALF_TOPIC")


def flag_of(bench: Bench, topic: str) -> int:
    made = bench.topics.get(topic)
    assert made is not None
    return made.topic_sys_flag


def test_topics_of_units_are_marked(bench: Bench) -> None:
    """RocketMQ, TopicSysFlag: 1 if a producer of a unit made it, 2 if a consumer did; codes 311 to 313 ask for that."""
    bench.send("plain")
    bench.send("unit", k="true")
    consumer = ConsumerData(group_name="g", unit_mode=True)
    beat(bench, HeartbeatData(client_id="c", consumers=[consumer]), Peer(), 409)
    flags = [flag_of(bench, topic) for topic in ("plain", "unit", "%RETRY%g")]
    assert flags == [0, 1, 2]


def test_a_new_topic_is_filtered_as_its_template(bench: Bench) -> None:
    template = make_topic("template", 4, 7)
    bench.topics.put(replace(template, topic_filter_type="MULTI_TAG"))
    bench.send("new", default_topic="template")
    made = bench.topics.get("new")
    assert made is not None
    assert (made.topic_filter_type, made.perm) == ("MULTI_TAG", 6)


def test_a_retry_topic_is_made_once_and_no_administrator_made_it(bench: Bench) -> None:
    changes: list[TopicChange] = []
    topics = Topics(
        bench.config,
        MetadataFile(bench.disk, "/store/config/others.json"),
        now_ms=bench.clock.wall_ms,
        on_change=changes.append,
    )
    made = topics.create_retry_topic("g", 2)
    assert (made.topic_name, made.write_queue_nums) == ("%RETRY%g", 2)
    assert topics.create_retry_topic("g", 5) is made
    assert changes == [TopicChange(topic="%RETRY%g", by_send=True)]
