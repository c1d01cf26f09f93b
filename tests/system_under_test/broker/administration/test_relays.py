"""Requests that brokers relay to consumers: codes 222, 223, 307, 309."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.broker.clients import asked_clients
from staticfire.system_under_test.broker.metadata.topics import make_topic
from staticfire.system_under_test.protocol.bodies_queues import (
    ConsumerStatus,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from staticfire.system_under_test.protocol.codes import LanguageCode, RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import RemotingClosed, RemotingTimeout
from tests.system_under_test.broker.admin_language import consume, queue
from tests.system_under_test.broker.bench import Bench, Peer
from tests.system_under_test.client.virtual_time import in_virtual_time

RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
CONSUME = RequestCode.CONSUME_MESSAGE_DIRECTLY
INFO_EXT = {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "false"}


def reset_ext(timestamp: int = -1, *, force: bool = False) -> dict[str, str]:
    return {
        "topic": "t",
        "group": "g",
        "timestamp": str(timestamp),
        "isForce": "true" if force else "false",
    }


def fill(bench: Bench) -> int:
    """Five messages 10 s apart in a topic of one queue, of which the group has consumed three; the first time."""
    bench.topics.put(make_topic("t", 1))
    first_ms = bench.clock.now_ms
    for _ in range(5):
        bench.send("t")
        bench.clock.move(10)
    bench.offsets.commit("g", "t", 0, 3)
    return first_ms


def ask(bench: Bench, code: int, ext: dict[str, str], peer: Peer) -> RemotingCommand | None:
    request = RemotingCommand.request(code, ext)
    return bench.handlers[code](peer.connection, request)


# Reset


@pytest.mark.parametrize(
    ("seconds", "force", "target"),
    [(10, False, 1), (10, True, 1), (40, False, 3), (40, True, 4), (None, True, 5), (-99, True, 0)],
)
def test_reset_goes_back_and_forward_only_if_forced(
    bench: Bench, seconds: int | None, force: bool, target: int
) -> None:
    first_ms = fill(bench)
    consumer = consume(bench, "g", "t")
    timestamp = -1 if seconds is None else first_ms + seconds * 1000
    answer = bench.request(RESET, reset_ext(timestamp, force=force))
    assert ResetOffsetBody.from_bytes(answer.body).offset_table == {queue("t", 0): target}
    order = consumer.take()
    assert (order.code, order.is_oneway) == (220, True)
    assert order.ext_fields == reset_ext(timestamp, force=False)  # RocketMQ does not pass it on
    assert order.body == answer.body
    assert bench.offsets.query("g", "t", 0) == 3


def test_reset_for_cpp_is_a_list(bench: Bench) -> None:
    fill(bench)
    consumer = consume(bench, "g", "t")
    request = RemotingCommand.request(RESET, reset_ext())
    request.language = LanguageCode.CPP
    bench.handlers[RESET](Peer().connection, request)
    (target,) = ResetOffsetBodyForC.from_bytes(consumer.take().body).offset_table
    assert (target.topic, target.broker_name, target.queue_id, target.offset) == (
        "t",
        "broker-a",
        0,
        3,
    )


def test_reset_that_cannot_be(bench: Bench) -> None:
    answer = bench.request(RESET, reset_ext())
    assert (answer.code, "no topic in this broker" in (answer.remark or "")) == (1, True)
    bench.topics.put(make_topic("t", 1))
    answer = bench.request(RESET, reset_ext())
    assert (answer.code, answer.remark) == (1, "THe consumer group <g> not exist")
    bench.offsets.commit("g", "t", 0, 1)
    answer = bench.request(RESET, reset_ext())
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert (answer.remark or "").startswith("Consumer not online, so can not reset offset")


def test_clients_that_are_too_old(bench: Bench) -> None:
    fill(bench)
    consumer = consume(bench, "g", "t", version=27)
    for code, ext in ((RESET, reset_ext()), (STATUS, {"topic": "t", "group": "g"})):
        answer = bench.request(code, ext)
        assert (answer.code, consumer.sent) == (1, [])
        assert answer.remark == "the client does not support this feature. version=27"
    consume(bench, "g", "t", version=61)
    answer = bench.request(INFO, INFO_EXT)
    assert "too low to finish" in (answer.remark or "")


# Status


@in_virtual_time
async def test_status_of_all_members_that_answer(bench: Bench) -> None:
    admin, one, two = Peer(9), Peer(1), Peer(2)
    consume(bench, "g", "t", peer=one, client_id="c1")
    consume(bench, "g", "t", peer=two, client_id="c2")
    assert ask(bench, STATUS, {"topic": "t", "group": "g"}, admin) is None
    body = ConsumerStatus(message_queue_table={queue("t", 0): 4}).encode()
    command, timeout_s, answer = one.asked[0]
    assert (command.code, timeout_s) == (221, 5.0)
    answer.set_result(RemotingCommand.response(command, ResponseCode.SUCCESS, body=body))
    two.asked[0][2].set_exception(RemotingTimeout("no answer"))
    await settle()
    reported = ConsumerStatus.from_bytes(admin.take().body)
    assert reported.consumer_table == {"c1": {queue("t", 0): 4}}


@pytest.mark.parametrize("body", [b"nonsense", b""])
@in_virtual_time
async def test_status_of_one_member_that_answers_nonsense(bench: Bench, body: bytes) -> None:
    admin, one, two = Peer(9), Peer(1), Peer(2)
    consume(bench, "g", "t", peer=one, client_id="c1")
    consume(bench, "g", "t", peer=two, client_id="c2")
    ask(bench, STATUS, {"topic": "t", "group": "g", "clientAddr": "c2"}, admin)
    assert one.asked == []
    command, _, answer = two.asked[0]
    answer.set_result(RemotingCommand.response(command, ResponseCode.SUCCESS, body=body))
    await settle()
    assert ConsumerStatus.from_bytes(admin.take().body).consumer_table == {}


def test_status_of_absent_members(bench: Bench) -> None:
    answer = bench.request(STATUS, {"topic": "t", "group": "g"})
    assert (answer.code, answer.remark) == (1, "No Any Consumer online in the consumer group: [g]")
    consume(bench, "g", "t")
    admin = Peer(9)
    ask(bench, STATUS, {"topic": "t", "group": "g", "clientAddr": "other"}, admin)
    assert ConsumerStatus.from_bytes(admin.take().body).consumer_table == {}


# One client


@in_virtual_time
async def test_running_info_is_what_the_client_answers(bench: Bench) -> None:
    admin, consumer = Peer(9), Peer(1)
    consume(bench, "g", "t", peer=consumer)
    assert ask(bench, INFO, INFO_EXT, admin) is None
    command, timeout_s, answer = consumer.asked[0]
    assert (command.code, command.ext_fields, timeout_s) == (307, INFO_EXT, 10.0)
    reported = RemotingCommand.response(command, ResponseCode.SYSTEM_ERROR, "no", {}, b"{}")
    answer.set_result(reported)
    await settle()
    relayed = admin.take()
    assert (relayed.code, relayed.remark, relayed.body) == (1, "no", b"{}")


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (RemotingTimeout("late"), ResponseCode.CONSUME_MSG_TIMEOUT, "consumer <g> <c1> Timeout: "),
        (RemotingClosed("gone"), ResponseCode.SYSTEM_ERROR, "invoke consumer <g> <c1> Exception: "),
    ],
)
@in_virtual_time
async def test_a_client_that_does_not_answer(
    bench: Bench, error: Exception, code: ResponseCode, remark: str
) -> None:
    admin, consumer = Peer(9), Peer(1)
    consume(bench, "g", "t", peer=consumer)
    ask(bench, INFO, INFO_EXT, admin)
    consumer.asked[0][2].set_exception(error)
    await settle()
    answer = admin.take()
    assert (answer.code, (answer.remark or "").startswith(remark)) == (code, True)


def test_a_client_that_is_not_there(bench: Bench) -> None:
    for _ in range(2):
        answer = bench.request(INFO, INFO_EXT)
        assert (answer.code, answer.remark) == (1, "The Consumer <g> <c1> not online")
        consume(bench, "g", "t", client_id="another")


@in_virtual_time
async def test_a_message_is_consumed_directly(bench: Bench) -> None:
    message_id = bench.send("t", body=b"look").ext_fields["msgId"]
    admin, consumer = Peer(9), Peer(1)
    consume(bench, "g", "t", peer=consumer)
    ext = {"consumerGroup": "g", "clientId": "c1", "msgId": message_id}
    assert ask(bench, CONSUME, ext, admin) is None
    command = consumer.asked[0][0]
    assert (command.code, command.ext_fields["brokerName"]) == (309, "broker-a")
    assert b"look" in command.body


@pytest.mark.parametrize(
    ("message_id", "remark"),
    [
        (None, "msgId is None, not an offset message id"),
        ("xyz", "msgId is 'xyz'"),
        ("0A00000100002A9F0000000000000FFF", "can not find message by the offset, 4095"),
    ],
)
def test_a_message_that_is_not_there(bench: Bench, message_id: str | None, remark: str) -> None:
    consume(bench, "g", "t")
    ext = {"consumerGroup": "g", "clientId": "c1"}
    answer = bench.request(CONSUME, ext if message_id is None else {**ext, "msgId": message_id})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert remark in (answer.remark or "")


async def settle() -> None:
    """Let the callbacks of answers run."""
    for _ in range(3):
        await asyncio.sleep(0)


@in_virtual_time
async def test_what_waits_for_clients_is_bounded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked_clients, "REQUESTS_MAX", 2)
    consumer = consume(bench, "g", "t")
    peer = Peer(key=7)
    for _ in range(2):
        assert ask(bench, INFO, INFO_EXT, peer) is None
    for code in (INFO, STATUS):
        refused = ask(bench, code, INFO_EXT | reset_ext(), peer)
        assert refused is not None
        assert refused.code == ResponseCode.SYSTEM_BUSY
    order, _, answer = consumer.asked[0]
    answer.set_result(RemotingCommand.response(order, 0))
    await settle()
    assert ask(bench, INFO, INFO_EXT, peer) is None
