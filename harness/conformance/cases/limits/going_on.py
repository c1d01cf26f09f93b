"""Cases about the state after a refusal, a removal, a wait or a restart: queues and offsets continue."""

from __future__ import annotations

import asyncio
import json

from staticfire.harness.conformance.answers import number
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.limits.requests import BODY_MAX, PROPERTIES_MAX
from staticfire.harness.conformance.cases.long_polling import is_answered, wait_for_messages
from staticfire.harness.conformance.cases.offsets import commit, committed
from staticfire.harness.conformance.cases.transactions import (
    COMMIT,
    PREPARED,
    SOON_S,
    bodies,
    prepare,
)
from staticfire.harness.conformance.request_fields import pull_fields, send_fields, topic_fields
from staticfire.harness.conformance.wire import Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode

WAIT_MS = 1000
WAITING = 2 | 4  # system flags: may wait, subscription included
DELAY_LEVEL, DELAY_S = 2, 5.0
LONGER = "-2"  # suffix of a name that begins with another name


async def _require_second(bench: Bench, broker: Wire, topic: str, body: bytes) -> None:
    """Store the second message; require that it gets offset 1 and can be read there."""
    sent = await bench.store(broker, topic, body)
    require_equal("the offset of the next message", number(sent, "queueOffset"), 1)
    found = await bench.read_all(broker.address, topic, wanted=2)
    require_equal("how many messages can be read", len(found), 2)
    require_equal("the message there", found[1], body)


