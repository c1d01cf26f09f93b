"""One bounded queue of requests, and the table of classes."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.flow_control.request_classes import (
    CLASSES,
    QueueLimits,
    RequestClass,
    make_limits,
)
from staticfire.system_under_test.broker.flow_control.request_queue import (
    HELD_BYTES_MAX,
    RequestQueue,
    WaitingRequest,
)
from staticfire.system_under_test.protocol.command import REQUEST_SIZE, RemotingCommand
from staticfire.system_under_test.remoting import Connection
from tests.system_under_test.broker.bench import Peer

MS = 1_000_000


def unhandled(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    raise AssertionError("no request expects an answer")


def waiting(at_ms: int, body: bytes = b"") -> WaitingRequest:
    request = RemotingCommand.request(310, {}, body)
    return WaitingRequest(at_ms * MS, Peer().connection, request, unhandled)


def make_queue(capacity: int = 3) -> RequestQueue:
    return RequestQueue(QueueLimits(capacity=capacity, wait_max_ns=200 * MS))


def test_what_does_not_fit_is_not_taken() -> None:
    queue = make_queue(capacity=2)
    assert [queue.put(waiting(0)) for _ in range(3)] == [True, True, False]
    queue.take()
    assert queue.put(waiting(0))


def test_bytes_are_bounded_too() -> None:
    queue = make_queue(capacity=1000)
    body = bytes(HELD_BYTES_MAX // 2 - REQUEST_SIZE)
    assert [queue.put(waiting(0, body)) for _ in range(3)] == [True, True, False]
    queue.take()
    assert queue.put(waiting(0, body))


def test_fields_of_headers_count_as_bytes() -> None:
    queue = make_queue(capacity=1000)
    fields = {"padding": "x" * (HELD_BYTES_MAX // 2 - 2 * REQUEST_SIZE)}
    request = RemotingCommand.request(310, fields)
    large = WaitingRequest(0, Peer().connection, request, unhandled)
    assert [queue.put(large) for _ in range(3)] == [True, True, False]
    queue.take()
    assert queue.put(large)


def test_late_heads_come_out_in_order() -> None:
    queue = make_queue()
    requests = [waiting(at_ms) for at_ms in (0, 10, 150)]
    for request in requests:
        queue.put(request)
    assert queue.take_late(199 * MS) == []
    assert queue.head_wait_ms(199 * MS) == 199
    assert queue.take_late(215 * MS) == requests[:2]
    assert queue.head_wait_ms(215 * MS) == 65
    assert len(queue) == 1


def test_a_class_without_an_age_limit_waits_for_ever() -> None:
    queue = RequestQueue(QueueLimits(capacity=3))
    queue.put(waiting(0))
    assert queue.take_late(10**18) == []


@pytest.mark.parametrize(
    ("name", "capacity", "wait_ms"),
    [
        (RequestClass.SEND, 10_000, 200),
        (RequestClass.PULL, 100_000, 5000),
        (RequestClass.REPLY, 10_000, None),
        (RequestClass.QUERY, 20_000, None),
        (RequestClass.CLIENT_MANAGE, 1_000_000, None),
        (RequestClass.CONSUMER_MANAGE, 1_000_000, None),
        (RequestClass.HEARTBEAT, 50_000, 31_000),
        (RequestClass.END_TRANSACTION, 100_000, 3000),
    ],
)
def test_limits_are_those_of_rocketmq(
    name: RequestClass, capacity: int, wait_ms: int | None
) -> None:
    limits = make_limits(BrokerConfig(broker_name="a", listen_host="10.0.0.1"))[name]
    assert limits.capacity == capacity
    assert limits.wait_max_ns == (None if wait_ms is None else wait_ms * MS)


def test_fast_failure_can_be_switched_off() -> None:
    config = BrokerConfig(broker_name="a", listen_host="10.0.0.1", fast_failure=False)
    assert {limits.wait_max_ns for limits in make_limits(config).values()} == {None}


def test_send_backs_are_sends_and_unknown_codes_are_administration() -> None:
    assert CLASSES[36] is RequestClass.SEND
    assert 215 not in CLASSES
