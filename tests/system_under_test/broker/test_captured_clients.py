"""Requests of real Java and C++ clients, as captured, through the handler table."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from staticfire.system_under_test.broker.metadata.topics import make_topic
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies_queues import LockedQueues
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.system_under_test.broker.bench import Bench, Peer

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
RESPONSE_FLAG = 1


@cache
def requests(code: int) -> list[tuple[str, dict[str, str], bytes]]:
    """Client, ext fields and body of every captured request with this code."""
    found = []
    for path in sorted(CAPTURES.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            line = json.loads(text)
            head = line.get("head")
            if head and head["code"] == code and not head["flag"] & RESPONSE_FLAG:
                ext = {key: str(value) for key, value in head.get("extFields", {}).items()}
                found.append((path.stem, ext, line["body"].encode()))
    return found


@pytest.mark.parametrize("client", ["cpp", "java"])
def test_heartbeats(bench: Bench, client: str) -> None:
    beats = [one for one in requests(RequestCode.HEART_BEAT) if one[0].startswith(client)]
    assert beats
    for number, (name, _, body) in enumerate(beats):
        answer = bench.request(RequestCode.HEART_BEAT, body=body, peer=Peer(number))
        assert answer.code == 0, name
        for consumer in json_dialect.loads(body).get("consumerDataSet", []):
            group = bench.clients.consumer_group(consumer["groupName"])
            assert group is not None
            assert group.data.message_model in ("CLUSTERING", "BROADCASTING")
            wanted = {one["topic"] for one in consumer.get("subscriptionDataSet", [])}
            assert set(group.subscriptions) == wanted


def test_ordinals_of_cpp_are_the_names_of_java(bench: Bench) -> None:
    """observed: consumeType 1 is passively, messageModel 0 is broadcast."""
    body = next(
        body
        for name, _, body in requests(RequestCode.HEART_BEAT)
        if name == "cpp-push-broadcast" and json_dialect.loads(body).get("consumerDataSet")
    )
    bench.request(RequestCode.HEART_BEAT, body=body)
    (consumer,) = json_dialect.loads(body)["consumerDataSet"]
    group = bench.clients.consumer_group(consumer["groupName"])
    assert group is not None
    assert isinstance(consumer["messageModel"], int)
    assert (group.data.consume_type, group.is_broadcasting) == ("CONSUME_PASSIVELY", True)


def test_locks_and_unlocks(bench: Bench) -> None:
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        assert requests(code)
        for name, _, body in requests(code):
            answer = bench.request(code, body=body)
            assert answer.code == 0, name
            if code == RequestCode.LOCK_BATCH_MQ and name.startswith("java"):
                held = LockedQueues.from_bytes(answer.body).queues
                assert len(held) == len(json_dialect.loads(body)["mqSet"])


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.UNREGISTER_CLIENT,
    ],
)
def test_small_requests(bench: Bench, code: RequestCode) -> None:
    assert requests(code)
    for name, ext, body in requests(code):
        if "topic" in ext:
            bench.topics.put(make_topic(ext["topic"], 4))
        answer = bench.request(code, ext, body)
        assert isinstance(answer, RemotingCommand)
        assert answer.code == 0, name
