"""Requests of clients and administrators other than send and pull."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from staticfire.system_under_test.broker.clients.clients import GROUPS_MAX as CLIENT_GROUPS_MAX
from staticfire.system_under_test.broker.metadata import (
    offset_commits,
    offsets,
    subscription_groups,
    topics,
)
from staticfire.system_under_test.broker.metadata.subscription_groups import GROUP_LENGTH_MAX
from staticfire.system_under_test.broker.metadata.tag_filter import TAGS_LENGTH_MAX
from staticfire.system_under_test.broker.metadata.topics import make_topic
from staticfire.system_under_test.filters.sql92 import TEXT_LENGTH_MAX
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from staticfire.system_under_test.protocol.codes import ResponseCode
from tests.system_under_test.broker.bench import Bench, Peer

QUEUE = {"topic": "TopicTest", "queueId": "0"}


def heartbeat_body() -> bytes:
    consumer = ConsumerData(group_name="g", subscriptions=[SubscriptionData(topic="TopicTest")])
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


@pytest.mark.parametrize(
    ("known_group", "known_topic", "queue_id", "code"),
    [
        (False, False, 0, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        (True, False, 0, ResponseCode.TOPIC_NOT_EXIST),
        (True, True, 4, ResponseCode.SYSTEM_ERROR),
        (True, True, -1, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_offsets_of_what_the_broker_does_not_have_are_bounded(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    known_group: bool,
    known_topic: bool,
    queue_id: int,
    code: int,
) -> None:
    """They were kept for ever: a topic that was deleted a moment ago still has some, a hostile peer has millions."""
    monkeypatch.setattr(offset_commits, "UNKNOWN_MAX", 3)
    if known_group:
        bench.groups.find("g")
    if known_topic:
        bench.topics.put(make_topic("TopicTest", 4))

    def commit(queue: int, offset: int = 7) -> int:
        ext = {"topic": "TopicTest", "consumerGroup": "g"}
        numbers = {"queueId": str(queue), "commitOffset": str(offset)}
        return bench.ask(bench.queries.update_consumer_offset, ext | numbers).code

    step = -1 if queue_id < 0 else 1
    queues = [queue_id + step * number for number in range(4)]
    assert [commit(queue) for queue in queues] == [0, 0, 0, code]
    assert commit(queues[0], 8) == ResponseCode.SUCCESS  # of what there is, they go on
    assert bench.offsets.query("g", "TopicTest", queues[0]) == 8
    assert bench.offsets.query("g", "TopicTest", queues[3]) is None
    bench.offsets.forget_topic("TopicTest")
    assert commit(queues[3]) == ResponseCode.SUCCESS


def test_offsets_of_what_the_broker_has_are_all_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_commits, "UNKNOWN_MAX", 1)
    bench.groups.find("g")
    ext = {"topic": "TopicTest", "consumerGroup": "g", "commitOffset": "7"}
    update = bench.queries.update_consumer_offset
    assert bench.ask(update, ext | {"queueId": "0"}).code == ResponseCode.SUCCESS  # unknown yet
    bench.topics.put(make_topic("TopicTest", 4))
    codes = [bench.ask(update, ext | {"queueId": str(queue)}).code for queue in range(5)]
    assert codes == [0, 0, 0, 0, 0]  # the first one is known by now; the last one is not
    assert bench.ask(update, ext | {"queueId": "5"}).code == ResponseCode.SYSTEM_ERROR


def test_a_refused_commit_looks_at_one_unknown_offset(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are; what has become known in the meantime is found in turn."""
    monkeypatch.setattr(offset_commits, "UNKNOWN_MAX", 100)
    update = bench.queries.update_consumer_offset

    def commit(group: str) -> int:
        ext = {"topic": "TopicTest", "consumerGroup": group, "queueId": "0", "commitOffset": "7"}
        return bench.ask(update, ext).code

    assert {commit(f"g{number}") for number in range(100)} == {ResponseCode.SUCCESS}
    bench.topics.put(make_topic("TopicTest", 1))
    bench.groups.find("g2")
    asked = []
    query = bench.offsets.query

    def counted(*entry: Any) -> int | None:
        asked.append(entry)
        return query(*entry)

    monkeypatch.setattr(bench.offsets, "query", counted)
    codes = [commit(f"other{number}") for number in range(4)]
    assert codes == [26, 26, ResponseCode.SUCCESS, 26]
    assert len(asked) == 8  # the entry itself, and one of the old ones


