"""Frames of name servers and brokers, as they leave the proxy."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.faults.proxy.rocketmq.identity import ClientIdentity
from staticfire.faults.proxy.rocketmq.rewriting import BrokerRewriter, NameServerRewriter
from staticfire.system_under_test.protocol.bodies import HeartbeatData
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import (
    JSON,
    ROCKETMQ,
    RemotingCommand,
    decode_command,
)
from staticfire.system_under_test.protocol.json_dialect import dumps, loads
from staticfire.system_under_test.protocol.message import (
    Message,
    decode_record,
    encode_record,
    offset_message_id,
)
from tests.faults.proxy.shifted_ports import ShiftedPorts

HERE, THERE = "127.0.0.1:10911", "127.0.0.1:20911"
FOR_ALL_CLIENTS = "127.0.0.1:25911"
BROKER = {"brokerName": "a", "brokerId": "1", "clusterName": "C", "brokerAddr": HERE}
RECORD = bytes(encode_record(Message(topic="T", body=b"x", store_host=("127.0.0.1", 10911))))


class Rewritten:
    """A rewriter, and what it said of its client."""

    def __init__(self, kind: type[NameServerRewriter] | type[BrokerRewriter]) -> None:
        self.translator = ShiftedPorts()
        self.client = ClientIdentity(lambda: None)
        self._rewriter = kind(self.translator, self.client)

    def up(self, command: RemotingCommand) -> RemotingCommand:
        return decode_command(self._rewriter.up(command.encode())[4:])

    def down(self, command: RemotingCommand) -> RemotingCommand:
        return decode_command(self._rewriter.down(command.encode())[4:])

    def leaves(self, frame: bytes) -> bool:
        return self._rewriter.up(frame) == self._rewriter.down(frame) == frame


def command(code: int, **values: Any) -> RemotingCommand:
    return RemotingCommand(
        code, values.pop("ext", None), values.pop("body", b""), opaque=77, **values
    )


def response(code: int = ResponseCode.SUCCESS, **values: Any) -> RemotingCommand:
    return command(code, flag=1, **values)


def shown(found: RemotingCommand) -> dict[str, Any]:
    return {name: getattr(found, name) for name in RemotingCommand.__slots__}


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_a_registration(serialize_type: int) -> None:
    """Everything but the two addresses is the broker's own, its check sum included."""
    ext = {**BROKER, "haServerAddr": "127.0.0.1:10912", "bodyCrc32": "7"}
    sent = command(RequestCode.REGISTER_BROKER, ext=ext, body=b"{}", serialize_type=serialize_type)
    rewritten = Rewritten(NameServerRewriter)
    found = rewritten.up(sent)
    expected = {
        **shown(sent),
        "ext_fields": {**ext, "brokerAddr": FOR_ALL_CLIENTS, "haServerAddr": "127.0.0.1:35912"},
    }
    assert shown(found) == expected
    assert rewritten.client.names == ("a-1",)
    assert rewritten.translator.named == {HERE: "a-1", "127.0.0.1:10912": "a-1"}


@pytest.mark.parametrize(
    "code", [RequestCode.UNREGISTER_BROKER, RequestCode.QUERY_DATA_VERSION, 904]
)
def test_what_else_brokers_say_of_themselves(code: int) -> None:
    assert (
        Rewritten(NameServerRewriter).up(command(code, ext=dict(BROKER))).ext_fields["brokerAddr"]
        == FOR_ALL_CLIENTS
    )


def test_a_slave_gets_the_address_of_the_proxy_in_place_of_its_master() -> None:
    rewritten = Rewritten(NameServerRewriter)
    rewritten.up(command(RequestCode.REGISTER_BROKER, ext=dict(BROKER)))
    found = rewritten.down(response(ext={"masterAddr": HERE, "haServerAddr": "127.0.0.1:10912"}))
    assert found.ext_fields == {"masterAddr": THERE, "haServerAddr": "127.0.0.1:30912"}
    assert rewritten.translator.named["127.0.0.1:10912"] == "a-0"


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_a_route(serialize_type: int) -> None:
    body = b'{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"a"}]}'
    sent = response(body=body, serialize_type=serialize_type, remark="r")
    found = Rewritten(NameServerRewriter).down(sent)
    assert shown(found) == {**shown(sent), "body": body.replace(b"10911", b"20911")}


