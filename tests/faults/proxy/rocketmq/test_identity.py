"""The identity of a client, from the requests that it sends to brokers."""

from __future__ import annotations

import pytest

from staticfire.faults.proxy.rocketmq.identity import GROUP_FIELDS, ClientIdentity
from staticfire.system_under_test.protocol.bodies import ConsumerData, HeartbeatData
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.json_dialect import dumps


class Watched(ClientIdentity):
    def __init__(self) -> None:
        super().__init__(self._changed)
        self.changes = 0

    def _changed(self) -> None:
        self.changes += 1


def heartbeat(client_id: str, *producers: str, consumers: tuple[str, ...] = ()) -> RemotingCommand:
    data = HeartbeatData(
        client_id=client_id,
        producer_groups=list(producers),
        consumers=[ConsumerData(group_name=name) for name in consumers],
    )
    return RemotingCommand(RequestCode.HEART_BEAT, body=dumps(data.to_json()))


@pytest.mark.parametrize(("code", "field"), GROUP_FIELDS.items())
def test_groups_are_known_from_the_first_request(code: int, field: str) -> None:
    client = Watched()
    for _ in range(2):
        client.learn_from(RemotingCommand(code, {field: "g"}))
    assert (client.names, client.changes) == (("g",), 1)


def test_a_heartbeat_tells_everything_at_once() -> None:
    client = Watched()
    client.learn_from(heartbeat("10.0.0.9@1", "p", consumers=("c", "d")))
    client.learn_from(heartbeat("10.0.0.9@1", "p", consumers=("c",)))
    assert (client.names, client.changes) == (("10.0.0.9@1", "p", "c", "d"), 1)


def test_a_client_may_take_another_name() -> None:
    client = Watched()
    client.learn_from(heartbeat("a"))
    client.learn_from(heartbeat("b"))
    assert (client.names, client.changes) == (("b",), 2)


@pytest.mark.parametrize(
    "request_",
    [
        RemotingCommand(RequestCode.HEART_BEAT, body=b""),
        RemotingCommand(RequestCode.HEART_BEAT, body=b"[]"),
        RemotingCommand(RequestCode.HEART_BEAT, body=b"no json"),
        RemotingCommand(
            RequestCode.HEART_BEAT,
            body=b'{"clientID":5,"producerDataSet":{"a":1},"consumerDataSet":[5,{"groupName":5}]}',
        ),
        RemotingCommand(RequestCode.PULL_MESSAGE, {"topic": "T"}),
        RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "T"}),
    ],
)
def test_what_tells_nothing(request_: RemotingCommand) -> None:
    client = Watched()
    client.learn_from(request_)
    assert (client.names, client.changes) == ((), 0)
