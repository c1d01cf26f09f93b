from __future__ import annotations

import asyncio
import contextlib
import zlib

import pytest

from staticfire.system_under_test.client.consumer.pull.pull_consumer import PullConsumerConfig
from staticfire.system_under_test.client.listening import ConsumeResult
from staticfire.system_under_test.client.producer.producer import Producer
from staticfire.system_under_test.client.producer.tracing import (
    CHARACTERS_MAX,
    RECORDS_MAX,
    TRACE_TOPIC,
    TraceBuffer,
    Tracing,
)
from staticfire.system_under_test.client.producer.transactions import TransactionState
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.trace.trace_records import (
    ContextCode,
    TraceRecord,
    consumed,
    consuming,
    published,
    transaction_ended,
)
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.compression import COMPRESSED_FLAG
from staticfire.system_under_test.protocol.message import Message
from tests.system_under_test.client.scripted_remoting import (
    ScriptedRemoting,
    answer_code,
    answer_route,
    make_env,
    route_of,
)
from tests.system_under_test.client.simulated_cluster import TOPIC, Cluster
from tests.system_under_test.client.virtual_time import in_virtual_time

MESSAGE = Message("TopicTest", b"hello world", {"TAGS": "TagA", "KEYS": "k1"})
NOW = 1600000000000


def shown(record: TraceRecord) -> str:
    return record.text.replace("\x01", "|").replace("\x02", ".")


def test_records_are_those_of_rocketmq() -> None:
    """Produced by RocketMQ 4.9.8 (TraceDataEncoder), but for the number of the last one's message type: 0 there."""
    pub = published(
        MESSAGE,
        now_ms=NOW,
        region="DefaultRegion",
        group="g1",
        message_id="MSGID",
        store_host="10.0.0.1:10911",
        cost_ms=5,
        offset_message_id="OFFID",
        succeeded=True,
    )
    assert shown(pub) == (
        "Pub|1600000000000|DefaultRegion|g1|TopicTest|MSGID|TagA|k1|10.0.0.1:10911|11|5|0|OFFID|true."
    )
    assert pub.keys == ("k1", "MSGID")
    before = consuming(MESSAGE, now_ms=NOW, group="g1", request_id="REQID", message_id="MSGID")
    assert shown(before) == "SubBefore|1600000000000|null|g1|REQID|MSGID|0|k1."
    after = consumed(
        MESSAGE,
        now_ms=NOW,
        group="g1",
        request_id="REQID",
        message_id="MSGID",
        cost_ms=5,
        code=ContextCode.SUCCESS,
        succeeded=True,
    )
    assert shown(after) == "SubAfter|REQID|MSGID|5|true|k1|0|1600000000000|g1."
    ended = transaction_ended(
        MESSAGE,
        now_ms=NOW,
        region="DefaultRegion",
        group="g1",
        message_id="MSGID",
        store_host="10.0.0.1:10911",
        state="COMMIT_MESSAGE",
        from_check=False,
    )
    assert shown(ended) == (
        "EndTransaction|1600000000000|DefaultRegion|g1|TopicTest|MSGID|TagA|k1|10.0.0.1:10911|2|MSGID|"
        "COMMIT_MESSAGE|false."
    )


def test_messages_of_trace_have_a_bound_and_so_has_what_waits() -> None:
    buffer = TraceBuffer()
    for number in range(RECORDS_MAX + 10):
        buffer.add(TraceRecord("x" * 1000, (f"k{number}",)))
    assert buffer.dropped == 10
    sizes = []
    keys: list[str] = []
    while (batch := buffer.take()) is not None:
        sizes.append(len(batch[0]))
        keys += batch[1]
    assert max(sizes) <= CHARACTERS_MAX
    assert keys == [f"k{number}" for number in range(RECORDS_MAX)]


def test_what_becomes_of_messages_can_be_read() -> None:
    cluster = Cluster()

    async def commit(_: Message) -> TransactionState:
        return TransactionState.COMMIT

    async def work(producer: Producer) -> None:
        await producer.send(Message(TOPIC, b"plain", {"KEYS": "k-1"}))
        await producer.send_in_transaction(Message(TOPIC, b"in a transaction"), commit)
        await asyncio.sleep(3)

    async def story() -> None:
        cluster.start_consumer("c", trace=True)
        await cluster.until(5.0)
        await cluster.produce("p", work, trace=True)
        await asyncio.sleep(1)
        cluster.start_consumer("t", group="tracers", topic=TRACE_TOPIC, sends_back=False)
        await asyncio.sleep(5)

    cluster.run(story, "p", "c", "t")
    records = [
        record.split("\x01")
        for one in cluster.consumed
        if one.member == "t"
        for record in one.key.split("\x02")
        if record
    ]
    kinds = sorted(record[0] for record in records)
    assert kinds == ["EndTransaction", "Pub", "Pub", *["SubAfter"] * 2, *["SubBefore"] * 2]
    (plain,) = [record for record in records if record[0] == "Pub" and record[7] == "k-1"]
    assert plain[4] == TOPIC
    assert plain[-1] == "true"
    ids = {record[5] for record in records if record[0] in ("Pub", "SubBefore")}
    assert len(ids) == 2


