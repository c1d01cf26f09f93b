"""RMQ-ORD: order within a queue, and the queue locks of orderly consumers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from staticfire.harness.conformance.answers import json_object, number
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode

LOCK_S = 60.0


async def lock(
    bench: Bench, wire: Wire, group: str, client: str, topic: str, queues: Sequence[int]
) -> list[int]:
    """Lock queues; return those that the client holds now."""
    answer = await wire.ask(
        RequestCode.LOCK_BATCH_MQ, body=await _lock_body(bench, group, client, topic, queues)
    )
    held = json_object(answer).get("lockOKMQSet", [])
    return sorted(int(queue["queueId"]) for queue in held)


async def unlock(
    bench: Bench, wire: Wire, group: str, client: str, topic: str, queues: Sequence[int]
) -> None:
    body = await _lock_body(bench, group, client, topic, queues)
    require_equal("the code", (await wire.ask(RequestCode.UNLOCK_BATCH_MQ, body=body)).code, 0)


async def _lock_body(
    bench: Bench, group: str, client: str, topic: str, queues: Sequence[int]
) -> bytes:
    broker_name = (await bench.master()).name
    wanted = [{"topic": topic, "brokerName": broker_name, "queueId": queue} for queue in queues]
    return json.dumps({"consumerGroup": group, "clientId": client, "mqSet": wanted}).encode()


@case("RMQ-ORD-01")
async def send_order(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    offsets = [
        number(await bench.store(broker, topic, b"%d" % index), "queueOffset")
        for index in range(40)
    ]
    require(offsets == sorted(set(offsets)), f"the offsets are {offsets}: they do not rise")
    found = await bench.read_all(broker.address, topic, wanted=40)
    require_equal("what is delivered", found, [b"%d" % index for index in range(40)])


@case("RMQ-ORD-02")
async def queue_locks(bench: Bench) -> None:
    topic, wire = await bench.topic(), await bench.broker()
    group = bench.fresh_name("g")
    require_equal(
        "what the first gets", await lock(bench, wire, group, "one", topic, (0, 1)), [0, 1]
    )
    other = await bench.broker()
    second = await lock(bench, other, group, "two", topic, (1, 2))
    require_equal("what the second gets of 1 and 2", second, [2])
    another = await lock(bench, other, bench.fresh_name("g"), "two", topic, (0, 1))
    require_equal("what another group gets", another, [0, 1])


@case("RMQ-ORD-03", limit_s=120, is_slow=True)
async def locks_expire(bench: Bench) -> None:
    topic, wire = await bench.topic(), await bench.broker()
    group = bench.fresh_name("g")
    await lock(bench, wire, group, "one", topic, (0,))
    await asyncio.sleep(LOCK_S - 5)
    early = await lock(bench, wire, group, "two", topic, (0,))
    require_equal(f"what the second gets after {LOCK_S - 5:g} s", early, [])
    await asyncio.sleep(7)
    late = await lock(bench, wire, group, "two", topic, (0,))
    require_equal(f"what the second gets after {LOCK_S + 2:g} s", late, [0])


@case("RMQ-ORD-04")
async def unlocking(bench: Bench) -> None:
    topic, wire = await bench.topic(), await bench.broker()
    group = bench.fresh_name("g")
    await lock(bench, wire, group, "one", topic, (0,))
    await unlock(bench, wire, group, "two", topic, (0,))
    stolen = await lock(bench, wire, group, "two", topic, (0,))
    require_equal("what the second gets after it unlocked what the first has", stolen, [])
    await unlock(bench, wire, group, "one", topic, (0,))
    freed = await lock(bench, wire, group, "two", topic, (0,))
    require_equal("what the second gets after the first unlocked it", freed, [0])


@case("RMQ-ORD-05")
async def owners(bench: Bench) -> None:
    topic, group = await bench.topic(), bench.fresh_name("g")
    first, second = await bench.broker(), await bench.broker()
    await lock(bench, first, group, "one", topic, (0,))
    first.close()
    renewed = await lock(bench, second, group, "one", topic, (0,))
    require_equal("what the same client gets over another connection", renewed, [0])
