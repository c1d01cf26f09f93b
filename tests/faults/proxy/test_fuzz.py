"""Whatever comes through, nothing is raised, and what cannot be read stays as it was."""

from __future__ import annotations

import struct
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.faults.proxy.rocketmq.bodies import rewrite_body
from staticfire.faults.proxy.rocketmq.frames import FrameSplitter
from staticfire.faults.proxy.rocketmq.identity import ClientIdentity
from staticfire.faults.proxy.rocketmq.messages import rewrite_records
from staticfire.faults.proxy.rocketmq.rewriting import BrokerRewriter, NameServerRewriter
from staticfire.system_under_test.protocol.message import Message, encode_record
from tests.faults.proxy.shifted_ports import ShiftedPorts

NAMES = st.sampled_from(
    [
        "brokerAddr",
        "haServerAddr",
        "brokerName",
        "brokerId",
        "masterAddr",
        "msgId",
        "offsetMsgId",
        "a",
    ]
)
ADDRESSES = st.sampled_from(
    ["h:1", "h:99999", "[::1]:5", "7F00000100002A9F0000000000000400", "", ":", "\ud7ff"]
)
VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | ADDRESSES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            NAMES | st.just("brokerAddrs") | st.just("filterServerTable"), inner, max_size=3
        )
        | st.dictionaries(st.sampled_from(["0", "1", "9" * 5000, "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
BODIES = st.binary(max_size=60) | VALUES.map(orjson.dumps)
CODES = st.sampled_from([0, 10, 11, 34, 39, 103, 105, 106, 309, 310, 326, 905])


@st.composite
def frames(draw: Any) -> bytes:
    kind = draw(st.sampled_from(["json", "fields", "binary", "bytes"]))
    if kind == "bytes":
        payload = draw(st.binary(min_size=4, max_size=80))
        return bytes(struct.pack(">i", len(payload)) + payload)
    if kind == "binary":
        header, serialize_type = draw(st.binary(max_size=60)), 1
    elif kind == "json":
        header, serialize_type = orjson.dumps(draw(VALUES)), 0
    else:
        ext = draw(st.dictionaries(NAMES, VALUES, max_size=5))
        fields = {"code": draw(CODES), "flag": draw(st.integers(0, 3)), "extFields": ext}
        header, serialize_type = orjson.dumps(fields), 0
    body = draw(BODIES)
    head = struct.pack(">ii", 4 + len(header) + len(body), serialize_type << 24 | len(header))
    return bytes(head + header + body)


@given(frames())
def test_any_frame(frame: bytes) -> None:
    for kind in (NameServerRewriter, BrokerRewriter):
        rewriter = kind(ShiftedPorts(), ClientIdentity(lambda: None))
        for rewritten in (rewriter.up(frame), rewriter.down(frame)):
            [piece] = FrameSplitter().feed(rewritten)  # it is still one frame
            assert piece.is_frame


@given(VALUES)
def test_any_document(document: object) -> None:
    rewrite_body(orjson.dumps(document), ShiftedPorts())


@pytest.mark.parametrize("depth", [90, 300, 1000])
def test_deep_documents(depth: int) -> None:
    rewrite_body(b"[" * depth + b'{"brokerAddr":"h:1"}' + b"]" * depth, ShiftedPorts())
    rewrite_body(b"[" * depth + b'{1:{"brokerAddr":"h:1"}}' + b"]" * depth, ShiftedPorts())


def test_broker_ids_that_are_none() -> None:
    for key in (b'"%s"' % (b"9" * 5000), b'"-1"', b'"x"'):
        rewritten = rewrite_body(b'{"brokerAddrs":{%s:"h:1",0:"h:2"}}' % key, ShiftedPorts())
        assert rewritten is not None
        assert b'0:"h:10002"' in rewritten


@given(st.data())
def test_damaged_records(data: Any) -> None:
    record = bytearray(encode_record(Message(topic="T", body=b"xyz", store_host=("10.0.0.1", 1))))
    for _ in range(data.draw(st.integers(1, 4))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    before = bytes(record)
    after = rewrite_records(before * 2, ShiftedPorts().store_host)
    assert after is None or len(after) == 2 * len(before)