@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.FLUSH_SLAVE_TIMEOUT])
def test_the_answer_to_a_send(code: int) -> None:
    ids = ",".join(offset_message_id("127.0.0.1", 10911, offset) for offset in (0, 99))
    found = Rewritten(BrokerRewriter).down(response(code, ext={"msgId": ids, "queueOffset": "3"}))
    assert found.ext_fields == {
        "msgId": ",".join(offset_message_id("127.0.0.1", 20911, offset) for offset in (0, 99)),
        "queueOffset": "3",
    }


def test_pulled_messages() -> None:
    found = Rewritten(BrokerRewriter).down(response(ext={"nextBeginOffset": "2"}, body=RECORD * 2))
    assert len(found.body) == 2 * len(RECORD)
    assert decode_record(found.body, len(RECORD)).store_host == ("127.0.0.1", 20911)


def test_the_check_of_a_transaction() -> None:
    """msgId is the client's own id here; offsetMsgId holds the address."""
    own = offset_message_id("127.0.0.1", 10911, 5)
    ext = {"msgId": own, "offsetMsgId": own}
    found = Rewritten(BrokerRewriter).down(
        command(RequestCode.CHECK_TRANSACTION_STATE, ext=ext, body=RECORD)
    )
    assert found.ext_fields["msgId"] == own
    assert found.ext_fields["offsetMsgId"] == offset_message_id("127.0.0.1", 20911, 5)
    assert decode_record(found.body).store_host == ("127.0.0.1", 20911)


def test_a_reply_keeps_its_body_whatever_it_looks_like() -> None:
    body = b'{"brokerAddr":"127.0.0.1:10911"}'
    sent = command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext={"storeHost": HERE}, body=body)
    found = Rewritten(BrokerRewriter).down(sent)
    assert (found.ext_fields["storeHost"], found.body) == (THERE, body)


def test_topics_of_a_broker() -> None:
    body = dumps({"brokerAddr": HERE, "topicList": []})
    assert loads(Rewritten(BrokerRewriter).down(response(body=body)).body)["brokerAddr"] == THERE


def test_requests_tell_who_the_client_is() -> None:
    rewritten = Rewritten(BrokerRewriter)
    rewritten.up(command(RequestCode.SEND_MESSAGE_V2, ext={"a": "senders"}, body=b"x"))
    assert list(rewritten.client.groups) == ["senders"]
    data = HeartbeatData(client_id="10.0.0.9@1", producer_groups=["senders"])
    rewritten.up(command(RequestCode.HEART_BEAT, body=dumps(data.to_json())))
    assert rewritten.client.name == "10.0.0.9@1"


@pytest.mark.parametrize(
    "frame",
    [
        command(RequestCode.SEND_MESSAGE_V2, ext={"b": "T"}, body=RECORD).encode(),
        command(RequestCode.CONSUMER_SEND_MSG_BACK, ext={"originMsgId": "7F00" * 8}).encode(),
        response(ext={"msgId": "0"}).encode(),
        response(ResponseCode.TOPIC_NOT_EXIST, remark="no").encode(),
        b"\x00\x00\x00\x04\x07\x00\x00\x00",  # an unknown kind of header
        b"\x00\x00\x00\x06\x00\x00\x00\x02{]",
    ],
)
def test_everything_else_stays_byte_for_byte(frame: bytes) -> None:
    assert Rewritten(BrokerRewriter).leaves(frame)
    assert Rewritten(NameServerRewriter).leaves(frame)


def test_an_unknown_language_stays_where_nothing_is_rewritten() -> None:
    header = b'{"code":105,"language":"KLINGON","opaque":7,"version":9}\n'
    size = len(header)
    frame = (4 + size).to_bytes(4, "big") + size.to_bytes(4, "big") + header
    assert Rewritten(NameServerRewriter).leaves(frame)
