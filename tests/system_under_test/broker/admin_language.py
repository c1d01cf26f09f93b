"""Short words for tests of administration."""

from __future__ import annotations

from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    MessageQueue,
    SubscriptionData,
)
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.system_under_test.broker.bench import Bench, Peer


def consume(
    bench: Bench,
    group: str,
    *topics: str,
    peer: Peer | None = None,
    client_id: str = "c1",
    version: int = 409,
    expression: str = "*",
) -> Peer:
    """A heartbeat of a consumer; its code 40 is read."""
    peer = peer or Peer()
    subscriptions = [SubscriptionData(topic=topic, sub_string=expression) for topic in topics]
    consumer = ConsumerData(group_name=group, subscriptions=subscriptions)
    beat(bench, HeartbeatData(client_id=client_id, consumers=[consumer]), peer, version)
    peer.sent.clear()
    return peer


def produce(bench: Bench, group: str, *, peer: Peer | None = None, client_id: str = "p1") -> Peer:
    """A heartbeat of a producer."""
    peer = peer or Peer()
    beat(bench, HeartbeatData(client_id=client_id, producer_groups=[group]), peer, 409)
    return peer


def beat(bench: Bench, heartbeat: HeartbeatData, peer: Peer, version: int) -> None:
    body = json_dialect.dumps(heartbeat.to_json())
    request = RemotingCommand.request(RequestCode.HEART_BEAT, body=body)
    request.version = version
    answer = bench.handlers[RequestCode.HEART_BEAT](peer.connection, request)
    assert answer is not None
    assert answer.code == 0


def queue(topic: str, queue_id: int) -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)
