"""RMQ-LPL: pulls that wait for a message."""

from __future__ import annotations

import asyncio

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.request_fields import pull_fields
from staticfire.harness.conformance.wire import NoAnswer, Wire, request
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

WAITING = 2 | 4  # system flags: may wait, subscription included
HOLD_MS = 8000
SCAN_S = 6.0


def wait_for_messages(
    bench: Bench, broker: Wire, topic: str, *, subscription: str = "*", hold_ms: int = HOLD_MS
) -> asyncio.Future[RemotingCommand]:
    """Send a pull at the beginning of an empty queue; return the future of its answer."""
    ext = pull_fields(
        topic,
        queue=0,
        offset=0,
        group=bench.fresh_name("g"),
        sysFlag=WAITING,
        suspendTimeoutMillis=hold_ms,
        subscription=subscription,
    )
    return broker.send(request(RequestCode.PULL_MESSAGE, ext))


async def is_answered(future: asyncio.Future[RemotingCommand], *, within_s: float) -> bool:
    done, _ = await asyncio.wait([future], timeout=within_s)
    return bool(done)


@case("RMQ-LPL-01")
async def a_message_arrives(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    future = wait_for_messages(bench, broker, topic)
    require(not await is_answered(future, within_s=0.5), "answered before anything arrived")
    await bench.store(await bench.broker(), topic, b"news")
    require(await is_answered(future, within_s=1.0), "not answered 1 s after a message arrived")
    require_equal("the code", future.result().code, ResponseCode.SUCCESS)


@case("RMQ-LPL-02", limit_s=40)
async def nothing_arrives(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    future = wait_for_messages(bench, broker, topic)
    hold_s = HOLD_MS / 1000
    require(not await is_answered(future, within_s=hold_s - 0.2), f"answered before {hold_s:g} s")
    require(await is_answered(future, within_s=SCAN_S), f"not answered {SCAN_S:g} s after the wait")
    require_equal("the code", future.result().code, ResponseCode.PULL_NOT_FOUND)


@case("RMQ-LPL-03")
async def tags(bench: Bench) -> None:
    # Java scans all waiting pulls every 5 s, by offsets alone. A scan may come in between, but not three times running.
    for _ in range(3):
        if not await _is_ended_by_another_tag(bench):
            break
    else:
        require(False, "a tag that does not match ended the wait, three times")
    topic, broker = await bench.topic(), await bench.broker()
    future = wait_for_messages(bench, broker, topic, subscription="red")
    await bench.store(await bench.broker(), topic, b"yes", properties={"TAGS": "red"})
    require(
        await is_answered(future, within_s=1.0), "a tag that matches did not end the wait in 1 s"
    )
    require_equal("the code", future.result().code, ResponseCode.SUCCESS)


async def _is_ended_by_another_tag(bench: Bench) -> bool:
    topic, broker = await bench.topic(), await bench.broker()
    future = wait_for_messages(bench, broker, topic, subscription="red")
    # A busy broker may read the pull only after the message has arrived, and then answers it at once.
    require(not await is_answered(future, within_s=0.5), "answered before anything arrived")
    await bench.store(await bench.broker(), topic, b"no", properties={"TAGS": "blue"})
    return await is_answered(future, within_s=0.5)


@case("RMQ-LPL-04")
async def several(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    futures = [wait_for_messages(bench, broker, topic) for _ in range(10)]
    futures += [wait_for_messages(bench, await bench.broker(), topic) for _ in range(3)]
    await bench.store(await bench.broker(), topic, b"news")
    answered = [await is_answered(future, within_s=1.0) for future in futures]
    require_equal("how many of 13 were answered", sum(answered), 13)


@case("RMQ-LPL-05", limit_s=40, is_alone=True)
async def short_polling(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    try:
        await broker.obtain(RequestCode.UPDATE_BROKER_CONFIG, body=b"longPollingEnable=false\n")
        first = wait_for_messages(bench, broker, topic)  # a scan that is under way may take 5 s
        require(await is_answered(first, within_s=SCAN_S), f"not answered {SCAN_S:g} s after that")
        future = wait_for_messages(bench, broker, topic)
        require(await is_answered(future, within_s=3.0), "not answered after 3 s of short polling")
        require_equal("the code", future.result().code, ResponseCode.PULL_NOT_FOUND)
    finally:
        await broker.obtain(RequestCode.UPDATE_BROKER_CONFIG, body=b"longPollingEnable=true\n")


@case("RMQ-LPL-06", limit_s=60)
async def the_broker_stops(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    future = wait_for_messages(bench, broker, topic, hold_ms=60_000)
    require(not await is_answered(future, within_s=0.5), "answered before anything arrived")
    await bench.controls().process.stop(bench.target.nodes[(await bench.master()).address])
    try:
        await broker.answer(future, RequestCode.PULL_MESSAGE, answer_s=10)
    except NoAnswer:
        require(await broker.is_closed(wait_s=0), "neither answered nor closed in 10 s")
