"""Request-reply: a reply is pushed to the client that asked, stored, and answered by how the push went."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.broker.clients import asked_clients
from staticfire.system_under_test.protocol.bodies import HeartbeatData
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import decode_properties
from staticfire.system_under_test.remoting import RemotingTimeout
from tests.system_under_test.broker.bench import Bench, Peer, send_ext

SEND_REPLY_V2 = 325
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = {"REPLY_TO_CLIENT": "asker@1", "CORRELATION_ID": "c1", "MSG_TYPE": "reply"}


def connect_asker(bench: Bench) -> Peer:
    asker = Peer(key=5)
    heartbeat = HeartbeatData(client_id="asker@1", producer_groups=["askers"], consumers=[])
    bench.clients.heartbeat(asker.connection, heartbeat, language=0, version=409)
    return asker


def reply(bench: Bench, properties: dict[str, str] | None = None) -> RemotingCommand | None:
    ext = send_ext(REPLY_TOPIC, properties=PROPERTIES if properties is None else properties)
    return bench.ask_service(SEND_REPLY_V2, ext, b"answer")


def test_reply_is_pushed_and_stored(bench: Bench) -> None:
    async def story() -> None:
        asker, replier = connect_asker(bench), Peer()
        request = RemotingCommand.request(
            SEND_REPLY_V2, send_ext(REPLY_TOPIC, properties=PROPERTIES), b"answer"
        )
        handler = bench.services.handlers(bench.send_processor)[SEND_REPLY_V2]
        assert handler(replier.connection, request) is None
        push = asker.take()
        assert (push.code, push.body) == (326, b"answer")
        assert push.ext_fields["bornHost"] == "10.0.0.9:40001"
        assert push.ext_fields["storeHost"] == "10.0.0.1:10911"
        pushed = decode_properties(push.ext_fields["properties"])
        assert pushed == {**PROPERTIES, "PUSH_REPLY_TIME": str(bench.clock.now_ms)}
        assert replier.sent == []
        asker.asked[-1][2].set_result(RemotingCommand.response(push, 0))
        await asyncio.sleep(0)
        answer = replier.take()
        assert (answer.code, answer.remark) == (0, None)
        assert len(answer.ext_fields["msgId"]) == 32
        bench.publish()
        assert [message.body for message in bench.stored(REPLY_TOPIC)] == [b"answer"]
        assert [message.properties for message in bench.stored(REPLY_TOPIC)] == [PROPERTIES]

    asyncio.run(story())


def test_reply_keeps_the_properties_of_its_sender(bench: Bench) -> None:
    """Another cluster's name, and WAIT, which a send loses."""
    properties = {"MSG_TYPE": "reply", "CLUSTER": "other", "WAIT": "true"}
    assert reply(bench, properties) is not None
    assert [message.properties for message in bench.stored(REPLY_TOPIC)] == [properties]


@pytest.mark.parametrize("fails", ["refused", "silent"])
def test_push_that_fails(bench: Bench, fails: str) -> None:
    async def story() -> None:
        asker, replier = connect_asker(bench), Peer()
        request = RemotingCommand.request(
            SEND_REPLY_V2, send_ext(REPLY_TOPIC, properties=PROPERTIES), b"answer"
        )
        bench.services.handlers(bench.send_processor)[SEND_REPLY_V2](replier.connection, request)
        if fails == "refused":
            asker.asked[-1][2].set_result(RemotingCommand.response(asker.take(), 1))
        else:
            asker.asked[-1][2].set_exception(RemotingTimeout("no answer"))
        await asyncio.sleep(0)
        answer = replier.take()
        assert (answer.code, answer.remark) == (1, "push reply message to asker@1 fail.")

    asyncio.run(story())


def test_a_reply_without_a_requester(bench: Bench) -> None:
    answer = reply(bench)
    assert answer is not None
    assert answer.code == 1
    assert answer.remark == "push reply message fail, channel of <asker@1> not found."
    nameless = reply(bench, {"MSG_TYPE": "reply"})
    assert nameless is not None
    assert nameless.remark == "reply message properties[REPLY_TO_CLIENT] is null"
    assert len(bench.stored(REPLY_TOPIC)) == 2  # stored nevertheless, as by 4.9.8


def test_asker_that_has_gone(bench: Bench) -> None:
    asker = connect_asker(bench)
    bench.clients.connection_closed(asker.connection)
    assert bench.clients.producer_connection("asker@1") is None
    answer = reply(bench)
    assert answer is not None
    assert answer.code == 1


def test_replies_need_not_be_stored() -> None:
    bench = Bench(store_replies=False)
    answer = reply(bench)
    assert answer is not None
    assert (answer.ext_fields["msgId"], answer.ext_fields["queueOffset"]) == ("0", "0")
    assert bench.stored(REPLY_TOPIC) == []


def test_refusal_is_that_of_a_send(bench: Bench) -> None:
    bench.is_ready = False
    answer = reply(bench)
    assert answer is not None
    assert answer.code == 14
    assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"


def test_replies_that_wait_for_those_who_asked_are_bounded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = bench.services.handlers(bench.send_processor)[SEND_REPLY_V2]

    def take() -> RemotingCommand | None:
        ext = send_ext(REPLY_TOPIC, properties=PROPERTIES)
        return handler(Peer().connection, RemotingCommand.request(SEND_REPLY_V2, ext, b"answer"))

    async def story() -> None:
        asker = connect_asker(bench)
        monkeypatch.setattr(asked_clients, "SIZE_MAX", 4000)
        refused = [take(), take(), take()][2]
        assert refused is not None
        assert refused.code == ResponseCode.SYSTEM_BUSY
        asker.asked[0][2].set_exception(RemotingTimeout("no answer"))
        await asyncio.sleep(0)
        assert take() is None

    asyncio.run(story())
