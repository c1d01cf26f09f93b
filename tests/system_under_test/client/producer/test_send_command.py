from __future__ import annotations

import zlib

from staticfire.system_under_test.client.producer.send_command import (
    WireBody,
    send_command,
    wire_body,
)
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.compression import inflate_body
from staticfire.system_under_test.protocol.message import Message, decode_properties


def command(message: Message, **options: bool) -> RemotingCommand:
    body = WireBody(message.body, message.sys_flag)
    return send_command(message, body, group="p", queue_id=3, now_ms=5, **options)


def test_a_long_body_is_compressed_and_comes_out_as_it_was() -> None:
    message = Message(topic="t", body=b"ab" * 2048)
    body = wire_body(message, 4096)
    assert body.sys_flag == 0x301
    assert len(body.data) < 100
    assert inflate_body(Message("t", body.data, sys_flag=body.sys_flag)).body == message.body


def test_a_body_that_grows_stays_compressed() -> None:
    data = zlib.compress(bytes(range(256)) * 16, 9)
    assert wire_body(Message(topic="t", body=data), len(data)).sys_flag == 0x301


def test_a_short_body_goes_as_it_is() -> None:
    body = wire_body(Message(topic="t", body=b"x" * 4095), 4096)
    assert (body.data, body.sys_flag) == (b"x" * 4095, 0)


def test_a_retry_says_its_times_in_the_header_alone() -> None:
    properties = {"RECONSUME_TIME": "4", "MAX_RECONSUME_TIMES": "16", "KEYS": "k"}
    message = Message(topic="%RETRY%g", body=b"x", properties=properties)
    ext = command(message).ext_fields
    assert (ext["j"], ext["l"]) == ("4", "16")
    assert decode_properties(ext["i"]) == {"KEYS": "k"}
    assert message.properties == properties


def test_the_kind_of_message_decides_the_code() -> None:
    reply = Message(topic="c_REPLY_TOPIC", body=b"x", properties={"MSG_TYPE": "reply"})
    assert command(reply).code == RequestCode.SEND_REPLY_MESSAGE_V2
    assert command(Message("t", b"x")).code == RequestCode.SEND_MESSAGE_V2
    assert command(Message("t", b"x"), is_batch=True).code == RequestCode.SEND_BATCH_MESSAGE