class Bench:
    """Trace of a member with a scripted listener, and the trace messages that it sent."""

    def __init__(self, remoting: ScriptedRemoting) -> None:
        remoting.scripts["n"] = answer_route(route_of("a"))
        remoting.scripts["a:0"] = answer_code(
            ResponseCode.SUCCESS, msgId="0" * 32, queueId="0", queueOffset="0"
        )
        config = PullConsumerConfig(group="g", name_servers=("n",), client_id="10.0.0.1@c")
        self.remoting = remoting
        self.tracing = Tracing(ClientInstance(make_env(), config), "g")

    async def consume(
        self, result: bool | ConsumeResult | Exception, *messages: Message, took_s: float = 1.0
    ) -> list[list[str]]:
        """Fields of the records."""

        async def listener(_: list[Message], _queue: MessageQueue) -> bool | ConsumeResult:
            await asyncio.sleep(took_s)
            if isinstance(result, Exception):
                raise result
            return result

        traced = self.tracing.traced(listener, timeout_s=900.0)
        with contextlib.suppress(ValueError):
            await traced(list(messages) or [MESSAGE], MessageQueue("t", "a", 0))
        await asyncio.sleep(1.0)
        return self.records()

    def records(self) -> list[list[str]]:
        sends = self.remoting.calls_to("a:0", RequestCode.SEND_MESSAGE_V2)
        text = "".join(inflated(call.command).decode() for call in sends)
        return [record.split("\x01") for record in text.split("\x02") if record]


def inflated(command: RemotingCommand) -> bytes:
    is_plain = not int(command.ext_fields["f"]) & COMPRESSED_FLAG
    return command.body if is_plain else zlib.decompress(command.body)


@pytest.mark.parametrize(
    ("result", "took_s", "succeeded", "code"),
    [
        (True, 1.0, "true", ContextCode.SUCCESS),
        (ConsumeResult(succeeded=True, acknowledged=0), 1.0, "true", ContextCode.SUCCESS),
        (False, 1.0, "false", ContextCode.FAILED),
        (ConsumeResult(succeeded=False, delay_level=3), 1.0, "false", ContextCode.FAILED),
        (ValueError("no"), 1.0, "false", ContextCode.EXCEPTION),
        (True, 900.0, "true", ContextCode.TIME_OUT),
        (False, 901.0, "false", ContextCode.TIME_OUT),
        (ValueError("no"), 901.0, "false", ContextCode.EXCEPTION),
    ],
)
@in_virtual_time
async def test_how_a_listener_ended(
    remoting: ScriptedRemoting,
    result: bool | ConsumeResult | Exception,
    took_s: float,
    succeeded: str,
    code: ContextCode,
) -> None:
    before, after = await Bench(remoting).consume(result, took_s=took_s)
    assert before[0] == "SubBefore"
    assert after[0] == "SubAfter"
    assert (after[3], after[4], after[6]) == (
        str(int(took_s * 1000)),
        succeeded,
        str(code.value),
    )


@in_virtual_time
async def test_neither_trace_itself_is_traced_nor_what_the_broker_has_switched_off(
    remoting: ScriptedRemoting,
) -> None:
    quiet = Message("t", b"x", {"TRACE_ON": "false"})
    records = await Bench(remoting).consume(True, Message(TRACE_TOPIC, b"x"), quiet, MESSAGE)
    assert [record[0] for record in records] == ["SubBefore", "SubAfter"]
    assert records[0][-1] == "k1"


@in_virtual_time
async def test_many_records_do_not_wait_and_none_is_dropped(remoting: ScriptedRemoting) -> None:
    bench = Bench(remoting)
    many = [
        Message("t", b"x", {"KEYS": "k" * 200, "UNIQ_KEY": f"{number:032}"})
        for number in range(3 * RECORDS_MAX)
    ]
    records = await bench.consume(True, *many)
    assert len(records) == 2 * len(many)


def test_the_answer_to_a_question_about_a_transaction_is_traced() -> None:
    cluster = Cluster()

    async def unknown(_: Message) -> TransactionState:
        return TransactionState.UNKNOWN

    async def rolled_back(_: Message, _broker: str | None) -> TransactionState:
        return TransactionState.ROLLBACK

    async def work(producer: Producer) -> None:
        await producer.send_in_transaction(Message(TOPIC, b"x"), unknown)
        await asyncio.sleep(130)

    async def story() -> None:
        await cluster.produce("p", work, trace=True, check=rolled_back)
        cluster.start_consumer("t", group="tracers", topic=TRACE_TOPIC, sends_back=False)
        await asyncio.sleep(5)

    cluster.run(story, "p", "t")
    records = [
        record.split("\x01")
        for one in cluster.consumed
        for record in one.key.split("\x02")
        if record.startswith("EndTransaction")
    ]
    assert [record[-2:] for record in records] == [
        ["UNKNOW", "false"],
        ["ROLLBACK_MESSAGE", "true"],
    ]
    assert records[0][4:9] == records[1][4:9]  # topic, id, tags, keys, broker
    assert records[1][2] == "DefaultRegion"