@pytest.mark.parametrize("name", ["topic", "consumerGroup"])
def test_offsets_of_names_that_are_too_long_are_refused(bench: Bench, name: str) -> None:
    group = {**QUEUE, "consumerGroup": "g", "commitOffset": "7", name: "x" * 263}
    bench.groups.find("g")
    assert bench.ask(bench.queries.update_consumer_offset, group).code != ResponseCode.SUCCESS
    assert bench.offsets.count() == 0


def test_an_offset_that_no_queue_can_have_is_refused(bench: Bench) -> None:
    group = {**QUEUE, "consumerGroup": "g"}
    update = bench.queries.update_consumer_offset
    most = offset_commits.OFFSET_MAX
    assert bench.ask(update, {**group, "commitOffset": str(most)}).code == ResponseCode.SUCCESS
    for offset in (most + 1, 2**63 - 1):
        answer = bench.ask(update, {**group, "commitOffset": str(offset)})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert f"commitOffset is {offset}" in (answer.remark or "")
    assert bench.offsets.query("g", "TopicTest", 0) == most


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


def many_groups(*names: str, producers: Sequence[str] = ()) -> bytes:
    consumers = [ConsumerData(group_name=name) for name in names]
    heartbeat = HeartbeatData(client_id="c1", producer_groups=list(producers), consumers=consumers)
    return json_dialect.dumps(heartbeat.to_json())


def writes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose content is replaced from now on."""
    found: list[str] = []
    rename = bench.disk.rename

    def counted(source: str, target: str) -> None:
        if source.endswith(".tmp"):
            found.append(target.rpartition("/")[2])
        rename(source, target)

    monkeypatch.setattr(bench.disk, "rename", counted)
    return found


@pytest.mark.slow
def test_new_groups_of_a_heartbeat_are_written_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rewrote both tables: 3,000 new groups held a broker for minutes."""
    written = writes(bench, monkeypatch)
    names = [f"g{number}" for number in range(CLIENT_GROUPS_MAX)]
    assert bench.ask(bench.client_requests.heartbeat, body=many_groups(*names)).code == 0
    assert written == ["subscriptionGroup.json", "topics.json"]
    assert bench.topic_changes == 1
    assert {*names} <= {*bench.groups.names()}
    for name in names:
        assert bench.topics.get(f"%RETRY%{name}") is not None
    bench.ask(bench.client_requests.heartbeat, body=many_groups(*names))
    assert len(written) == 2


@pytest.mark.needs_sources
def test_a_heartbeat_of_too_many_groups_changes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = writes(bench, monkeypatch)
    names = [f"g{number}" for number in range(CLIENT_GROUPS_MAX)]
    with pytest.raises(ValueError, match=f"in {CLIENT_GROUPS_MAX + 1} groups; allowed: up to"):
        bench.ask(bench.client_requests.heartbeat, body=many_groups(*names, producers=["p"]))
    assert written == []
    assert bench.clients.consumer_count() == bench.clients.producer_count() == 0


def test_groups_of_several_heartbeats_of_a_connection_count_together(bench: Bench) -> None:
    peer = Peer()
    bench.config.auto_create_groups = False
    names = [f"g{number}" for number in range(CLIENT_GROUPS_MAX)]
    beat = bench.client_requests.heartbeat
    bench.ask(beat, body=many_groups(*names[1:], producers=["p"]), peer=peer)
    bench.ask(beat, body=many_groups(*names[1:], producers=["p"]), peer=peer)  # the same ones
    with pytest.raises(ValueError, match="allowed: up to"):
        bench.ask(beat, body=many_groups("g0"), peer=peer)
    assert bench.ask(beat, body=many_groups("g0"), peer=Peer(2)).code == 0  # another connection
    ext = {"clientID": "c1", "producerGroup": "p"}
    bench.ask(bench.client_requests.unregister, ext, peer=peer)
    assert bench.ask(beat, body=many_groups("g0"), peer=peer).code == 0
    bench.clients.connection_closed(peer.connection)
    assert bench.ask(beat, body=many_groups(*names), peer=peer).code == 0


