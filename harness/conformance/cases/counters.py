"""RMQ-ADM-12, RMQ-ADM-19: a broker's counters of messages (VIEW_BROKER_STATS_DATA)."""

from __future__ import annotations

import asyncio

from staticfire.harness.conformance.answers import json_object
from staticfire.harness.conformance.asking import ask_until
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.admin import option_of
from staticfire.harness.conformance.cases.retry import FailingConsumer
from staticfire.harness.conformance.cases.send import batch_record
from staticfire.harness.conformance.consumers import register_consumer
from staticfire.harness.conformance.request_fields import send_fields, short_fields
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode

DELAY_S = 1.0  # of level 1
SOON_S = 5.0
FORGETS = "autoDeleteUnusedStats"
PUTS, SENT_BACK = "TOPIC_PUT_NUMS", "SNDBCK_PUT_NUMS"
SAMPLED_S = 25.0  # brokers sample their counters every 10 s
BATCHES, OF_BATCH, SENT_BACK_COUNT = 3, 4, 5


@case("RMQ-ADM-12", is_alone=True)
async def counters_of_a_topic(bench: Bench) -> None:
    topic, broker = await bench.topic(), await bench.broker()
    require_equal("the code without a message", await _code(broker, topic), _UNKNOWN)
    await bench.store(broker, topic, properties={"DELAY": "1"})
    early = await _code(broker, topic)
    require_equal("the code before a delayed message is due", early, _UNKNOWN)
    code = await ask_until(
        lambda: _code(broker, topic),
        lambda code: code == ResponseCode.SUCCESS,
        within_s=DELAY_S + SOON_S,
        every_s=0.1,
    )
    require_equal("the code after it was due", code, 0)
    sent = await bench.topic()
    await bench.store(broker, sent)
    require_equal("the code after a send", await _code(broker, sent), 0)
    await _forgotten(broker, topic)
    require_equal("the code for another topic than the deleted one", await _code(broker, sent), 0)


async def _forgotten(broker: Wire, topic: str) -> None:
    """Require that a broker drops the counters of a deleted topic, if it drops them at all."""
    before = await option_of(broker, FORGETS)
    if before is None:
        return
    # A broker that always drops them may refuse the option.
    await broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=f"{FORGETS}=true\n".encode())
    try:
        await broker.obtain(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        require_equal("the code for a deleted topic", await _code(broker, topic), _UNKNOWN)
    finally:
        await broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=f"{FORGETS}={before}\n".encode())


_UNKNOWN = ResponseCode.SYSTEM_ERROR


async def _code(broker: Wire, topic: str) -> int:
    """Return the code of the answer about a topic's counter of stored messages."""
    fields = {"statsName": PUTS, "statsKey": topic}
    return (await broker.ask(RequestCode.VIEW_BROKER_STATS_DATA, fields)).code


@case("RMQ-ADM-19", limit_s=60)
async def messages_that_are_counted(bench: Bench) -> None:
    """The first message or copy may come before or after the first sample, so it may count or not."""
    topic, broker, group = await bench.topic(queues=1), await bench.broker(), bench.fresh_name("g")
    await register_consumer(bench, broker.address, group, topic)
    await bench.store(broker, topic)
    failing = FailingConsumer(bench, broker, group, topic)
    message = await failing.first()
    await _send_back(failing, message.physical_offset)
    await asyncio.sleep(1.0)  # until both counters have their first sample

    fields = short_fields({**send_fields(topic, queue=0), "batch": True})
    records = batch_record(b"body", {}) * OF_BATCH
    for _ in range(BATCHES):
        answer = await broker.ask(RequestCode.SEND_BATCH_MESSAGE, fields, records)
        require_equal("the code for a batch", answer.code, 0)
    for _ in range(SENT_BACK_COUNT):
        await _send_back(failing, message.physical_offset)

    await _require_sum(broker, PUTS, topic, BATCHES * OF_BATCH)
    await _require_sum(broker, SENT_BACK, f"{topic}@{group}", SENT_BACK_COUNT)


async def _send_back(failing: FailingConsumer, physical_offset: int) -> None:
    require_equal("the code for a send-back", (await failing.send_back(physical_offset)).code, 0)


async def _require_sum(broker: Wire, counter: str, key: str, wanted: int) -> None:
    """Require that the sum of a counter over the last minute becomes `wanted`, or that and the first event."""
    accepted = (wanted, wanted + 1)
    fields = {"statsName": counter, "statsKey": key}

    async def summed() -> object:
        answer = await broker.ask(RequestCode.VIEW_BROKER_STATS_DATA, fields)
        if answer.code != ResponseCode.SUCCESS:
            return f"code {answer.code}"
        return json_object(answer).get("statsMinute", {}).get("sum")

    found = await ask_until(summed, lambda found: found in accepted, within_s=SAMPLED_S)
    require(found in accepted, f"the sum of {counter} is {found}, not {wanted} or {wanted + 1}")
