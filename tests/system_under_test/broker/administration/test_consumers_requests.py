"""Clients through the handler table: codes 40, 41, 42, 46, 203, 204, 328."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import SubscriptionData
from staticfire.system_under_test.protocol.bodies_clients import (
    ClientConnection,
    ConsumerConnections,
    ProducerConnections,
    ProducerTable,
)
from staticfire.system_under_test.protocol.bodies_queues import LockedQueues, QueueLockRequest
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from tests.system_under_test.broker.admin_language import consume, produce, queue
from tests.system_under_test.broker.bench import Bench, Peer

CHECK = RequestCode.CHECK_CLIENT_CONFIG


def lock_body(client_id: str, *ids: int) -> bytes:
    queues = [queue("t", queue_id) for queue_id in ids]
    return QueueLockRequest(consumer_group="g", client_id=client_id, queues=queues).encode()


def test_queues_are_locked_and_given_back(bench: Bench) -> None:
    def lock(client_id: str, *ids: int) -> list[int]:
        answer = bench.request(RequestCode.LOCK_BATCH_MQ, body=lock_body(client_id, *ids))
        return [one.queue_id for one in LockedQueues.from_bytes(answer.body).queues]

    assert lock("c1", 0, 1) == [0, 1]
    assert lock("c2", 1, 2) == [2]
    answer = bench.request(RequestCode.UNLOCK_BATCH_MQ, body=lock_body("c1", 1, 2))
    assert (answer.code, answer.body) == (0, b"")
    assert lock("c2", 0, 1) == [1]


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
@pytest.mark.parametrize("body", [b"", b"{}", b'{"consumerGroup":"g","clientId":"c","mqSet":[5]}'])
def test_bad_lock_requests(bench: Bench, code: int, body: bytes) -> None:
    answer = bench.request(code, body=body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark


@pytest.mark.parametrize(
    ("expression_type", "code"), [("TAG", 0), ("SQL92", ResponseCode.SYSTEM_ERROR)]
)
def test_filter_of_a_client_is_checked(bench: Bench, expression_type: str, code: int) -> None:
    subscription = SubscriptionData(topic="t", expression_type=expression_type)
    body = {"clientId": "c", "group": "g", "subscriptionData": subscription.to_json()}
    answer = bench.request(CHECK, body=json_dialect.dumps(body))
    assert answer.code == code
    assert ("SQL92" in (answer.remark or "")) == (code != 0)


def test_check_without_a_body_or_subscription(bench: Bench) -> None:
    assert bench.request(CHECK).code == 0
    assert bench.request(CHECK, body=b'{"clientId":"c","group":"g"}').code == 0


def test_members_of_a_consumer_group(bench: Bench) -> None:
    consume(bench, "g", "t")
    answer = bench.request(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    found = ConsumerConnections.from_bytes(answer.body)
    assert found.connection_set == [
        ClientConnection(
            client_id="c1", client_addr="10.0.0.9:40001", language="PYTHON", version=409
        )
    ]
    assert list(found.subscription_table) == ["t"]
    assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert found.consume_from_where == "CONSUME_FROM_LAST_OFFSET"


def test_consumer_group_that_is_not_online(bench: Bench) -> None:
    answer = bench.request(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    assert (answer.code, answer.remark) == (206, "the consumer group[g] not online")


def test_members_of_a_producer_group(bench: Bench) -> None:
    produce(bench, "p")
    answer = bench.request(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
    (member,) = ProducerConnections.from_bytes(answer.body).connection_set
    assert member.client_id == "p1"
    answer = bench.request(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "q"})
    assert (answer.code, answer.remark) == (1, "the producer group[q] not exist")


def test_all_producers_with_the_time_of_their_last_heartbeat(bench: Bench) -> None:
    produce(bench, "p")
    seen_ms = bench.clock.now_ms
    bench.clock.move(30)
    produce(bench, "q", peer=Peer(2), client_id="p2")
    table = ProducerTable.from_bytes(bench.request(RequestCode.GET_ALL_PRODUCER_INFO).body)
    assert {group: [one.client_id for one in members] for group, members in table.data.items()} == {
        "p": ["p1"],
        "q": ["p2"],
    }
    assert table.data["p"][0].last_update_timestamp == seen_ms
    assert table.data["p"][0].remote_ip == "/10.0.0.9:40001"


def test_unknown_language_is_other(bench: Bench) -> None:
    produce(bench, "p")
    bench.clients.producers("p")[0].language = 99
    answer = bench.request(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
    assert json_dialect.loads(answer.body)["connectionSet"][0]["language"] == "OTHER"


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.QUERY_CORRECTION_OFFSET,
        RequestCode.CLONE_GROUP_OFFSET,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.VIEW_BROKER_STATS_DATA,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.DELETE_TOPIC_IN_BROKER,
    ],
)
def test_missing_fields_are_named(bench: Bench, code: RequestCode) -> None:
    answer = bench.request(code)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "is missing" in (answer.remark or "")
