"""Requests whose send fails: a reply that came before counts, as in RocketMQ (DefaultMQProducerImpl.waitResponse)."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from staticfire.system_under_test.client.producer.request_reply import Requests, reply_message
from staticfire.system_under_test.client.producer.send_result import SendFailed, SendResult
from staticfire.system_under_test.client.producer.sender import Sender
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import ReplyMessageHeader
from staticfire.system_under_test.protocol.message import Message, encode_properties


class RefusedSender:
    """A broker stores the message and refuses it late; a consumer may have replied by then."""

    def __init__(self, *, replies: bool) -> None:
        self.replies = replies
        self.requests: Requests | None = None

    def identify(self, message: Message) -> None:
        pass

    def begin(self, timeout_s: float) -> None:
        pass

    async def send(self, message: Message, _queue: None, _progress: None) -> SendResult:
        assert self.requests is not None
        if self.replies:
            self.requests.replied(reply_to(message))
        raise SendFailed("busy", definite=False, code=2, attempts=1)


def reply_to(message: Message) -> RemotingCommand:
    header = ReplyMessageHeader(
        producer_group="p",
        topic="r",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        born_host="10.0.0.1:1",
        store_host="10.0.0.2:2",
        store_timestamp=2,
        properties=encode_properties(message.properties).decode(),
    )
    code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    return RemotingCommand.request(code, header.to_ext(), b"re")


def requests(*, replies: bool) -> Requests:
    client = SimpleNamespace(env=SimpleNamespace(random=Random(1)), client_id="c")
    sender = RefusedSender(replies=replies)
    sender.requests = Requests(cast(ClientInstance, client), cast(Sender, sender))
    return sender.requests


def test_a_reply_counts_though_the_request_was_refused_later() -> None:
    reply = asyncio.run(requests(replies=True).ask(Message(topic="t", body=b"q"), 3.0))
    assert (reply.message.body, reply.sent) == (b"re", None)


def test_a_request_that_was_refused_and_not_answered_has_failed() -> None:
    with pytest.raises(SendFailed, match="busy"):
        asyncio.run(requests(replies=False).ask(Message(topic="t", body=b"q"), 3.0))


def test_a_reply_has_the_properties_of_its_listener_and_those_that_lead_it_back() -> None:
    leading = {"CORRELATION_ID": "c", "REPLY_TO_CLIENT": "10.0.0.1@p", "TTL": "5000"}
    request = Message(topic="t", body=b"", properties={**leading, "CLUSTER": "C", "KEYS": "k"})
    listeners = {"TAGS": "x", "a": "1", "REPLY_TO_CLIENT": "another"}
    reply = reply_message(request, b"re", listeners)
    assert reply.properties == {**listeners, **leading, "MSG_TYPE": "reply"}
    assert reply_message(request, b"re").properties == {**leading, "MSG_TYPE": "reply"}
