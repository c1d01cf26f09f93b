"""The send path: order of checks, what is stored, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.system_under_test.broker.config import BrokerRole
from staticfire.system_under_test.broker.metadata.topics import make_topic
from staticfire.system_under_test.broker.sending import batches
from staticfire.system_under_test.protocol.batch import BatchEntry, encode_batch
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import ONEWAY_FLAG, RemotingCommand
from staticfire.system_under_test.protocol.header_fields import HeaderError
from staticfire.system_under_test.protocol.message import decode_record
from tests.system_under_test.broker.bench import Bench, Peer, send_ext

V1_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
}


def test_answer_carries_the_position(bench: Bench) -> None:
    bench.send(queue_id=3)
    answer = bench.send(queue_id=3)
    assert answer.code == ResponseCode.SUCCESS
    assert answer.remark is None
    assert answer.ext_fields["queueId"] == "3"
    assert answer.ext_fields["queueOffset"] == "1"
    assert (answer.ext_fields["MSG_REGION"], answer.ext_fields["TRACE_ON"]) == (
        "DefaultRegion",
        "true",
    )
    assert len(answer.ext_fields["msgId"]) == 32


def test_stored_message(bench: Bench) -> None:
    answer = bench.send(queue_id=1, properties={"KEYS": "k", "WAIT": "true"}, h=7)
    record = bench.store.look_up(int(answer.ext_fields["msgId"][16:], 16))
    assert record is not None
    message = decode_record(record, check_crc=True)
    assert (message.topic, message.body, message.queue_id, message.flag) == (
        "TopicTest",
        b"hello",
        1,
        7,
    )
    assert message.properties == {"KEYS": "k", "CLUSTER": "DefaultCluster"}
    assert message.born_host == ("10.0.0.9", 40_001)
    assert message.store_host == ("10.0.0.1", 10911)
    assert message.born_timestamp_ms == 1_600_000_000_000


def test_code_10_with_long_names(bench: Bench) -> None:
    ext = {V1_NAMES[name]: value for name, value in send_ext("TopicTest").items()}
    peer = Peer()
    request = RemotingCommand.request(10, ext, b"hello")
    assert bench.send_processor.handle(peer.connection, request) is None
    bench.publish()
    assert peer.take().code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("wait", "waits"), [({}, True), ({"WAIT": "true"}, True), ({"WAIT": "false"}, False)]
)
def test_wait_property_decides_who_waits(bench: Bench, wait: dict[str, str], waits: bool) -> None:
    request = RemotingCommand.request(310, send_ext("TopicTest", properties=wait), b"x")
    bench.send_processor.handle(Peer().connection, request)
    ((end_offset, _, waited),) = bench.waiting
    assert end_offset == bench.store.end_offset
    assert waited is waits


def test_oneway_send_is_stored_and_not_answered(bench: Bench) -> None:
    peer = Peer()
    request = RemotingCommand.request(310, send_ext("TopicTest"), b"x")
    request.flag |= ONEWAY_FLAG
    bench.send_processor.handle(peer.connection, request)
    bench.publish()
    assert peer.sent == []
    assert bench.store.queue_bounds("TopicTest", 0) == (0, 1)


@pytest.mark.parametrize(("code", "position"), [(10, True), (11, True), (12, True), (0, True)])
def test_weaker_answers_carry_the_position_too(bench: Bench, code: int, position: bool) -> None:
    peer = Peer()
    bench.send_processor.handle(
        peer.connection, RemotingCommand.request(310, send_ext("TopicTest"), b"x")
    )
    ((_, answer, _),) = bench.waiting
    answer(ResponseCode(code))
    sent = peer.take()
    assert sent.code == code
    assert ("queueOffset" in sent.ext_fields) is position


@pytest.mark.parametrize(
    ("topic", "options", "code", "remark"),
    [
        ("SCHEDULE_TOPIC_XXXX", {}, 16, "is forbidden"),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", {}, 16, "is forbidden"),
        ("bad topic", {}, 1, "illegal characters"),
        ("x" * 128, {}, 1, "longer than"),
        ("Unknown", {"default_topic": "NoSuchTemplate"}, 17, "topic[Unknown] not exist"),
        ("Unknown", {"default_topic": "SELF_TEST_TOPIC"}, 17, "topic[Unknown] not exist"),
        ("TopicTest", {"queue_id": 4}, 1, "queueId[4] is illegal"),
        ("TopicTest", {"m": "true"}, 13, "a batch ends with 5 bytes"),
        ("TopicTest", {"m": "true", "body": b""}, 13, "a batch holds no message"),
        ("%RETRY%g", {"m": "true"}, 13, "does not support retry group"),
        ("TopicTest", {"m": "true", "properties": {"DELAY": "1"}}, 13, "delayed"),
        ("TopicTest", {"m": "true", "body": bytes(5 << 20)}, 13, "message_size_max"),
        ("TopicTest", {"properties": {"DELAY": "soon"}}, 1, "DELAY is 'soon'"),
        ("TopicTest", {"sys_flag": 4}, 13, "TRAN_MSG"),
        ("TopicTest", {"sys_flag": 12}, 13, "TRAN_MSG"),
        ("TopicTest", {"body": bytes(5 << 20)}, 13, ""),
    ],
)
def test_refusals(
    bench: Bench, topic: str, options: dict[str, Any], code: int, remark: str
) -> None:
    answer = bench.send(topic, **options)
    assert answer.code == code
    assert remark in (answer.remark or "")
    assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
    assert bench.store.end_offset == 0
    assert not bench.waiting


def test_malformed_header_is_an_error_of_the_peer(bench: Bench) -> None:
    with pytest.raises(HeaderError, match="e"):
        bench.send(e="first")


def test_nothing_is_stored_before_the_broker_is_ready(bench: Bench) -> None:
    bench.is_ready = False
    assert bench.send().code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert bench.store.end_offset == 0


def test_full_disk_is_14_and_ends_by_itself(bench: Bench) -> None:
    bench.send()
    bench.disk.fill()
    codes = [bench.send(body=bytes(100_000)).code for _ in range(20)]
    assert codes[-1] == ResponseCode.SERVICE_NOT_AVAILABLE
    assert bench.refusals == codes.count(14)
    bench.disk.free()
    assert bench.send(body=bytes(100_000)).code == ResponseCode.SUCCESS


def test_unknown_group_of_a_retry_topic(bench: Bench) -> None:
    bench.config.auto_create_groups = False
    assert bench.send("%RETRY%unknown").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_retry_below_the_limit_is_stored(bench: Bench) -> None:
    bench.groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=2))
    assert bench.send("%RETRY%g", j=1).code == ResponseCode.SUCCESS
    assert bench.store.queue_bounds("%DLQ%g", 0) == (0, 0)
    assert bench.send("%RETRY%g", j=2).code == ResponseCode.SUCCESS
    assert bench.store.queue_bounds("%DLQ%g", 0) == (0, 1)


def test_negative_queue_id_is_drawn_among_the_write_queues(bench: Bench) -> None:
    drawn = {bench.send(queue_id=-1).ext_fields["queueId"] for _ in range(100)}
    assert drawn == {"0", "1", "2", "3"}


@pytest.mark.parametrize(("asked", "created"), [(4, 4), (16, 8), (0, 0)])
def test_topic_is_created_after_its_template(asked: int, created: int) -> None:
    bench = Bench(BrokerRole.ASYNC_MASTER)
    bench.send("New", default_queues=asked)
    topic = bench.topics.get("New")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (created, created, 6)
    assert bench.topic_changes == 1


def test_topic_with_other_queue_numbers_takes_the_larger(bench: Bench) -> None:
    topic = make_topic("Shrunk", 2)
    bench.topics.put(topic)
    assert bench.send("Shrunk", queue_id=1).code == ResponseCode.SUCCESS
    assert bench.send("Shrunk", queue_id=2).code == ResponseCode.SYSTEM_ERROR


def send_batch(bench: Bench, entries: list[BatchEntry], **options: Any) -> RemotingCommand:
    peer = Peer()
    request = RemotingCommand.request(
        320, send_ext("TopicTest", m="true", **options), encode_batch(entries)
    )
    response = bench.send_processor.handle(peer.connection, request)
    if response is not None:
        return response
    bench.publish()
    return peer.take()


def test_a_batch_is_stored_as_neighbours_with_their_own_properties(bench: Bench) -> None:
    bench.send(queue_id=2)
    entries = [
        BatchEntry(b"one", {"TAGS": "a", "KEYS": "1"}, 5),
        BatchEntry(b"two", {"TAGS": "b", "WAIT": "true"}),
        BatchEntry(b"three", {}),
    ]
    answer = send_batch(bench, entries, queue_id=2, properties={"WAIT": "true"}, f=1)
    assert (answer.code, answer.ext_fields["queueOffset"]) == (0, "1")
    ids = answer.ext_fields["msgId"].split(",")
    offsets = [int(text[16:], 16) for text in ids]
    records = [bench.store.look_up(offset) for offset in offsets]
    messages = [decode_record(record, check_crc=True) for record in records if record]
    assert [m.body for m in messages] == [b"one", b"two", b"three"]
    assert [m.queue_offset for m in messages] == [1, 2, 3]
    assert [m.flag for m in messages] == [5, 0, 0]
    assert {m.sys_flag for m in messages} == {1}
    assert len({m.store_timestamp_ms for m in messages}) == 1
    ends = [offset + m.size_bytes for offset, m in zip(offsets, messages, strict=True)]
    assert ends[:-1] == offsets[1:]
    common = {"WAIT": "true", "CLUSTER": "DefaultCluster"}
    assert [m.properties for m in messages] == [{**e.properties, **common} for e in entries]
    assert bench.store.queue_bounds("TopicTest", 2) == (0, 4)


def test_properties_of_a_batch_stand_behind_those_of_its_messages(bench: Bench) -> None:
    """RocketMQ does not look whether a message has one of them already."""
    send_batch(bench, [BatchEntry(b"one", {"WAIT": "true"})], properties={"WAIT": "true"})
    (record,) = bench.store.get("TopicTest", 0, 0, 32).records
    assert record.endswith(b"WAIT\x01true\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster")


def test_a_batch_is_stored_as_a_whole_or_not_at_all(bench: Bench) -> None:
    entries = [BatchEntry(b"fine", {}), BatchEntry(b"x", {"k": "v" * 32_700})]
    answer = send_batch(bench, entries, properties={"more": "v" * 100})
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert bench.store.end_offset == 0


def test_properties_that_messages_of_a_batch_share_are_bounded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """220 KB of empty messages with 32 KB of properties would be 330 MB of records."""
    properties = {"k": "v" * 1_000}
    monkeypatch.setattr(batches, "SHARED_PROPERTIES_SIZE_MAX", 5_000)
    assert send_batch(bench, [BatchEntry(b"", {})] * 4, properties=properties).code == 0
    refused = send_batch(bench, [BatchEntry(b"", {})] * 5, properties=properties)
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert "allowed: up to 5000" in (refused.remark or "")


def test_a_boolean_is_read_as_java_reads_it(bench: Bench) -> None:
    """The C++ client says batch "1": RocketMQ stores its batch as one message."""
    body = encode_batch([BatchEntry(b"one", {}), BatchEntry(b"two", {})])
    answer = bench.send(body=body, m="1")
    assert answer.code == ResponseCode.SUCCESS
    record = bench.store.look_up(int(answer.ext_fields["msgId"][16:], 16))
    assert record is not None
    assert decode_record(record).body == body


@pytest.mark.parametrize(("wait", "waits"), [("TRUE", True), ("1", False), ("no", False)])
def test_wait_is_a_java_boolean(bench: Bench, wait: str, waits: bool) -> None:
    request = RemotingCommand.request(310, send_ext("TopicTest", properties={"WAIT": wait}), b"x")
    bench.send_processor.handle(Peer().connection, request)
    assert bench.waiting[0][2] is waits


def test_sends_are_refused_before_the_start_time() -> None:
    bench = Bench(accept_sends_from_ms=1_600_000_001_500)
    answer = bench.send()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "broker unable to service, until 2020-09-13 12:26:41,500"
    bench.clock.move(2)
    assert bench.send().code == ResponseCode.SUCCESS


def test_transactions_can_be_forbidden() -> None:
    bench = Bench(reject_transactions=True)
    answer = bench.send(properties={"TRAN_MSG": "true"}, sys_flag=4)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "the broker[10.0.0.1] sending transaction message is forbidden"


def test_multi_tag_topics_mark_their_messages(bench: Bench) -> None:
    bench.topics.put(replace(make_topic("Multi", 1), topic_filter_type="MULTI_TAG"))
    answer = bench.send("Multi", sys_flag=0x101)
    record = bench.store.look_up(int(answer.ext_fields["msgId"][16:], 16))
    assert record is not None
    assert decode_record(record).sys_flag == 0x103