def test_a_broker_makes_only_so_many_groups_and_topics_by_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_groups, "GROUPS_MAX", len(bench.groups.names()) + 2)
    bench.ask(bench.client_requests.heartbeat, body=many_groups("a", "b", "c"))
    assert [bench.groups.get(name) is not None for name in "abc"] == [True, True, False]
    assert bench.groups.find("c") is None
    bench.groups.put(SubscriptionGroupConfig(group_name="c"))  # an administrator still may
    assert bench.groups.find("c") is not None

    monkeypatch.setattr(topics, "TOPICS_MAX", len(bench.topics.table().topics) + 1)
    assert bench.send(topic="Last").code == ResponseCode.SUCCESS
    assert bench.send(topic="OneTooMany").code == ResponseCode.TOPIC_NOT_EXIST
    bench.topics.put(make_topic("OneTooMany", 1))
    assert bench.send(topic="OneTooMany").code == ResponseCode.SUCCESS


def test_a_group_with_a_name_that_is_too_long_is_not_made(bench: Bench) -> None:
    assert bench.groups.find("g" * GROUP_LENGTH_MAX) is not None
    assert bench.groups.find("g" * (GROUP_LENGTH_MAX + 1)) is None


def test_new_expressions_of_a_heartbeat_are_bounded_together(bench: Bench) -> None:
    """Each may take 60 ms to compile; those that are compiled already take no time."""

    def subscribed(*expressions: str) -> bytes:
        subscriptions = [
            SubscriptionData(topic=f"T{number}", sub_string=text, expression_type="SQL92")
            for number, text in enumerate(expressions)
        ]
        consumer = ConsumerData(group_name="g", subscriptions=subscriptions)
        heartbeat = HeartbeatData(client_id="c1", consumers=[consumer])
        return json_dialect.dumps(heartbeat.to_json())

    long = "a = '" + "x" * (TEXT_LENGTH_MAX - 6) + "'"
    assert bench.ask(bench.client_requests.heartbeat, body=subscribed(long, long)).code == 0
    assert bench.ask(bench.client_requests.heartbeat, body=subscribed(long, "b = 1")).code == 0
    with pytest.raises(ValueError, match="characters of new SQL92 expressions"):
        bench.ask(bench.client_requests.heartbeat, body=subscribed(long.replace("x", "y"), "c = 1"))


def test_a_heartbeat_with_a_long_list_of_tags_is_refused(bench: Bench) -> None:
    """Each pull of the group would read it again."""

    def beat(tags: str) -> int:
        subscription = SubscriptionData(topic="T", sub_string=tags)
        consumer = ConsumerData(group_name="g", subscriptions=[subscription])
        body = json_dialect.dumps(HeartbeatData(client_id="c1", consumers=[consumer]).to_json())
        return bench.ask(bench.client_requests.heartbeat, body=body).code

    assert beat("x" * TAGS_LENGTH_MAX) == ResponseCode.SUCCESS
    with pytest.raises(ValueError, match=f"allowed: up to {TAGS_LENGTH_MAX}"):
        beat("x" * (TAGS_LENGTH_MAX + 1))


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


def test_the_table_of_offsets_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of topics and groups that there are, too, and also for pulls that commit."""
    monkeypatch.setattr(offsets, "SIZE_MAX", offsets.size_of("TopicTest@g", 2))
    bench.groups.find("g")
    bench.topics.put(make_topic("TopicTest", 4))
    ext = {"topic": "TopicTest", "consumerGroup": "g", "commitOffset": "7"}
    update = bench.queries.update_consumer_offset
    answers = [bench.ask(update, ext | {"queueId": str(queue)}) for queue in range(2)]
    assert [answer.code for answer in answers] == [0, ResponseCode.SYSTEM_ERROR]
    assert answers[1].remark is not None
    assert answers[1].remark.startswith("the table of offsets would have more than")
    assert bench.pull(group="g", queue_id=1, sys_flag=1 | 4, commit_offset=5) is not None
    assert bench.offsets.queues("g", "TopicTest") == {0: 7}
