"""RMQ-RTY: retries of messages that a consumer sends back, until they are dead letters."""

from __future__ import annotations

import asyncio
import json

from staticfire.harness.conformance.answers import number
from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.cases.admin import found_by_key
from staticfire.harness.conformance.consumers import register_consumer
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message

SOON_S = 4.0
RETRY_QUEUES, DEAD = 8, 6  # the chance that all of them are in one queue is 1 in 32,768


class FailingConsumer:
    """A group whose only member sends back every message."""

    def __init__(self, bench: Bench, wire: Wire, group: str, topic: str) -> None:
        self.bench, self.wire, self.group, self.topic = bench, wire, group, topic

    @property
    def retry_topic(self) -> str:
        return f"%RETRY%{self.group}"

    @property
    def dead_letters(self) -> str:
        return f"%DLQ%{self.group}"

    async def first(self) -> Message:
        """Return the message of queue 0. Raises ClauseBroken if it cannot be pulled."""
        pulled = await self.bench.pull(self.wire, self.topic, group=self.group)
        require(pulled.messages, f"a pull of what was stored is answered with {pulled.code}")
        return pulled.messages[0]

    async def send_back(
        self, physical_offset: int, *, level: int = 0, limit: int = 16
    ) -> RemotingCommand:
        fields = {
            "offset": physical_offset,
            "group": self.group,
            "delayLevel": level,
            "originTopic": self.topic,
            "unitMode": False,
            "maxReconsumeTimes": limit,
        }
        return await self.wire.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)

    async def early(self, topic: str, *, within_s: float, offset: int = 0) -> Message | None:
        """Return the message at an offset of queue 0, if a pull sent in this time finds it."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while loop.time() < until_s:
            if found := await self._at(topic, offset):
                return found
            await asyncio.sleep(0.05)
        return None

    async def arrived(self, topic: str, *, within_s: float, offset: int = 0) -> Message | None:
        """Return the message at an offset of queue 0; None if it is not there after this time.

        The last pull is sent when the time is over, because a busy machine may delay this process.
        """
        found = await self.early(topic, within_s=within_s, offset=offset)
        return found or await self._at(topic, offset)

    async def _at(self, topic: str, offset: int) -> Message | None:
        pulled = await self.bench.pull_if_served(self.wire, topic, queue=0, offset=offset)
        return pulled.messages[0] if pulled is not None and pulled.messages else None


async def failing_consumer(bench: Bench, retry_queues: int = 0) -> FailingConsumer:
    """Make a group and one message for it; an administrator makes the group if it is to have several retry queues."""
    topic, master = await bench.topic(queues=1), await bench.master()
    group = bench.fresh_name("g")
    if retry_queues:
        config = {
            "groupName": group,
            "retryQueueNums": retry_queues,
            "retryMaxTimes": 16,
            "consumeEnable": True,
        }
        made = json.dumps(config).encode()
        wire = await bench.broker()
        await wire.obtain(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=made)
    member = await register_consumer(bench, master.address, group, topic)
    tagged = {"TAGS": "tag", "KEYS": "key"}
    await bench.store(member.wire, topic, b"hard to take", properties=tagged, flag=9)
    for inner in (f"%RETRY%{group}", f"%DLQ%{group}"):
        bench.remove_later(inner, master.address)
    return FailingConsumer(bench, member.wire, group, topic)


@case("RMQ-RTY-01", limit_s=40)
async def sending_back(bench: Bench) -> None:
    consumer = await failing_consumer(bench)
    message = await consumer.first()
    require_equal("the code", (await consumer.send_back(message.physical_offset, level=1)).code, 0)
    early = await consumer.early(consumer.retry_topic, within_s=0.8)
    require(early is None, "a message sent back with level 1 came before 1 s")
    again = await consumer.arrived(consumer.retry_topic, within_s=SOON_S)
    require(again is not None, f"a message sent back with level 1 did not come in {SOON_S:g} s")
    await consumer.send_back(message.physical_offset)
    early = await consumer.early(consumer.retry_topic, within_s=9.5, offset=1)
    require(early is None, "a message sent back for the first time came before 10 s")
    again = await consumer.arrived(consumer.retry_topic, within_s=SOON_S, offset=1)
    require(again is not None, "a message sent back for the first time did not come in 13 s")


@case("RMQ-RTY-02")
async def what_is_kept(bench: Bench) -> None:
    consumer = await failing_consumer(bench)
    message = first = await consumer.first()
    answer_id = ""
    for hop in (1, 2):
        await consumer.send_back(message.physical_offset, level=1)
        found = await consumer.arrived(consumer.retry_topic, within_s=SOON_S, offset=hop - 1)
        require(found is not None, f"hop {hop} did not come")
        assert found is not None
        message = found
        require_equal("reconsumeTimes", message.reconsume_times, hop)
        require_equal("RETRY_TOPIC", message.properties.get("RETRY_TOPIC"), consumer.topic)
        origin = message.properties.get("ORIGIN_MESSAGE_ID", "")
        require(origin, "ORIGIN_MESSAGE_ID is missing")
        require(hop == 1 or origin == answer_id, f"ORIGIN_MESSAGE_ID changed to {origin}")
        answer_id = origin
        require_equal("the body", message.body, b"hard to take")
        kept = (message.properties.get("TAGS"), message.properties.get("KEYS"))
        require_equal("tag and keys", kept, ("tag", "key"))
        require_equal("the flag", message.flag, 9)
        require_equal("the born time", message.born_timestamp_ms, first.born_timestamp_ms)
        require_equal("the born host", message.born_host, first.born_host)


@case("RMQ-RTY-03")
async def dead_letters(bench: Bench) -> None:
    consumer = await failing_consumer(bench)
    message = await consumer.first()
    await consumer.send_back(message.physical_offset, level=1, limit=1)
    again = await consumer.arrived(consumer.retry_topic, within_s=SOON_S)
    require(again is not None, "a message was not retried below its limit")
    assert again is not None
    await consumer.send_back(again.physical_offset, level=1, limit=1)
    dead = await consumer.arrived(consumer.dead_letters, within_s=SOON_S)
    require(dead is not None, "a message at its limit is no dead letter")
    none = await consumer.arrived(consumer.retry_topic, within_s=2, offset=1)
    require(none is None, "a message at its limit was retried")
    route = await bench.await_route(consumer.dead_letters)
    require(route is not None, "the topic of dead letters has no route")
    assert route is not None
    require_equal("its queues", route["queueDatas"][0]["writeQueueNums"], 1)


@case("RMQ-RTY-04")
async def reading_dead_letters(bench: Bench) -> None:
    consumer = await failing_consumer(bench)
    message = await consumer.first()
    await consumer.send_back(message.physical_offset, level=-1)
    pulled = await bench.pull(
        consumer.wire, consumer.dead_letters, group=bench.fresh_name("g"), least=1
    )
    require_equal("what another group reads", [m.body for m in pulled.messages], [b"hard to take"])
    found = await found_by_key(consumer.wire, consumer.dead_letters, "key")
    require_equal("what the key finds", found, [b"hard to take"])


@case("RMQ-RTY-11")
async def dead_letters_of_several_retry_queues(bench: Bench) -> None:
    consumer = await failing_consumer(bench, retry_queues=RETRY_QUEUES)
    message = await consumer.first()
    for _ in range(DEAD):
        sent_back = await consumer.send_back(message.physical_offset, level=-1)
        require_equal("the code", sent_back.code, 0)
    address = (await bench.master()).address
    found = await bench.read_all(address, consumer.dead_letters, wanted=DEAD, within_s=SOON_S)
    require_equal("how many dead letters queue 0 has", len(found), DEAD)


@case("RMQ-RTY-05")
async def no_delay(bench: Bench) -> None:
    consumer = await failing_consumer(bench)
    message = await consumer.first()
    await consumer.send_back(message.physical_offset, level=5, limit=0)
    dead = await consumer.arrived(consumer.dead_letters, within_s=0.5)
    require(dead is not None, "a dead letter was not there after 0.5 s")


@case("RMQ-RTY-06")
async def negative_level(bench: Bench) -> None:
    consumer = await failing_consumer(bench)
    message = await consumer.first()
    require_equal("the code", (await consumer.send_back(message.physical_offset, level=-1)).code, 0)
    dead = await consumer.arrived(consumer.dead_letters, within_s=SOON_S)
    require(dead is not None, "a message sent back with level -1 is no dead letter")


@case("RMQ-RTY-07")
async def nothing_there(bench: Bench) -> None:
    consumer = await failing_consumer(bench)
    message = await consumer.first()
    for offset in (message.physical_offset + 1, message.physical_offset + (1 << 40)):
        answer = await consumer.send_back(offset, level=-1)
        require(answer.code != 0, f"sending back offset {offset} was answered with 0")
    fields = {"topic": consumer.dead_letters, "queueId": 0}
    end = await consumer.wire.obtain(RequestCode.GET_MAX_OFFSET, fields)
    stored = number(end.ext_fields, "offset") if end.code == ResponseCode.SUCCESS else 0
    require_equal("the dead letters", stored, 0)


@case("RMQ-RTY-09")
async def no_retry_queues(bench: Bench) -> None:
    consumer = await failing_consumer(bench)
    config = {
        "groupName": consumer.group,
        "retryQueueNums": 0,
        "consumeEnable": True,
        "retryMaxTimes": 16,
    }
    body = json.dumps(config).encode()
    made = await consumer.wire.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    require_equal("the code for the group", made.code, 0)
    message = await consumer.first()
    answer = await consumer.send_back(message.physical_offset, level=1)
    require_equal("the code", answer.code, 0)
    again = await consumer.arrived(consumer.retry_topic, within_s=3)
    require(again is None, "the message was retried")
