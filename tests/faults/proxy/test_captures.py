"""The recorded sessions of real clients with a real RocketMQ, as they would have come out of the proxy."""

from __future__ import annotations

import struct

import pytest

from staticfire.faults.proxy.rocketmq.identity import ClientIdentity
from staticfire.faults.proxy.rocketmq.rewriting import BrokerRewriter, NameServerRewriter
from staticfire.system_under_test.protocol.command import decode_command
from staticfire.system_under_test.protocol.json_dialect import loads
from staticfire.system_under_test.protocol.message import parse_offset_message_id
from tests.faults.proxy.shifted_ports import SHIFT, ShiftedPorts
from tests.support.capture_replay import CAPTURES, Frame, read_capture

# One session was not recorded by a proxy and has no headers as they were sent.
NAMES = sorted(path.stem for path in CAPTURES.glob("*.jsonl") if read_capture(path.stem))
NAME_SERVER = "ns"
REAL_PORTS = (20911, 21911)


def encoded(frame: Frame) -> bytes:
    size = len(frame.raw_head)
    return struct.pack(">ii", 4 + size + len(frame.body), size) + frame.raw_head + frame.body


def frames(name: str, *, to_name_server: bool) -> list[Frame]:
    return [
        frame
        for frame in read_capture(name)
        if (frame.conversation[0] == NAME_SERVER) is to_name_server
    ]


@pytest.mark.parametrize("name", NAMES)
def test_no_address_of_a_broker_gets_past(name: str) -> None:
    rewriter = NameServerRewriter(ShiftedPorts(), ClientIdentity(lambda: None))
    routes = 0
    for frame in frames(name, to_name_server=True):
        before = encoded(frame)
        if frame.from_client:
            assert rewriter.up(before) == before
            continue
        after = rewriter.down(before)
        for port in REAL_PORTS:
            assert before.count(b":%d" % port) == after.count(b":%d" % (port + SHIFT))
            assert b":%d" % port not in after
        routes += after != before
        if after != before:  # byte for byte, integer keys without quotes included
            assert after.replace(b":30911", b":20911").replace(b":31911", b":21911") == before
    assert routes


@pytest.mark.parametrize("name", NAMES)
def test_brokers_and_clients_are_known_by_what_they_say(name: str) -> None:
    translator, client = ShiftedPorts(), ClientIdentity(lambda: None)
    name_server = NameServerRewriter(translator, client)
    for frame in frames(name, to_name_server=True):
        if not frame.from_client:
            name_server.down(encoded(frame))
    assert translator.named == {
        "127.0.0.1:20911": "broker-a-0",
        "127.0.0.1:21911": "broker-a-1",
    }
    assert client.names == ()  # name servers do not learn it
    broker = BrokerRewriter(translator, client)
    for frame in frames(name, to_name_server=False):
        if frame.from_client:
            assert broker.up(encoded(frame)) == encoded(frame)
    heartbeats = [frame for frame in frames(name, to_name_server=False) if frame.head["code"] == 34]
    said = [loads(frame.body)["clientID"] for frame in heartbeats if frame.from_client]
    assert client.name == (said[-1] if said else "")
    assert client.groups


@pytest.mark.parametrize("name", NAMES)
def test_ids_lead_through_the_proxy(name: str) -> None:
    rewriter = BrokerRewriter(ShiftedPorts(), ClientIdentity(lambda: None))
    for frame in frames(name, to_name_server=False):
        if frame.from_client or len(frame.body) < frame.body_size:
            continue
        before = decode_command(encoded(frame)[4:])
        after = decode_command(rewriter.down(encoded(frame))[4:])
        field = "msgId" if before.is_response else "offsetMsgId"
        if field in before.ext_fields:
            ids = before.ext_fields.pop(field).split(",")  # several after a batch
            for one, found in zip(ids, after.ext_fields.pop(field).split(","), strict=True):
                host, port, offset = parse_offset_message_id(one)
                assert parse_offset_message_id(found) == (host, port + SHIFT, offset)
        assert after.ext_fields == before.ext_fields
        assert (after.code, after.opaque, after.flag) == (before.code, before.opaque, before.flag)
