"""Calls of a listener for one queue: what its answers do, and what happens when a message cannot be sent back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from staticfire.system_under_test.client.consumer.consume_figures import ConsumeFigures
from staticfire.system_under_test.client.consumer.consumption import ConsumerParts
from staticfire.system_under_test.client.consumer.push.consumer_parts import listening_consumer
from staticfire.system_under_test.client.consumer.queue_puller import FlowLimits
from staticfire.system_under_test.client.consumer.subscription import Subscription
from staticfire.system_under_test.client.listening import ConsumeResult
from staticfire.system_under_test.client.offsets.offset_store import OffsetStore
from staticfire.system_under_test.client.offsets.queue_bounds import ConsumeFrom
from staticfire.system_under_test.client.producer.send_back import SendBack, SentBack, retry_copy
from staticfire.system_under_test.client.producer.sender import Sender, SendOptions
from staticfire.system_under_test.client.routing.routes import broker_routes
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode, SendStatus
from staticfire.system_under_test.protocol.message import Message, decode_properties
from tests.system_under_test.client.consumer.test_queue_consumer import (
    FakeQueue,
    broker,
    make_client,
)
from tests.system_under_test.client.producer.test_producer import STORED
from tests.system_under_test.client.scripted_remoting import (
    ScriptedRemoting,
    answer_code,
    by_code,
    route_of,
    stay_silent,
)
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s, run

QUEUE = MessageQueue("t", "a", 0)
Answer = Callable[[list[int]], Awaitable[bool | ConsumeResult]]


class Calls:
    """Ten messages at a broker, a listener, and what is sent back."""

    def __init__(self, remoting: ScriptedRemoting, answer: Answer, **options: Any) -> None:
        self.seen: list[list[int]] = []
        self.sent_back: list[tuple[int, int]] = []  # offset, delay level
        self.takes_back = True
        self._answer = answer
        remoting.scripts["a:0"] = broker(FakeQueue(10).pull)
        client = make_client()
        client.routes.update("t", broker_routes(route_of("a")), now_s())
        parts = ConsumerParts(
            client=client,
            group="g",
            subscription=Subscription("t", "*", version_ms=1),
            offsets=OffsetStore(client, "g"),
            listener=self._listen,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            pull_batch=32,
            limits=FlowLimits(),
            figures=ConsumeFigures(),
            send_back=self._send_back,
            **{"consume_batch": 5, **options},
        )
        self.queue = listening_consumer(parts, QUEUE)
        self.queue.start()

    async def _listen(self, batch: list[Message], _: MessageQueue) -> bool | ConsumeResult:
        offsets = [message.queue_offset for message in batch]
        self.seen.append(offsets)
        return await self._answer(offsets)

    async def _send_back(self, message: Message, queue: MessageQueue, delay_level: int) -> bool:
        assert queue == QUEUE
        self.sent_back.append((message.queue_offset, delay_level))
        return self.takes_back


def play(
    remoting: ScriptedRemoting,
    answer: Answer,
    story: Callable[[Calls], Awaitable[None]],
    **options: Any,
) -> None:
    async def main() -> None:
        await story(Calls(remoting, answer, **options))

    run(main())


def test_what_a_listener_acknowledges_counts_and_the_rest_is_sent_back(
    remoting: ScriptedRemoting,
) -> None:
    async def answer(offsets: list[int]) -> ConsumeResult:
        return ConsumeResult(succeeded=True, acknowledged=3, delay_level=7)

    async def story(calls: Calls) -> None:
        await asyncio.sleep(1)
        assert calls.sent_back == [(3, 7), (4, 7), (8, 7), (9, 7)]
        assert calls.queue.commit_offset == 10

    play(remoting, answer, story)


def test_what_no_broker_takes_back_is_tried_again_here_after_five_seconds(
    remoting: ScriptedRemoting,
) -> None:
    async def answer(offsets: list[int]) -> bool:
        return now_s() > 8.0

    async def story(calls: Calls) -> None:
        calls.takes_back = False
        await asyncio.sleep(4.5)
        assert calls.seen == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
        assert calls.queue.commit_offset == 0
        await asyncio.sleep(5.0)
        assert calls.seen[2:] == calls.seen[:2]
        assert calls.queue.commit_offset == 0
        await asyncio.sleep(1.0)
        assert calls.queue.commit_offset == 10

    play(remoting, answer, story)


def test_what_is_tried_again_here_shares_no_call_with_fresh_messages(
    remoting: ScriptedRemoting,
) -> None:
    async def answer(offsets: list[int]) -> bool:
        await asyncio.sleep(3.0)
        return offsets[0] != 0 or now_s() > 8.0

    async def story(calls: Calls) -> None:
        calls.takes_back = False
        await asyncio.sleep(40.0)
        # At 8 s the call for 4 and 5 is under way, and 6 to 9 have not been begun.
        assert calls.seen == [[0, 1], [2, 3], [4, 5], [0, 1], [6, 7], [8, 9]]
        assert calls.queue.commit_offset == 10

    play(remoting, answer, story, calls_max=1, consume_batch=2)


@pytest.mark.parametrize(("calls_max", "together"), [(1, 1), (4, 4)])
def test_calls_at_the_same_time(remoting: ScriptedRemoting, calls_max: int, together: int) -> None:
    running: list[int] = []
    most = 0

    async def answer(offsets: list[int]) -> bool:
        nonlocal most
        running.append(offsets[0])
        most = max(most, len(running))
        await asyncio.sleep(0.1)
        running.remove(offsets[0])
        return True

    async def story(calls: Calls) -> None:
        await asyncio.sleep(3)
        assert calls.queue.commit_offset == 10
        assert most == together

    play(remoting, answer, story, calls_max=calls_max, consume_batch=1)


def test_what_takes_too_long_is_sent_back_from_the_front_and_may_end_late(
    remoting: ScriptedRemoting,
) -> None:
    async def answer(offsets: list[int]) -> bool:
        await asyncio.sleep(50.0 if offsets[0] == 0 else 0.0)
        return True

    async def story(calls: Calls) -> None:
        await asyncio.sleep(29.0)
        calls.queue.expire()
        await asyncio.sleep(2.0)
        assert calls.sent_back == []
        calls.queue.expire()
        await asyncio.sleep(1.0)
        assert calls.sent_back == [(0, 3)]
        assert calls.queue.commit_offset == 10
        await asyncio.sleep(30.0)
        assert calls.queue.commit_offset == 10

    play(remoting, answer, story, calls_max=2, consume_batch=1, consume_timeout_s=30.0)


def test_in_order_only_the_head_becomes_a_dead_letter(remoting: ScriptedRemoting) -> None:
    async def answer(offsets: list[int]) -> bool:
        return 2 not in offsets

    async def story(calls: Calls) -> None:
        await asyncio.sleep(10.0)
        assert calls.seen[:6] == [[0], [1], [2], [2], [2], [3]]
        assert calls.sent_back == [(2, 0)]
        assert calls.queue.commit_offset == 10

    play(remoting, answer, story, is_ordered=True, consume_batch=1, reconsume_times_max=2)


def test_in_order_the_listener_gets_nothing_that_another_member_may_own(
    remoting: ScriptedRemoting,
) -> None:
    async def answer(offsets: list[int]) -> bool:
        return True

    async def story(calls: Calls) -> None:
        await asyncio.sleep(10.0)
        assert calls.seen == []

    play(remoting, answer, story, is_ordered=True, may_consume=lambda _: False)


# Sending back


def sent_message() -> Message:
    properties = {"KEYS": "k", "TRAN_MSG": "true", "CONSUME_START_TIME": "5", "UNIQ_KEY": "U"}
    return Message("t", b"body", properties, physical_offset=77, reconsume_times=4, flag=9)


def test_the_copy_for_the_retry_topic_says_where_it_comes_from() -> None:
    copy = retry_copy(sent_message(), "g", 16)
    assert (copy.topic, copy.body, copy.flag) == ("%RETRY%g", b"body", 9)
    assert copy.properties == {
        "KEYS": "k",
        "UNIQ_KEY": "U",
        "RETRY_TOPIC": "t",
        "ORIGIN_MESSAGE_ID": "U",
        "RECONSUME_TIME": "5",
        "MAX_RECONSUME_TIMES": "17",  # reached by the 17th redelivery, which there is not
        "DELAY": "7",
    }


def test_a_copy_of_a_retry_waits_for_the_flush_as_it_would_for_that_of_a_new_message() -> None:
    taken_back_before = sent_message()
    taken_back_before.properties["WAIT"] = "false"

    assert "WAIT" not in retry_copy(taken_back_before, "g", 16).properties


@pytest.mark.parametrize(
    ("holder", "copies", "outcome"),
    [
        (answer_code(ResponseCode.SUCCESS), 0, SentBack(SendStatus.SEND_OK, False, True, None)),
        (
            answer_code(ResponseCode.SUCCESS, sendStatus="SLAVE_NOT_AVAILABLE"),
            0,
            SentBack(SendStatus.SLAVE_NOT_AVAILABLE, False, True, None),
        ),
        (
            answer_code(ResponseCode.SYSTEM_ERROR),
            1,
            SentBack(SendStatus.SEND_OK, True, True, ResponseCode.SYSTEM_ERROR, attempts=1),
        ),
        (
            answer_code(ResponseCode.SYSTEM_ERROR, sendStatus="FLUSH_SLAVE_TIMEOUT"),
            1,
            SentBack(SendStatus.SEND_OK, True, True, ResponseCode.FLUSH_SLAVE_TIMEOUT, attempts=1),
        ),
        (stay_silent, 1, SentBack(SendStatus.SEND_OK, True, True, None, attempts=1)),
    ],
)
@in_virtual_time
async def test_only_a_success_of_the_holder_is_one(
    remoting: ScriptedRemoting, holder: Any, copies: int, outcome: SentBack
) -> None:
    client = make_client()
    client.routes.update("t", broker_routes(route_of("a")), now_s())
    client.routes.update("%RETRY%g", broker_routes(route_of("a")), now_s())
    reported: list[SentBack] = []
    remoting.scripts["a:0"] = by_code(c36=holder, c310=STORED, other=answer_code(0))
    send_back = SendBack(
        client,
        "g",
        Sender(client, SendOptions(group="inner")),
        reconsume_times_max=16,
        on_sent=lambda _message, _queue, outcome: reported.append(outcome),
    )
    assert await send_back(sent_message(), QUEUE, 0)
    assert reported == [outcome]
    (call,) = remoting.calls_to("a:0", RequestCode.CONSUMER_SEND_MSG_BACK)
    assert call.command.ext_fields["offset"] == "77"
    assert call.command.ext_fields["maxReconsumeTimes"] == "16"
    sends = remoting.calls_to("a:0", RequestCode.SEND_MESSAGE_V2)
    assert len(sends) == copies
    for send in sends:
        assert (send.command.ext_fields["j"], send.command.ext_fields["l"]) == ("5", "17")
        assert decode_properties(send.command.ext_fields["i"])["RETRY_TOPIC"] == "t"
