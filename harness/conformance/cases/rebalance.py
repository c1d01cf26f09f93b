"""RMQ-RBL: the members of a group, and the notification of changes."""

from __future__ import annotations

import asyncio

from staticfire.harness.conformance.answers import json_object
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.consumers import register_consumer
from staticfire.harness.conformance.failures import NotTriable
from staticfire.harness.conformance.wire import CannotConnect, Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.remoting.address import format_address, parse_address

NOTIFY_S = 3.0
EXPIRY_S, SLACK_S = 120.0, 15.0


async def members(wire: Wire, group: str) -> list[str]:
    """Return the client ids of a group; RocketMQ answers with an error for a group without members."""
    answer = await wire.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    if answer.code != ResponseCode.SUCCESS:
        return []
    return sorted(json_object(answer).get("consumerIdList") or [])


async def await_members(wire: Wire, group: str, wanted: list[str], *, within_s: float) -> list[str]:
    """Return the members once they are the wanted ones, or at the end of the time."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    while (found := await members(wire, group)) != wanted and loop.time() < until_s:
        await asyncio.sleep(0.05)
    return found


@case("RMQ-RBL-01")
async def heartbeats(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    group = bench.fresh_name("g")
    require_equal("the members before", await members(broker, group), [])
    clients = [
        (await register_consumer(bench, broker.address, group, topic)).client_id for _ in range(2)
    ]
    require_equal("the members", await members(broker, group), sorted(clients))
    require(await bench.await_route(f"%RETRY%{group}"), "the retry topic of the group has no route")
    bench.remove_later(f"%RETRY%{group}", broker.address)


@case("RMQ-RBL-02")
async def members_are_notified(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    group = bench.fresh_name("g")
    first = await register_consumer(bench, broker.address, group, topic)
    await first.next_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, wait_s=1)
    second = await register_consumer(bench, broker.address, group, topic)
    joined = await first.next_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, wait_s=NOTIFY_S)
    require(joined is not None, f"a member was not notified of another within {NOTIFY_S:g} s")
    assert joined is not None
    require_equal("the group in the notification", joined.ext_fields.get("consumerGroup"), group)
    second.wire.close()
    left = await first.next_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, wait_s=NOTIFY_S)
    require(
        left is not None, f"a member was not notified within {NOTIFY_S:g} s that another has gone"
    )
    host, port = parse_address(broker.address)
    try:
        third = await register_consumer(bench, format_address(host, port - 2), group, topic)
    except CannotConnect as error:
        require(not bench.target.nodes, f"the second port of a broker cannot be reached: {error}")
        raise NotTriable(f"the second port cannot be reached: {error}") from error
    joined = await first.next_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, wait_s=NOTIFY_S)
    require(joined is not None, "a member was not notified of another one at the second port")
    third.wire.close()
    left = await first.next_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, wait_s=NOTIFY_S)
    require(left is not None, "a member was not notified that one at the second port has gone")


@case("RMQ-RBL-03", limit_s=200, is_slow=True)
async def members_that_are_gone(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    group = bench.fresh_name("g")
    silent = await register_consumer(bench, broker.address, group, topic)
    gone = await register_consumer(bench, broker.address, group, topic)
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    gone.wire.close()
    left = await await_members(broker, group, [silent.client_id], within_s=NOTIFY_S)
    require_equal("the members after one's connection ended", left, [silent.client_id])
    while loop.time() < start_s + EXPIRY_S - 10:
        # Requests that are no heartbeats keep the connections from being idle.
        await members(silent.wire, group)
        left = await members(broker, group)
        require(left, f"out after {loop.time() - start_s:.0f} s without a heartbeat")
        await asyncio.sleep(10)
    wait_s = start_s + EXPIRY_S + SLACK_S - loop.time()
    require_equal(
        f"the members after {EXPIRY_S + SLACK_S:g} s",
        await await_members(broker, group, [], within_s=wait_s),
        [],
    )


@case("RMQ-RBL-06")
async def unregister(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    group = bench.fresh_name("g")
    member = await register_consumer(bench, broker.address, group, topic)
    fields = {"clientID": member.client_id, "consumerGroup": group}
    answer = await member.wire.ask(RequestCode.UNREGISTER_CLIENT, fields)
    require_equal("the code", answer.code, 0)
    require_equal("the members", await members(broker, group), [])
    require(not await member.wire.is_closed(wait_s=0.2), "its connection was closed")
