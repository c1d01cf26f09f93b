"""RMQ-PUL and RMQ-RBL, of clients: the order and pace in which consumers read their queues, and their end."""

from __future__ import annotations

import asyncio

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.client.consumption import COMMIT_S, put
from staticfire.harness.conformance.cases.client.sends import refuse
from staticfire.harness.conformance.client import Client
from staticfire.harness.conformance.clients.stage import Stage
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand

BATCH, MANY, FEW = 10, 200, 20
BATCH_S = 0.1  # of the listener
REFUSING_S = 6.0
PULLS_A_SECOND_MAX = 30  # while they are refused; RocketMQ sends one
LATER_S = 6.0  # until a client repeats a failed search for its start offset; RocketMQ waits 3 s
ENDING_S = 0.5  # until a consumer that ends no longer calls its listener


@case("RMQ-PUL-12", limit_s=90)
async def queues_in_turn(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=3), await bench.broker()
    await bench.await_route(topic)
    for queue, count in ((0, MANY), (2, FEW)):
        for number in range(count):
            await put(bench, broker, topic, f"q{queue}-{number}", queue=queue)
    stage = Stage(bench)
    consumer = await stage.consumer(
        topic, bench.fresh_name("g"), kind="lite-pull", consume_batch=BATCH, delay_s=BATCH_S
    )
    few = {f"q2-{number}" for number in range(FEW)}
    await stage.until(lambda: few <= stage.consumed(), within_s=COMMIT_S)
    keys = consumer.consumed_keys()
    require(few <= set(keys), f"a consumer did not consume {sorted(few - set(keys))}")
    last = max(keys.index(key) for key in few)
    before = sum(key.startswith("q0-") for key in keys[:last])
    require(
        before <= MANY // 2,
        f"{before} messages of one queue were consumed before {FEW} of another that waited as long",
    )


@case("RMQ-PUL-13", limit_s=60)
async def pulls_that_are_refused(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    stage = Stage(bench)
    consumer = await stage.consumer(topic, bench.fresh_name("g"))
    await put(bench, broker, topic, "first")
    await stage.until(lambda: "first" in stage.consumed(), within_s=COMMIT_S)
    require("first" in stage.consumed(), "a message was not consumed")
    loop = asyncio.get_running_loop()
    until_s = loop.time() + REFUSING_S

    def is_pull(request: RemotingCommand) -> bool:
        is_ours = request.ext_fields.get("topic") == topic
        return is_ours and request.code == RequestCode.PULL_MESSAGE and loop.time() < until_s

    refused = refuse(consumer, is_pull, "pulls")
    await put(bench, broker, topic, "second")  # answers the waiting pull
    await asyncio.sleep(REFUSING_S)
    most = REFUSING_S * PULLS_A_SECOND_MAX
    require(
        1 < len(refused) <= most,
        f"a consumer whose pulls are refused sent {len(refused)} in {REFUSING_S:g} s;"
        f" expected 2 to {most:g}",
    )
    await put(bench, broker, topic, "third")
    await stage.until(lambda: "third" in stage.consumed(), within_s=COMMIT_S)
    require("third" in stage.consumed(), "a message after the refusals was not consumed")


@case("RMQ-PUL-14", limit_s=60)
async def seek(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    keys = [f"m{number}" for number in range(5)]
    for key in keys:
        await put(bench, broker, topic, key)

    def prepare(client: Client) -> None:
        refuse(client, _asks_offset, "an offset", most=1)

    group, stage = bench.fresh_name("g"), Stage(bench)
    consumer = await stage.consumer(topic, group, kind="lite-pull-assign", prepare=prepare)
    await stage.until(lambda: set(keys) <= stage.consumed(), within_s=COMMIT_S)
    await asyncio.sleep(LATER_S)
    await consumer.require_alive()
    given = [key for call in consumer.calls for key in call.keys]
    require_equal("what was handed out after a seek to the begin", given, keys)


def _asks_offset(request: RemotingCommand) -> bool:
    return request.code == RequestCode.QUERY_CONSUMER_OFFSET


@case("RMQ-RBL-08", limit_s=60)
async def goodbye(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.await_route(topic)
    group, stage = bench.fresh_name("g"), Stage(bench)
    for number in range(MANY):
        await put(bench, broker, topic, f"m{number}")
    consumer = await stage.consumer(
        topic, group, delay_s=BATCH_S, consume_batch=1, calls_per_queue=1
    )
    await stage.until(lambda: len(consumer.calls) > 1, within_s=COMMIT_S)
    require(consumer.calls, "no message was given to the listener")
    answered: list[str] = []

    def note(request: RemotingCommand, _answer: RemotingCommand) -> None:
        if request.code == RequestCode.UNREGISTER_CLIENT:
            answered.append(request.ext_fields.get("consumerGroup", ""))

    consumer.proxy.alter.append(note)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await consumer.stop()
    late = [call.began_s - began_s for call in consumer.calls if call.began_s > began_s + ENDING_S]
    require(not late, f"{len(late)} calls of the listener began after its consumer was to end")
    greeted = {at for at, code in consumer.proxy.requests if code == RequestCode.HEART_BEAT}
    require_equal("answers to UNREGISTER_CLIENT", answered.count(group), len(greeted))
