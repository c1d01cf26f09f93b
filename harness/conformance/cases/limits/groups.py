"""RMQ-LIM: groups that are far behind, and the data of clients that a broker must keep."""

from __future__ import annotations

import asyncio
import json

from staticfire.harness.conformance.asking import ask_until
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.admin import option_of
from staticfire.harness.conformance.cases.offsets import commit, committed
from staticfire.harness.conformance.consumers import register_consumer
from staticfire.harness.conformance.failures import TargetUnfit
from staticfire.harness.conformance.request_fields import pull_fields
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode

PROTECT_S = 200.0  # brokers check every 180 s
BEHIND_BYTES = 10_000
SLOW_OPTIONS = {
    "disableConsumeIfConsumerReadSlowly": "true",
    "consumerFallbehindThreshold": str(BEHIND_BYTES),
}
# Limits of our brokers (docs/limits.md), and the sizes by which they count a client's data.
SUBSCRIPTIONS_BYTES, SUBSCRIPTIONS, ELEMENT_BYTES = 32 << 20, 16, 100
OFFSETS_BYTES, OFFSET_BYTES = 6 << 20, 1024
OFFSET_FIXED_BYTES, WIDE_BYTES = 40, 6  # of an offset, and of a non-ASCII character in its names
NO_TYPE = "X"  # an unknown type of expression, which no compiler reads
AT_ONCE = 64


@case("RMQ-LIM-12", limit_s=300, is_slow=True, is_alone=True)
async def slow_groups(bench: Bench) -> None:
    topic, master = await bench.topic(queues=1), await bench.master()
    slave = await bench.slave_of(master)
    broker, follower = await bench.broker(), await bench.connect(slave.address)
    quick, slow, late, gone = (bench.fresh_name("g") for _ in range(4))
    for group in (late, gone):
        await _make_group(broker, group)
    for size in (2 * BEHIND_BYTES, 2 * BEHIND_BYTES, 1):
        await bench.store(broker, topic, bytes(size))
    await bench.until_slave_knows(slave, topic)
    await bench.read_all(slave.address, topic, wanted=3)
    await bench.pull(broker, topic, group=quick)
    await bench.pull(broker, topic, group=slow, maxMsgNums=1)
    for group in (gone, late):
        await bench.pull(follower, topic, group=group, maxMsgNums=1)
    await broker.obtain(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": gone})
    before = {name: await option_of(broker, name) for name in SLOW_OPTIONS}
    for one in (broker, follower):
        await bench.configure(one, **SLOW_OPTIONS)
    try:
        await asyncio.gather(
            _until_refused(broker, topic, slow), _until_refused(follower, topic, late)
        )
        served = await bench.pull(broker, topic, group=quick)
        require_equal("the code for a group that is not behind", served.code, ResponseCode.SUCCESS)
        await bench.configure(broker, **before)
        await _make_group(broker, slow)
        served = await bench.pull(broker, topic, group=slow)
        require_equal("the code after a permission", served.code, ResponseCode.SUCCESS)
    finally:
        for one in (broker, follower):
            await bench.configure(one, **before)
        for group in (quick, slow, late):
            await broker.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": group})


async def _make_group(broker: Wire, group: str) -> None:
    config = {"groupName": group, "retryQueueNums": 1, "consumeEnable": True}
    await broker.obtain(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps(config).encode()
    )


async def _until_refused(broker: Wire, topic: str, group: str) -> None:
    """Pull the first message until the broker refuses the group; a slave learns of that up to 10 s after its master."""
    fields = pull_fields(topic, queue=0, offset=0, group=group, maxMsgNums=1)

    async def code() -> int:
        return (await broker.ask(RequestCode.PULL_MESSAGE, fields)).code

    found = await ask_until(
        code, lambda code: code == ResponseCode.NO_PERMISSION, within_s=PROTECT_S, every_s=1.0
    )
    require_equal(
        f"the code of {broker.address} for a slow group", found, ResponseCode.NO_PERMISSION
    )


@case("RMQ-LIM-13", limit_s=120, spoils=True)  # the tables are full
async def tables_of_clients(bench: Bench) -> None:
    topic, address = await bench.topic(queues=1), (await bench.master()).address
    await _full_of_offsets(await bench.broker(), topic)
    # A subscription counts twice: as received, and as the newest one of its group.
    length = SUBSCRIPTIONS_BYTES // SUBSCRIPTIONS // 2 - ELEMENT_BYTES - len(topic) - len(NO_TYPE)
    for _ in range(SUBSCRIPTIONS):
        member = await register_consumer(
            bench,
            address,
            bench.fresh_name("g"),
            topic,
            expression="x" * length,
            expression_type=NO_TYPE,
        )
    try:
        await register_consumer(bench, address, bench.fresh_name("g"), topic)
    except TargetUnfit:
        await member.say_alive()
    else:
        require(False, f"a broker takes more than {SUBSCRIPTIONS_BYTES} bytes of subscriptions")


async def _full_of_offsets(broker: Wire, topic: str) -> None:
    """Require that a broker has room for OFFSETS_BYTES of offsets, and for no more."""
    filler = (OFFSET_BYTES - OFFSET_FIXED_BYTES) // WIDE_BYTES - len(f"{topic}@0000")
    groups = ["\u00e4" * filler + f"{index:04}" for index in range(OFFSETS_BYTES // OFFSET_BYTES)]
    for start in range(0, len(groups), AT_ONCE):
        some = groups[start : start + AT_ONCE]
        await asyncio.gather(*(commit(broker, topic, group, 7) for group in some))
    require_equal("the last offset", await committed(broker, topic, groups[-1]), 7)
    fields = {"consumerGroup": "g", "topic": topic, "queueId": 0, "commitOffset": 7}
    above = await broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    require_equal("the code for one more offset", above.code, ResponseCode.SYSTEM_ERROR)
    require_equal("the first offset", await committed(broker, topic, groups[0]), 7)
