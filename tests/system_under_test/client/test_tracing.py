from __future__ import annotations

import asyncio

from system_under_test.client.producer import Producer, TransactionState
from system_under_test.client.trace_records import (
    ContextCode,
    TraceRecord,
    consumed,
    consuming,
    published,
    transaction_ended,
)
from system_under_test.client.tracing import (
    CHARACTERS_MAX,
    RECORDS_MAX,
    TRACE_TOPIC,
    TraceBuffer,
)
from system_under_test.protocol.message import Message
from tests.system_under_test.client.simulated_cluster import TOPIC, Cluster

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
