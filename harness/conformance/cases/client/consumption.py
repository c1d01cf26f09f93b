"""RMQ-FLT, RMQ-RTY and RMQ-ORD, of clients: messages that consumers skip, retry, and never process concurrently."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise
from typing import Any

from staticfire.harness.clients.payload import make_body
from staticfire.harness.conformance.asking import ask_until
from staticfire.harness.conformance.bench import MASTER, Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.client.sends import alter_routes, refuse
from staticfire.harness.conformance.cases.offsets import committed
from staticfire.harness.conformance.client import Call, Client
from staticfire.harness.conformance.client_proxy import refusal
from staticfire.harness.conformance.clients.stage import Stage
from staticfire.harness.conformance.failures import NotTriable
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

COMMIT_S = 25.0  # until the broker has an offset; clients commit every 5 s
REFUSING_S = 12.0  # longer than two such periods
AGAIN_S = 45.0  # for a redelivery: after 5 s, or after 10 s through the broker once the retry topic's route is known
JOIN_S = 8.0
SHARE_S = 25.0  # until a change of members has changed the owners
LOCK_S = 60.0  # life of a broker's lock
CALL_S = 0.5  # duration of a call of an orderly listener
# calls per queue: they outlast a lock, which shows a client that continues without one
BACKLOG = 220
COMMITS = 5
NEAR_S = 0.2  # distance of a request that belongs to a commit
OVERLAP_S = 0.1  # tolerance, since two pipes are read one after the other
SIZE = 20
REMARK = 'Encountered "<EOF>" at line 1.\n\tWas expecting: <STRING>'
TIMEOUT_S, EXPIRY_S = 60.0, 15.0  # clients check once per period


async def put(
    bench: Bench, broker: Wire, topic: str, key: str, *, queue: int = 0, tag: str = ""
) -> None:
    """Store a message whose body drivers can verify."""
    properties = {"KEYS": key, **({"TAGS": tag} if tag else {})}
    await bench.store(broker, topic, make_body(key, SIZE), queue=queue, properties=properties)


@case("RMQ-FLT-02", limit_s=90)
async def equal_hashes(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    group, stage = bench.fresh_name("g"), Stage(bench)
    tags = ("AaAa", "BBBB", "AaAa", "BBBB", "BBBB")
    for number, tag in enumerate(tags):
        await put(bench, broker, topic, f"{tag}-{number}", tag=tag)
    consumer = await stage.consumer(topic, group, expression="AaAa")
    wanted = {"AaAa-0", "AaAa-2"}
    await stage.until(lambda: wanted <= stage.consumed(), within_s=COMMIT_S)
    until_s = asyncio.get_running_loop().time() + COMMIT_S
    while await committed(broker, topic, group) != len(tags):
        await consumer.require_alive()
        if asyncio.get_running_loop().time() > until_s:
            break
        await asyncio.sleep(0.2)
    given = [key for call in consumer.calls for key in call.keys]
    require_equal("what the listener was given", sorted(set(given)), sorted(wanted))
    found = await committed(broker, topic, group)
    require_equal("the group's offset behind messages of the other tag", found, len(tags))


@case("RMQ-FLT-10")
async def an_expression_that_is_refused(bench: Bench) -> None:
    topic = await bench.topic(queues=1)
    await bench.await_route(topic)
    asked: list[RemotingCommand] = []

    def refuse_expression(request: RemotingCommand) -> RemotingCommand | None:
        if request.code != RequestCode.CHECK_CLIENT_CONFIG:
            return None
        asked.append(request)
        return refusal(request, ResponseCode.SUBSCRIPTION_PARSE_FAILED, REMARK)

    def prepare(client: Client) -> None:
        client.proxy.instead.append(refuse_expression)

    sql = {"expression": "a >", "expression_type": "SQL92"}
    try:
        await Stage(bench).consumer(topic, bench.fresh_name("g"), prepare=prepare, **sql)
    except NotTriable as error:
        if not asked:
            raise
        require(REMARK in str(error), f"the remark {REMARK!r} is not in what it says: {error}")
        return
    if not asked:
        raise NotTriable("the client asks no broker about its expression")
    require(False, "a consumer started whose expression the broker refuses")


def refuses_send_backs(client: Client) -> list[RemotingCommand]:
    """Refuse send-backs from now on; return the list that collects the refused requests."""

    def is_send_back(request: RemotingCommand) -> bool:
        topic = request.ext_fields.get("topic") or request.ext_fields.get("b") or ""
        is_copy = request.code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)
        is_copy = is_copy and topic.startswith("%RETRY%")
        return is_copy or request.code == RequestCode.CONSUMER_SEND_MSG_BACK

    return refuse(client, is_send_back, "send-backs")


@case("RMQ-RTY-08", limit_s=180)
async def send_backs_that_fail(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    group, stage = bench.fresh_name("g"), Stage(bench)
    consumer = await stage.consumer(topic, group, failing_share=1.0)
    refused = refuses_send_backs(consumer)
    keys = [f"m{number}" for number in range(3)]
    for key in keys:
        await put(bench, broker, topic, key)
    loop = asyncio.get_running_loop()
    if not await stage.until(lambda: bool(refused), within_s=COMMIT_S):
        tried = sum(len(call.keys) for call in consumer.calls)
        require(tried, f"none of {len(keys)} messages was given to the listener")
    until_s = loop.time() + REFUSING_S
    while loop.time() < until_s:
        await consumer.require_alive()
        offset = await committed(broker, topic, group)
        require(
            not offset,
            f"the group's offset is {offset} although nothing was consumed and no send-back succeeded",
        )
        await asyncio.sleep(0.5)
    calm = await consumer.request("failing_listener", share=0.0)
    if calm.type != "ok":
        raise NotTriable(f"the client cannot let its listener succeed again: {calm.error}")
    await stage.until(lambda: set(keys) <= stage.consumed(), within_s=AGAIN_S)
    missing = sorted(set(keys) - stage.consumed())
    require(not missing, f"{missing} did not come again after their send-backs had failed")


@case("RMQ-RTY-10", limit_s=240, is_slow=True)
async def a_listener_that_takes_too_long(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    group, stage = bench.fresh_name("g"), Stage(bench)
    consumer = await stage.consumer(
        topic, group, consume_timeout_s=TIMEOUT_S, delay_s=4 * TIMEOUT_S
    )
    backs: list[RemotingCommand] = []

    def note(request: RemotingCommand) -> None:
        if request.code == RequestCode.CONSUMER_SEND_MSG_BACK:
            backs.append(request)

    consumer.proxy.instead.append(note)
    await put(bench, broker, topic, "slow")
    await stage.until(lambda: bool(consumer.calls), within_s=COMMIT_S)
    require(consumer.calls, "the message was not given to the listener")
    began_s, loop = consumer.calls[0].began_s, asyncio.get_running_loop()
    await stage.until(lambda: bool(backs), within_s=2 * TIMEOUT_S + EXPIRY_S)
    require(backs, f"a message whose listener takes {4 * TIMEOUT_S:g} s was not sent back")
    after_s = loop.time() - began_s
    require(after_s >= TIMEOUT_S - 1, f"it was sent back after {after_s:.0f} s of {TIMEOUT_S:g} s")
    fields = backs[0].ext_fields
    message = (await bench.pull(broker, topic)).messages[0]
    sent = fields.get("group"), fields.get("offset"), fields.get("delayLevel")
    require_equal(
        "group, offset and level of the send-back", sent, (group, str(message.physical_offset), "3")
    )
    offset = await ask_until(
        lambda: committed(broker, topic, group), lambda offset: offset == 1, within_s=COMMIT_S
    )
    require_equal("the group's offset", offset, 1)


@case("RMQ-PUL-11", limit_s=90)
async def where_a_consumer_pulls(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    broker, slave = await bench.broker(), await bench.slave_of(master)
    await bench.await_route(topic)
    await bench.until_slave_knows(slave, topic)

    def renumber(route: dict[str, Any]) -> None:
        for one in route["brokerDatas"]:
            addresses = one["brokerAddrs"]
            one["brokerAddrs"] = {number and number + 1: at for number, at in addresses.items()}

    def suggest(request: RemotingCommand, answer: RemotingCommand) -> None:
        if request.code == RequestCode.PULL_MESSAGE and "suggestWhichBrokerId" in answer.ext_fields:
            answer.ext_fields["suggestWhichBrokerId"] = str(slave.id)

    def prepare(client: Client) -> None:
        alter_routes(client, renumber)
        client.proxy.alter.append(suggest)

    stage = Stage(bench)
    consumer = await stage.consumer(topic, bench.fresh_name("g"), prepare=prepare)
    await put(bench, broker, topic, "first")
    await stage.until(lambda: "first" in stage.consumed(), within_s=COMMIT_S)
    require("first" in stage.consumed(), "a message was not consumed")
    at_slave = slave.address, RequestCode.PULL_MESSAGE
    await stage.until(lambda: consumer.proxy.requests[at_slave] > 0, within_s=COMMIT_S)
    require(
        consumer.proxy.requests[at_slave],
        f"no pull reached the slave with id {slave.id + 1} although answers suggest {slave.id},"
        " which the route does not have",
    )
    await put(bench, broker, topic, "second")
    await stage.until(lambda: "second" in stage.consumed(), within_s=COMMIT_S)
    require("second" in stage.consumed(), "a message was not consumed from the slave")


@case("RMQ-OFF-13", limit_s=90)
async def commits_without_a_master(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    broker, slave = await bench.broker(), await bench.slave_of(master)
    await bench.await_route(topic)
    await bench.until_slave_knows(slave, topic)
    loop = asyncio.get_running_loop()
    commits: list[float] = []
    route_requests: list[float] = []

    def without_master(route: dict[str, Any]) -> None:
        for one in route["brokerDatas"]:
            one["brokerAddrs"].pop(MASTER, None)

    def note(request: RemotingCommand) -> None:
        if request.ext_fields.get("topic") != topic:
            return
        if request.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            commits.append(loop.time())
        elif request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            route_requests.append(loop.time())

    def prepare(client: Client) -> None:
        alter_routes(client, without_master)
        client.proxy.instead.append(note)

    stage = Stage(bench)
    consumer = await stage.consumer(topic, bench.fresh_name("g"), prepare=prepare)
    for number in range(COMMITS):
        await put(bench, broker, topic, f"m{number}")
        await stage.until(lambda: len(commits) > number, within_s=COMMIT_S)  # noqa: B023
        require(len(commits) > number, "a consumer without a master committed no offset")
    at_slave = consumer.proxy.requests[slave.address, RequestCode.UPDATE_CONSUMER_OFFSET]
    require(at_slave, "the offset was not committed to the slave")
    await asyncio.sleep(NEAR_S)
    lonely = [at_s for at_s in commits if min(abs(at_s - r) for r in route_requests) > NEAR_S]
    require(
        not lonely,
        f"{len(lonely)} of {len(commits)} commits to a slave came without a request for the route",
    )


class Feeder:
    """Sends messages to all queues of a topic in turn."""

    def __init__(self, bench: Bench, broker: Wire, topic: str, queues: int) -> None:
        self.keys: list[str] = []
        self._bench = bench
        self._broker = broker
        self._topic = topic
        self._queues = queues
        self._numbers = count()
        self._name = bench.fresh_name("m")

    async def round(self) -> dict[str, int]:
        """Send one message to each queue; return the queue of each message."""
        keys: dict[str, int] = {}
        for queue in range(self._queues):
            key = f"{self._name}-{next(self._numbers)}"
            await put(self._bench, self._broker, self._topic, key, queue=queue)
            keys[key] = queue
        self.keys += keys
        return keys


@case("RMQ-ORD-07", limit_s=300)
async def one_queue_one_client(bench: Bench) -> None:
    queues = 4
    topic, broker = await bench.topic(queues=queues), await bench.broker()
    await bench.await_route(topic)
    group, stage = bench.fresh_name("g"), Stage(bench)
    feeder = Feeder(bench, broker, topic, queues)

    async def join() -> Client:
        member = await stage.consumer(topic, group, ordered=True, delay_s=CALL_S, consume_batch=1)
        for _ in range(6):
            await feeder.round()
        # A member that takes over the share of a dead client waits for the end of that client's locks.
        await stage.until(lambda: bool(member.calls), within_s=JOIN_S)
        return member

    first = await join()
    second = await join()
    require_alone(stage.clients)
    third = await join()
    third.kill()
    fourth = await join()
    await fourth.stop()
    require_alone(stage.clients)
    for _ in range(BACKLOG):
        await feeder.round()
    await stage.until(lambda: bool(first.calls and second.calls), within_s=SHARE_S)
    await asyncio.sleep(5)
    cut_off = asyncio.get_running_loop().time()
    first.proxy.shut()  # the broker drops it; its locks end 60 s later
    theirs = {(call.broker, call.queue) for call in first.calls}

    def taken_over() -> bool:
        later = {(c.broker, c.queue) for c in second.calls if c.began_s > cut_off}
        return len(theirs & later) == len(theirs)

    await stage.until(taken_over, within_s=LOCK_S + SHARE_S + 5)
    await asyncio.sleep(2)
    require_alone(stage.clients)
    require(second.calls, "the second member of the group was never given anything")
    require_equal(
        "the end of a queue", await bench.end_of(broker, topic), len(feeder.keys) // queues
    )


def require_alone(clients: list[Client]) -> None:
    """Require that two clients never processed one queue at the same time."""
    now_s = asyncio.get_running_loop().time()
    spans: dict[tuple[str, str, int], list[tuple[float, float, str, Call]]] = {}
    for client in clients:
        for call in client.calls:
            end_s = call.ended_s
            if end_s is None:
                end_s = now_s if client.killed_s is None else client.killed_s
            span = call.began_s, end_s, client.name, call
            spans.setdefault((call.topic, call.broker, call.queue), []).append(span)
    for (topic, broker, queue), found in spans.items():
        found.sort(key=lambda span: span[:2])
        for (_, end_s, one, first), (began_s, _, other, second) in pairwise(found):
            require(
                one == other or began_s > end_s - OVERLAP_S,
                f"{one} and {other} had {topic} of {broker}, queue {queue}, at once for"
                f" {end_s - began_s:.1f} s: {', '.join(first.keys)} and {', '.join(second.keys)}",
            )
