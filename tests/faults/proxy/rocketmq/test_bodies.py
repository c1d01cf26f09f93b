"""Routes: the addresses change, and nothing else does; each kind of JSON stays what it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.faults.proxy.rocketmq.bodies import rewrite_body
from staticfire.system_under_test.protocol.bodies import BrokerData, QueueData, TopicRouteData
from staticfire.system_under_test.protocol.json_dialect import dumps, loads
from staticfire.system_under_test.protocol.json_writer import (
    dumps_browser_compatible,
    dumps_fastjson,
)
from tests.faults.proxy.shifted_ports import ShiftedPorts


def route(*addresses: str) -> dict[str, Any]:
    return TopicRouteData(
        queue_datas=[QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6)],
        broker_datas=[
            BrokerData(cluster="C/ü", broker_name="a", broker_addrs=dict(enumerate(addresses)))
        ],
    ).to_json()


def rewritten(body: bytes) -> bytes:
    found = rewrite_body(body, ShiftedPorts())
    assert found is not None
    return found


@pytest.mark.parametrize("write", [dumps, dumps_fastjson, dumps_browser_compatible])
def test_the_addresses_of_a_route(write: Any) -> None:
    body = write(route("10.0.0.1:10911", "[::1]:10921"))
    expected = write(route("10.0.0.1:20911", "[::1]:20921"))
    assert loads(rewritten(body)) == loads(expected)


def test_the_dialect_stays_byte_for_byte() -> None:
    """Old clients take routes apart by hand."""
    body = dumps_fastjson(route("10.0.0.1:10911", "10.0.0.2:10911"))
    assert b'{0:"10.0.0.1:10911"' in body
    assert rewritten(body) == body.replace(b":10911", b":20911")


def test_standard_json_stays_standard() -> None:
    body = json.dumps({"brokerDatas": [{"brokerAddrs": {"0": "h:1"}}], "later": [1.5, None, True]})
    assert json.loads(rewritten(body.encode())) == {
        "brokerDatas": [{"brokerAddrs": {"0": "h:10001"}}],
        "later": [1.5, None, True],
    }


def test_brokers_get_their_names() -> None:
    translator = ShiftedPorts()
    rewrite_body(dumps(route("h:1", "h:2")), translator)
    assert translator.named == {"h:1": "a-0", "h:2": "a-1"}


def test_a_cluster() -> None:
    """The answer to 106: a table of brokers by name."""
    body = (
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"a","cluster":"C"}},'
        b'"clusterAddrTable":{"C":["a"]}}'
    )
    assert rewritten(body) == body.replace(b"h:1", b"h:10001").replace(b"h:2", b"h:10002")


def test_references_are_written_out() -> None:
    body = b'{"brokerDatas":[{"brokerAddrs":{0:"h:1"}},{"brokerAddrs":{"$ref":"$.brokerDatas[0].brokerAddrs"}}]}'
    assert rewritten(body) == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"h:10001"}},{"brokerAddrs":{0:"h:10001"}}]}'
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"brokerAddr":"h:1","topicList":["T"]}', b'{"brokerAddr":"h:10001","topicList":["T"]}'),
        (
            b'{"filterServerTable":{"h:1":["f:1"]},"brokerDatas":[]}',
            b'{"filterServerTable":{"h:10001":["f:1"]},"brokerDatas":[]}',
        ),
        (
            b'{"brokerMemberGroup":{"brokerAddrs":{"0":"h:1"}}}',  # 5.x, code 901
            b'{"brokerMemberGroup":{"brokerAddrs":{"0":"h:10001"}}}',
        ),
    ],
)
def test_other_bodies_with_addresses(body: bytes, expected: bytes) -> None:
    assert rewritten(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"table":{"a":"h:1"}}',
        b'{"brokerAddrs":{"0":"no address","1":5}}',
        b'{"brokerAddrs":["h:1"]}',
        b'{"brokerAddr":null}',
        b'{"brokerAddrs":{"0":"h:1"',
        b'\xff"brokerAddr"',
        b'{"text":"\\"brokerAddrs\\":{\\"0\\":\\"h:1\\"}"}',
    ],
)
def test_everything_else_stays(body: bytes) -> None:
    assert rewrite_body(body, ShiftedPorts()) is None


NAMES = st.text(alphabet='ab"{}:\\ é', max_size=6)
ADDRESSES = st.integers(1, 9999).map("h:{}".format)


@given(NAMES, st.dictionaries(st.integers(0, 9), ADDRESSES, min_size=1, max_size=3))
def test_whatever_the_names_are(name: str, addresses: dict[int, str]) -> None:
    document = {
        "brokerDatas": [{"brokerAddrs": addresses, "brokerName": name, "cluster": name}],
        "orderTopicConf": name,
    }
    for write in (dumps, dumps_fastjson):
        found = loads(rewritten(write(document)))
        [broker] = found["brokerDatas"]
        assert (broker["brokerName"], broker["cluster"], found["orderTopicConf"]) == (name,) * 3
        assert broker["brokerAddrs"] == {
            str(key): f"h:{int(address[2:]) + 10000}" for key, address in addresses.items()
        }