@case("RMQ-SND-13")
async def after_a_refusal(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.store(broker, topic, b"before")
    for what, body, properties in (
        ("a body above the limit", bytes(BODY_MAX + 1), {}),
        ("properties above the limit", b"x", {"big": "x" * (PROPERTIES_MAX + 1)}),
    ):
        refused = await bench.send(broker, topic, body, properties=properties)
        require_equal(f"the code for {what}", refused.code, ResponseCode.MESSAGE_ILLEGAL)
    await _require_second(bench, broker, topic, b"after")


@case("RMQ-ADM-08")
async def a_topic_made_again(bench: Bench) -> None:
    topic, broker, group = await bench.topic(queues=1), await bench.broker(), bench.fresh_name("g")
    longer = await bench.topic(f"{topic}{LONGER}", queues=1)
    for index in range(3):
        await bench.store(broker, topic, b"former %d" % index)
    await bench.store(broker, longer, b"stays")
    await bench.read_all(broker.address, topic, wanted=3)
    await bench.read_all(broker.address, longer, wanted=1)
    await commit(broker, longer, group, 1)
    await broker.obtain(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    for index in range(len(bench.target.name_servers)):
        name_server = await bench.name_server(index)
        await name_server.obtain(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
    again = await bench.connect(broker.address)
    await again.obtain(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, queues=1))
    fields = {"topic": topic, "queueId": 0}
    first, end = [
        number((await again.obtain(code, fields)).ext_fields, "offset")
        for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
    ]
    require_equal("the first offset of the empty queue, which is its end", first, end)
    new = send_fields(topic, queue=0)
    sent = await again.ask(RequestCode.SEND_MESSAGE, new, b"new", answer_s=30)
    require_equal("the offset of its first message", sent.ext_fields.get("queueOffset"), str(end))
    await asyncio.sleep(SOON_S)
    found = await bench.pull(again, topic, offset=end)
    require_equal("what it holds", [message.body for message in found.messages], [b"new"])
    below = await bench.pull(again, topic, offset=0)
    served = [message.body for message in below.messages if message.body != b"new"]
    require_equal("what it serves of the former topic", served, [])
    kept = await bench.read_all(broker.address, longer, wanted=1)
    require_equal("what a topic with a longer name holds", kept, [b"stays"])
    require_equal("the offset of a group there", await committed(again, longer, group), 1)


@case("RMQ-OFF-10")
async def a_group_made_again(bench: Bench) -> None:
    topic, broker, group = await bench.topic(queues=1), await bench.broker(), bench.fresh_name("g")
    config = json.dumps({"groupName": group, "retryQueueNums": 1, "consumeEnable": True}).encode()
    longer = f"{group}{LONGER}"
    for clean in (False, True):
        await broker.obtain(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config)
        await bench.store(broker, topic, b"one")
        await bench.read_all(broker.address, topic, wanted=1)
        await commit(broker, topic, group, 1)
        await commit(broker, topic, longer, 1)
        fields = {"groupName": group, "removeOffset": clean}
        await broker.obtain(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
        await broker.obtain(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config)
        found = await committed(broker, topic, group)
        if clean:
            require(
                found in (None, 0), f"the offset of a group that was removed with it is {found}"
            )
        else:
            require_equal("the offset of a group that was removed without it", found, 1)
        kept = await committed(broker, topic, longer)
        require_equal("the offset of a group with a longer name", kept, 1)
    fields = {"groupName": longer, "removeOffset": True}
    await broker.obtain(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)


@case("RMQ-TXN-12", limit_s=60)
async def after_a_delayed_transaction(bench: Bench) -> None:
    first = await prepare(bench)
    topic, producer = first.topic, first.producer
    odd = {
        "TRAN_MSG": "true",
        "PGROUP": producer.group,
        "UNIQ_KEY": f"7F000001{bench.fresh_number():024X}",
        "DELAY": str(DELAY_LEVEL),
    }
    await bench.send(
        producer.wire,
        topic,
        b"delayed half",
        queue=1,
        properties=odd,
        sysFlag=PREPARED,
        producerGroup=producer.group,
        bornTimestamp=bench.now_ms(),
    )
    await asyncio.sleep(DELAY_S + 1)
    require_equal("what consumers see of it", await bodies(bench, first, within_s=SOON_S), [])
    require_equal("the code for the first commit", (await first.end(COMMIT)).code, 0)
    sent = await bench.store(producer.wire, topic, b"plain", queue=1)
    require_equal("the offset behind it", number(sent, "queueOffset"), 1)
    found = await bodies(bench, first, within_s=5, wanted=2)
    require_equal("what consumers see then", found, [b"half", b"plain"])


@case("RMQ-LPL-07", limit_s=60)
async def after_a_wait(bench: Bench) -> None:
    topic, broker = await bench.topic(queues=1), await bench.broker()
    await bench.store(broker, topic, b"first")
    await bench.read_all(broker.address, topic, wanted=1)
    fields = pull_fields(
        topic,
        queue=0,
        offset=1,
        group=bench.fresh_name("g"),
        sysFlag=WAITING,
        suspendTimeoutMillis=WAIT_MS,
        subscription="*",
    )
    over = await broker.ask(RequestCode.PULL_MESSAGE, fields, answer_s=30)
    ended = over.code, over.ext_fields.get("nextBeginOffset")
    require_equal("the answer to a wait that is over", ended, (ResponseCode.PULL_NOT_FOUND, "1"))
    leaver = await bench.connect(broker.address)
    leaver.send(request(RequestCode.PULL_MESSAGE, {**fields, "suspendTimeoutMillis": 15_000}))
    await asyncio.sleep(0.2)
    leaver.close()
    await _require_second(bench, broker, topic, b"second")
    waiting = wait_for_messages(bench, broker, topic)  # at offset 0: answered at once
    require(await is_answered(waiting, within_s=2.0), "a pull behind one that went away hangs")


@case("RMQ-RCV-13", limit_s=120)
async def offsets_after_a_restart(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), (await bench.master()).address
    broker, group = await bench.broker(), bench.fresh_name("g")
    for index in range(5):
        await bench.store(broker, topic, b"%d" % index)
    await bench.read_all(master, topic, wanted=5)
    await commit(broker, topic, group, 3)
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.stop(node)
    await processes.start(node)
    again = await bench.until_serving(master, topic)
    require_equal("the group's offset", await committed(again, topic, group), 3)
    require_equal("the end of the queue", await bench.end_of(again, topic), 5)
    fields = pull_fields(
        topic,
        queue=0,
        offset=5,
        group=group,
        sysFlag=WAITING,
        suspendTimeoutMillis=15_000,
        subscription="*",
    )
    held = again.send(request(RequestCode.PULL_MESSAGE, fields))
    require(not await is_answered(held, within_s=0.5), "a pull at the end was answered at once")
    writer = await bench.connect(master)
    for _ in range(150):  # a broker that has just started may refuse for a while
        sent = await bench.send(writer, topic, b"5")
        if "queueOffset" in sent.ext_fields:
            break
        await asyncio.sleep(0.2)
    require_equal("the offset of the next message", sent.ext_fields.get("queueOffset"), "5")
    require(await is_answered(held, within_s=15.0), "the pull that waits does not get it")
    require_equal("the code of that answer", held.result().code, ResponseCode.SUCCESS)
