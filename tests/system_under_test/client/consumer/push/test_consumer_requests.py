"""The answers of a consumer to requests that brokers send for an administrator."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping

import pytest

from staticfire.system_under_test.client.consumer.consume_figures import ConsumeFigures
from staticfire.system_under_test.client.consumer.push.consumer_requests import ConsumerRequests
from staticfire.system_under_test.client.producer.send_command import ZLIB_FLAG
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_clients import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
)
from staticfire.system_under_test.protocol.bodies_queues import (
    ConsumerStatus,
    QueueOffsetForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.compression import COMPRESSED_FLAG
from staticfire.system_under_test.protocol.json_body import JsonBody
from staticfire.system_under_test.protocol.json_dialect import BodyError
from staticfire.system_under_test.protocol.message import Message, RecordError, encode_record
from tests.system_under_test.broker.bench import Peer
from tests.system_under_test.client.virtual_time import run
from tests.system_under_test.remoting.manual_loop import MemoryLog

QUEUE = MessageQueue("t", "a", 1)


class Consumer:
    """A consumer of group g that records the calls it gets, with a listener that gives `verdict`."""

    def __init__(self, verdict: bool | Exception = True, *, is_ordered: bool = False) -> None:
        self.group = "g"
        self.resets: list[dict[MessageQueue, int]] = []
        self.heard: list[tuple[str, MessageQueue]] = []
        self._verdict = verdict
        self.requests = ConsumerRequests(self, self._listen, MemoryLog(), is_ordered=is_ordered)

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        return {QUEUE: 5} if topic == "t" else {}

    def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.resets.append(dict(offsets))

    def running_info(self) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(properties={"a": "b"})

    async def _listen(self, messages: list[Message], queue: MessageQueue) -> bool:
        await asyncio.sleep(2)
        self.heard += [(message.body.decode(), queue) for message in messages]
        if isinstance(self._verdict, Exception):
            raise self._verdict
        return self._verdict

    def ask(
        self, code: RequestCode, ext: dict[str, str], body: bytes = b"", peer: Peer | None = None
    ) -> RemotingCommand | None:
        request = RemotingCommand.request(code, ext, body)
        return self.requests.handle((peer or Peer()).connection, request)

    async def consume(self, message: Message) -> ConsumeDirectlyResult:
        """Code 309, and what came of it."""
        peer = Peer()
        ext = {"consumerGroup": "g", "clientId": "c", "brokerName": "a"}
        assert self.ask(DIRECTLY, ext, bytes(encode_record(message)), peer) is None
        await asyncio.sleep(3)
        return ConsumeDirectlyResult.from_bytes(peer.take().body)


RESET = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
STATUS = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
DIRECTLY = RequestCode.CONSUME_MESSAGE_DIRECTLY


@pytest.mark.parametrize(
    "body",
    [
        ResetOffsetBody(offset_table={QUEUE: 3}),
        ResetOffsetBodyForC(
            offset_table=[QueueOffsetForC(topic="t", broker_name="a", queue_id=1, offset=3)]
        ),
    ],
    ids=["java", "cpp"],
)
def test_reset_in_both_forms(body: JsonBody) -> None:
    consumer = Consumer()
    ext = {"topic": "t", "group": "g", "timestamp": "-1", "isForce": "true"}
    assert consumer.ask(RESET, ext, body.encode()) is None
    assert consumer.resets == [{QUEUE: 3}]
    consumer.ask(RESET, {**ext, "group": "h"}, body.encode())
    assert len(consumer.resets) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"5", b'{"offsetTable":{"x":1}}'])
def test_reset_without_sense(body: bytes) -> None:
    consumer = Consumer()
    with pytest.raises(BodyError):
        consumer.ask(RESET, {"topic": "t", "group": "g", "timestamp": "-1"}, body)
    assert consumer.resets == []


def test_status_is_where_the_consumer_is() -> None:
    consumer = Consumer()
    for group, table in (("g", {QUEUE: 5}), ("h", {})):
        response = consumer.ask(STATUS, {"topic": "t", "group": group})
        assert response is not None
        assert ConsumerStatus.from_bytes(response.body).message_queue_table == table


def test_running_info_and_another_group() -> None:
    consumer = Consumer()
    response = consumer.ask(INFO, {"consumerGroup": "g", "clientId": "c"})
    assert response is not None
    assert ConsumerRunningInfo.from_bytes(response.body).properties == {"a": "b"}
    for code in (INFO, DIRECTLY):
        response = consumer.ask(code, {"consumerGroup": "h", "clientId": "c"})
        assert response is not None
        assert (response.code, response.remark) == (
            1,
            "The Consumer Group <h> not exist in this consumer",
        )


@pytest.mark.parametrize(
    ("verdict", "result", "remark"),
    [
        (True, "CR_SUCCESS", None),
        (False, "CR_LATER", None),
        (ValueError("no"), "CR_THROW_EXCEPTION", "ValueError('no')"),
    ],
)
def test_one_message_is_consumed(
    verdict: bool | Exception, result: str, remark: str | None
) -> None:
    consumer = Consumer(verdict)
    configured = run(consumer.consume(Message(topic="t", body=b"look", queue_id=1)))
    assert (configured.consume_result, configured.remark) == (result, remark)
    assert configured.spent_time_mills == 2000
    assert consumer.heard == [("look", QUEUE)]


def test_a_message_that_was_sent_back_has_its_topic_again() -> None:
    consumer = Consumer()
    message = Message(topic="%RETRY%g", body=b"again", properties={"RETRY_TOPIC": "t"})
    run(consumer.consume(message))
    assert consumer.heard == [("again", MessageQueue("t", "a", 0))]


def test_a_compressed_message_is_consumed_as_it_was_sent() -> None:
    body = b"x" * 5000
    message = Message("t", zlib.compress(body), queue_id=1, sys_flag=COMPRESSED_FLAG | ZLIB_FLAG)
    consumer = Consumer()
    run(consumer.consume(message))
    assert consumer.heard == [(body.decode(), QUEUE)]


@pytest.mark.parametrize("is_ordered", [False, True])
def test_the_answer_tells_whether_the_listener_is_for_messages_in_order(is_ordered: bool) -> None:
    result = run(Consumer(is_ordered=is_ordered).consume(Message("t", b"", queue_id=1)))
    assert (result.order, result.auto_commit) == (is_ordered, True)


def test_a_record_that_is_none() -> None:
    with pytest.raises(RecordError):
        Consumer().ask(DIRECTLY, {"consumerGroup": "g"}, b"not a record")


def test_other_requests_are_not_supported() -> None:
    response = Consumer().ask(RequestCode.SEND_MESSAGE, {})
    assert response is not None
    assert response.code == 3


def test_figures_of_the_last_minute_and_failures_of_the_last_hour() -> None:
    figures = ConsumeFigures()
    assert figures.status(0.0) == ConsumeStatus()
    figures.pulled(5.0, 30, 0.1)
    figures.pulled(6.0, 30, 0.3)
    figures.consumed(6.0, 54, 2.0, succeeded=True)
    figures.consumed(6.0, 6, 4.0, succeeded=False)
    status = figures.status(50.0)
    assert status.pull_tps == 1.0
    assert status.pull_rt == pytest.approx(200.0)
    assert (status.consume_ok_tps, status.consume_failed_tps) == (0.9, 0.1)
    assert (status.consume_rt, status.consume_failed_msgs) == (3000.0, 6)
    later = figures.status(70.0)
    assert (later.pull_tps, later.consume_failed_msgs) == (0.0, 6)
    assert figures.status(3700.0).consume_failed_msgs == 0
