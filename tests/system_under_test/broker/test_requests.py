"""Requests of clients and administrators other than send and pull."""

from __future__ import annotations

from system_under_test.broker.topics import make_topic
from system_under_test.protocol import json_dialect
from system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from system_under_test.protocol.codes import ResponseCode
from tests.system_under_test.broker.bench import Bench, Peer

QUEUE = {"topic": "TopicTest", "queueId": "0"}


def heartbeat_body(group: str = "g") -> bytes:
    consumer = ConsumerData(group_name=group, subscriptions=[SubscriptionData(topic="TopicTest")])
    heartbeat = HeartbeatData(client_id="c1", producer_groups=["p"], consumers=[consumer])
    return json_dialect.dumps(heartbeat.to_json())


# Offsets and single messages


def test_consumer_offset_of_a_young_queue_starts_at_0(bench: Bench) -> None:
    answer = bench.ask(bench.queries.query_consumer_offset, {**QUEUE, "consumerGroup": "new"})
    assert (answer.code, answer.ext_fields) == (0, {"offset": "0"})


def test_consumer_offset_is_stored_without_a_range_check(bench: Bench) -> None:
    group = {**QUEUE, "consumerGroup": "g"}
    for offset in ("77", "5"):
        bench.ask(bench.queries.update_consumer_offset, {**group, "commitOffset": offset})
        answer = bench.ask(bench.queries.query_consumer_offset, group)
        assert answer.ext_fields == {"offset": offset}


def test_minus_one_is_accepted_and_is_no_offset(bench: Bench) -> None:
    group = {**QUEUE, "consumerGroup": "g"}
    answer = bench.ask(bench.queries.update_consumer_offset, {**group, "commitOffset": "-1"})
    assert answer.code == ResponseCode.SUCCESS
    answer = bench.ask(bench.queries.query_consumer_offset, group)
    assert answer.ext_fields == {"offset": "0"}


def test_consumer_offset_of_a_queue_whose_start_is_on_disk(bench: Bench) -> None:
    bench.send()
    bench.config.memory_bytes = bench.store.end_offset
    answer = bench.ask(bench.queries.query_consumer_offset, {**QUEUE, "consumerGroup": "new"})
    assert answer.ext_fields == {"offset": "0"}
    bench.send(queue_id=1)  # another queue, but the first message is farther back now
    answer = bench.ask(bench.queries.query_consumer_offset, {**QUEUE, "consumerGroup": "new"})
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    other = {**QUEUE, "queueId": "1", "consumerGroup": "new"}
    assert bench.ask(bench.queries.query_consumer_offset, other).code == ResponseCode.SUCCESS


def test_queue_bounds(bench: Bench) -> None:
    for _ in range(3):
        bench.send()
    assert bench.ask(bench.queries.max_offset, QUEUE).ext_fields == {"offset": "3"}
    assert bench.ask(bench.queries.min_offset, QUEUE).ext_fields == {"offset": "0"}
    unknown = {"topic": "Unknown", "queueId": "9"}
    assert bench.ask(bench.queries.max_offset, unknown).ext_fields == {"offset": "0"}


def test_times(bench: Bench) -> None:
    first_ms = bench.clock.now_ms
    for _ in range(3):
        bench.send()
        bench.clock.move(10)
    earliest = bench.ask(bench.queries.earliest_store_time, QUEUE)
    assert earliest.ext_fields == {"timestamp": str(first_ms)}
    search = {**QUEUE, "timestamp": str(first_ms + 10_000)}
    assert bench.ask(bench.queries.search_offset, search).ext_fields == {"offset": "1"}


def test_view_message_by_offset(bench: Bench) -> None:
    offset = int(bench.send(body=b"look at me").ext_fields["msgId"][16:], 16)
    answer = bench.ask(bench.message_queries.view, {"offset": str(offset)})
    assert b"look at me" in answer.body
    assert bench.ask(bench.message_queries.view, {"offset": "3"}).code == 1


# Clients


def test_heartbeat_creates_what_a_group_needs(bench: Bench) -> None:
    assert bench.ask(bench.client_requests.heartbeat, body=heartbeat_body()).code == 0
    retry_topic = bench.topics.get("%RETRY%g")
    assert retry_topic is not None
    assert (retry_topic.write_queue_nums, retry_topic.perm) == (1, 6)
    assert bench.topic_changes == 1
    bench.ask(bench.client_requests.heartbeat, body=heartbeat_body())
    assert bench.topic_changes == 1


def test_notification_comes_before_the_answer_to_the_heartbeat(bench: Bench) -> None:
    peer = Peer()
    bench.ask(bench.client_requests.heartbeat, body=heartbeat_body(), peer=peer)
    notification = peer.take()
    assert (notification.code, notification.is_oneway) == (40, True)
    assert notification.ext_fields == {"consumerGroup": "g"}


def test_slave_takes_heartbeats_but_creates_nothing(slave_bench: Bench) -> None:
    slave_bench.ask(slave_bench.client_requests.heartbeat, body=heartbeat_body())
    assert slave_bench.topics.get("%RETRY%g") is None
    answer = slave_bench.ask(slave_bench.client_requests.consumer_list, {"consumerGroup": "g"})
    assert json_dialect.loads(answer.body) == {"consumerIdList": ["c1"]}


def test_consumer_list_of_a_group_without_members(bench: Bench) -> None:
    answer = bench.ask(bench.client_requests.consumer_list, {"consumerGroup": "g"})
    assert answer.code == ResponseCode.SYSTEM_ERROR


def test_unregister(bench: Bench) -> None:
    bench.ask(bench.client_requests.heartbeat, body=heartbeat_body())
    ext = {"clientID": "c1", "producerGroup": "p", "consumerGroup": "g"}
    assert bench.ask(bench.client_requests.unregister, ext).code == 0
    assert bench.clients.consumer_group("g") is None
    assert bench.clients.producers("p") == []


def test_tables_survive_a_restart(bench: Bench) -> None:
    bench.topics.put(make_topic("Kept", 3))
    bench.groups.put(SubscriptionGroupConfig(group_name="kept", retry_queue_nums=2))
    bench.disk.power_cut()
    bench.disk.power_on()
    bench.topics.load()
    bench.groups.load()
    topic = bench.topics.get("Kept")
    assert topic is not None
    assert topic.read_queue_nums == 3
    group = bench.groups.find("kept")
    assert group is not None
    assert group.retry_queue_nums == 2
