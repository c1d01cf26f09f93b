"""RMQ-RRP: replies, which a broker pushes to the client that sent the request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.admin import option_of
from staticfire.harness.conformance.consumers import Member, register_producer
from staticfire.harness.conformance.failures import NotTriable
from staticfire.harness.conformance.request_fields import send_fields, short_fields
from staticfire.harness.conformance.wire import Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import decode_properties

PUSH_S = 5.0
EARLY_S = 0.5  # in which a broker that does not wait for the requester would have answered
FORGETS_S = 2.0  # until a broker has noticed the end of a connection
STORES = "storeReplyMessageEnable"
REQUESTER, CORRELATION, PUSHED_AT = "REPLY_TO_CLIENT", "CORRELATION_ID", "PUSH_REPLY_TIME"
TYPE = "MSG_TYPE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replier:
    """A client that sends replies over its own connection."""

    wire: Wire
    topic: str

    def send(
        self,
        body: bytes,
        properties: Mapping[str, str],
        *,
        code: int = RequestCode.SEND_REPLY_MESSAGE,
    ) -> asyncio.Future[RemotingCommand]:
        """Send a reply; the future gets the broker's answer."""
        fields = self._fields(properties)
        if code == RequestCode.SEND_REPLY_MESSAGE_V2:
            fields = short_fields(fields)
        return self.wire.send(request(code, fields, body))

    async def code(self, properties: Mapping[str, str]) -> int:
        """Send a reply that no requester answers, again while the broker is busy. Return the code of its answer."""
        fields = self._fields(properties)
        return (await self.wire.ask(RequestCode.SEND_REPLY_MESSAGE, fields, b"reply")).code

    def _fields(self, properties: Mapping[str, str]) -> dict[str, object]:
        return send_fields(self.topic, queue=0, properties={TYPE: "reply", **properties})

    async def reach(self, requester: Member, body: bytes) -> bool:
        """Send a reply to a requester. Return whether the broker pushes it to this connection of the requester."""
        sent = self.send(body, {REQUESTER: requester.client_id})
        pushed = await _pushed(requester)
        if pushed is None:
            return False
        requester.wire.respond(pushed, ResponseCode.SUCCESS)
        await self.wire.answer(sent, RequestCode.SEND_REPLY_MESSAGE)
        return pushed.body == body


@case("RMQ-RRP-01")
async def a_reply_reaches_its_requester(bench: Bench) -> None:
    requester, replier = await _both(bench)
    for code in (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2):
        body = f"reply {code}".encode()
        given = {REQUESTER: requester.client_id, CORRELATION: bench.fresh_name("c"), "a": "1"}
        sent = replier.send(body, given, code=code)
        pushed = await _pushed(requester)
        require(pushed is not None, f"no PUSH_REPLY_MESSAGE_TO_CLIENT in {PUSH_S:g} s")
        assert pushed is not None
        require_equal(f"the body that the requester gets of {code}", pushed.body, body)
        properties = decode_properties(pushed.ext_fields.get("properties", ""))
        for name, value in given.items():
            require_equal(f"property {name} of {code}", properties.get(name), value)
        require(PUSHED_AT in properties, f"{PUSHED_AT} is missing")
        await asyncio.wait([sent], timeout=EARLY_S)
        require(not sent.done(), "the replier has an answer before the requester has answered")
        requester.wire.respond(pushed, ResponseCode.SUCCESS)
        answer = await replier.wire.answer(sent, code)
        require_equal(f"the code for the replier of {code}", answer.code, ResponseCode.SUCCESS)


@case("RMQ-RRP-02")
async def replies_that_do_not_arrive(bench: Bench) -> None:
    requester, replier = await _both(bench)
    failed = ResponseCode.SYSTEM_ERROR
    require_equal("the code without a requester", await replier.code({}), failed)
    unknown = {REQUESTER: bench.fresh_name("unknown")}
    require_equal("the code for an unknown requester", await replier.code(unknown), failed)
    sent = replier.send(b"reply", {REQUESTER: requester.client_id})
    pushed = await _pushed(requester)
    require(pushed is not None, f"no PUSH_REPLY_MESSAGE_TO_CLIENT in {PUSH_S:g} s")
    assert pushed is not None
    requester.wire.respond(pushed, ResponseCode.SYSTEM_ERROR)
    answer = await replier.wire.answer(sent, RequestCode.SEND_REPLY_MESSAGE)
    require_equal("the code for a reply that the requester refuses", answer.code, failed)


@case("RMQ-RRP-03")
async def a_requester_connects_again(bench: Bench) -> None:
    requester, replier = await _both(bench)
    require(await replier.reach(requester, b"first"), "the first reply is not pushed")
    later = await requester.again(bench)
    require(await replier.reach(later, b"second"), "the reply does not reach the later connection")


@case("RMQ-RRP-04")
async def the_former_connection_ends(bench: Bench) -> None:
    requester, replier = await _both(bench)
    later = await requester.again(bench)
    requester.wire.close()
    await asyncio.sleep(FORGETS_S)
    await later.say_alive()
    reached = await replier.reach(later, b"reply")
    require(reached, "the reply does not reach the connection that is left")


@case("RMQ-RRP-05")
async def replies_are_stored(bench: Bench) -> None:
    master, broker = await bench.master(), await bench.broker()
    if await option_of(broker, STORES) == "false":
        raise NotTriable(f"{STORES} is off")
    route = await bench.await_route(f"{master.cluster}_REPLY_TOPIC")
    require(route is not None, "the reply topic of the cluster has no route")
    requester, replier = await _both(bench)
    require(await replier.reach(requester, b"pushed"), "the reply is not pushed")
    await replier.code({REQUESTER: bench.fresh_name("unknown")})
    pulled = await bench.pull(replier.wire, replier.topic, least=2)
    require_equal("the stored bodies", [m.body for m in pulled.messages], [b"pushed", b"reply"])


async def _both(bench: Bench) -> tuple[Member, Replier]:
    """Return a requester that has registered, and a replier with a connection and a topic of its own."""
    master = await bench.master()
    requester = await register_producer(bench, master.address, bench.fresh_name("requesters"))
    wire = await bench.connect(master.address)
    return requester, Replier(wire=wire, topic=await bench.topic(queues=1))


async def _pushed(requester: Member) -> RemotingCommand | None:
    """Return the next reply that the broker pushes to a requester, or None if none comes in time."""
    return await requester.next_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, wait_s=PUSH_S)
