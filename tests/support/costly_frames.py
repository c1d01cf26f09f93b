"""Frames with which one hostile peer makes a node work, by name: as large as the protocol allows."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.support.hostile_peers import frame, json_frame, length

TOPIC = "Costly"  # the other client has made it
MIB = 1 << 20
EMPTY_MESSAGE = length(22) + b"\x00" * 18
SEND = {"a": "p", "b": TOPIC, "c": "TBW102", "d": "8", "k": "false"} | dict.fromkeys("efghj", "0")
BROKER, NAME_SERVER, REPLICATION = "broker", "name server", "replication"


@dataclass(frozen=True, slots=True)
class Costly:
    """`make` gives bytes that are written one after the other; `port` is BROKER, NAME_SERVER or REPLICATION.

    `answers`: how many come later than the answer to a question behind them.
    """

    port: str
    make: Callable[[], Iterable[bytes]]
    answers: int = 0


def asked(code: RequestCode, body: bytes = b"", **ext: str) -> bytes:
    return bytes(RemotingCommand.request(int(code), ext, body).encode())


def heartbeat(**parts: list[dict[str, object]]) -> bytes:
    return asked(RequestCode.HEART_BEAT, json.dumps({"clientID": "c", **parts}).encode())


def groups(count: int) -> bytes:
    return heartbeat(consumerDataSet=[{"groupName": f"g{number}"} for number in range(count)])


def expression(text: str, kind: str = "SQL92") -> bytes:
    """A heartbeat of a group that filters."""
    data = {"topic": TOPIC, "subString": text, "expressionType": kind, "subVersion": 1}
    return heartbeat(consumerDataSet=[{"groupName": "g", "subscriptionDataSet": [data]}])


def subscriptions(count: int) -> bytes:
    data = [{"topic": f"t{number}", "subString": "*"} for number in range(count)]
    return heartbeat(consumerDataSet=[{"groupName": "g", "subscriptionDataSet": data}])


def dialect(body: bytes) -> bytes:
    """JSON of fastjson's kind, where a request has to read it."""
    return asked(RequestCode.LOCK_BATCH_MQ, body)


def options(body: bytes) -> bytes:
    return asked(RequestCode.UPDATE_BROKER_CONFIG, body)


def batch(messages: int, properties: str = "") -> bytes:
    ext = SEND | {"i": properties, "m": "true"}
    return asked(RequestCode.SEND_BATCH_MESSAGE, EMPTY_MESSAGE * messages, **ext)


def batch_of(messages: int, properties: int) -> bytes:
    text = "".join(f"{number}\x01v\x02" for number in range(properties)).encode()
    fields = bytes(12) + length(0) + len(text).to_bytes(2, "big") + text
    one = length(4 + len(fields)) + fields
    return asked(RequestCode.SEND_BATCH_MESSAGE, one * messages, **SEND | {"i": "", "m": "true"})


def sent(topic: str = TOPIC, properties: str = "", body: bytes = b"") -> bytes:
    return asked(RequestCode.SEND_MESSAGE_V2, body, **SEND | {"b": topic, "i": properties})


def pulled(group: str, **ext: str) -> bytes:
    names = {"consumerGroup": group, "topic": TOPIC, "queueId": "0", "queueOffset": "0"}
    numbers = {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
    more = {"subscription": "*", "subVersion": "1"}
    return asked(RequestCode.PULL_MESSAGE, b"", **names | numbers | more | ext)


def committed(group: str, offset: int) -> bytes:
    names = {"consumerGroup": group, "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
    return asked(RequestCode.UPDATE_CONSUMER_OFFSET, b"", **names)


def binary_fields(count: int) -> bytes:
    """A header with so many empty fields."""
    start = (10).to_bytes(2, "big") + b"\x00\x01\x99" + b"\x00" * 12
    fields = b"".join(b"\x00\x02%02x\x00\x00\x00\x00" % (number % 256) for number in range(count))
    return frame(start + length(len(fields)) + fields, serialize_type=1)


def json_fields(count: int) -> bytes:
    fields = ",".join(f'"{number:x}":""' for number in range(count))
    return json_frame('{"code":10,"extFields":{' + fields + "}}")


def _sized(data: bytes) -> bytes:
    return length(len(data)) + data


def registration(topics: bytes, count: int, *, compressed: bool = True, broker: str = "x") -> bytes:
    plain = _sized(b"{}") + length(count) + topics + _sized(b"[]")
    body = zlib.compress(plain, 6) if compressed else plain
    names = {"brokerName": broker, "brokerAddr": f"{broker}:1", "clusterName": "c", "brokerId": "0"}
    ext = {"haServerAddr": "127.0.0.9:2", "compressed": str(compressed).lower(), "bodyCrc32": "0"}
    return asked(RequestCode.REGISTER_BROKER, body, **names | ext)


def topic_lines(count: int, start: str = "t") -> bytes:
    return b"".join(_sized(f"{start}{number} 8 8 6 SINGLE_TAG".encode()) for number in range(count))


def made_topic(topic: str, queues: int = 1) -> bytes:
    counts = {"readQueueNums": str(queues), "writeQueueNums": str(queues)}
    names = {"topic": topic, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "perm": "6"}
    return asked(RequestCode.UPDATE_AND_CREATE_TOPIC, b"", **names | counts)


def many(make: Callable[[int], bytes], count: int) -> list[bytes]:
    return [b"".join(make(number) for number in range(count))]


# Those that the first survey named (docs/limits.md).
NAMED: dict[str, Costly] = {
    "heartbeat with 3,000 new groups": Costly(BROKER, lambda: [groups(3_000)]),
    "heartbeat with 500 new groups": Costly(BROKER, lambda: [groups(500)]),
    "13 MiB of numbers in fastjson's dialect": Costly(
        BROKER, lambda: [dialect(b"{0:[" + b"1," * (13 * MIB // 2) + b"1]}")]
    ),
    "8 million opening brackets": Costly(BROKER, lambda: [dialect(b"[" * 8_000_000)]),
    "objects as keys of keys, 26 levels": Costly(
        BROKER, lambda: [dialect(b"{" * 26 + b"1:1" + b"}:1" * 25)]
    ),
    "4 million continuation lines of options": Costly(
        BROKER, lambda: [options(b"a=" + b"x\\\n" * 4_000_000)]
    ),
    "13 MiB of options without a line break": Costly(BROKER, lambda: [options(b"a" * (13 * MIB))]),
    "900,000 header fields, in the binary form": Costly(BROKER, lambda: [binary_fields(900_000)]),
    "900,000 header fields, as JSON": Costly(BROKER, lambda: [json_fields(900_000)]),
    "batch of 180,000 empty messages": Costly(BROKER, lambda: [batch(180_000)], answers=1),
    "batch of 4,000 empty messages": Costly(BROKER, lambda: [batch(4_000)], answers=1),
    "batch of 4,000 empty messages with 32 KB of properties": Costly(
        BROKER, lambda: [batch(4_000, "a\x01" + "x" * 32_000)]
    ),
    "batch of 4,000 messages with 12 properties each": Costly(
        BROKER, lambda: [batch_of(4_000, 12)], answers=1
    ),
    "batch of 50,000 messages with 12 properties each": Costly(
        BROKER, lambda: [batch_of(50_000, 12)], answers=1
    ),
    "SQL92 expression of 16,000 minus signs": Costly(BROKER, lambda: [expression("-" * 16_000)]),
    "SQL92 expression of 3,200 operands of OR": Costly(
        BROKER, lambda: [expression(" OR ".join(["a"] * 3_200))]
    ),
    "registration of 1.2 million topics (61 KB)": Costly(
        NAME_SERVER,
        lambda: [registration(_sized(b"t 8 8 6 SINGLE_TAG") * 1_200_000, 1_200_000)],
    ),
    "registration of 20,000 topics": Costly(
        NAME_SERVER, lambda: [registration(topic_lines(20_000), 20_000)]
    ),
    "20,000 offsets of groups that do not exist": Costly(
        BROKER, lambda: many(lambda number: committed(f"none{number}", 1), 20_000)
    ),
    "offset 2^63-1": Costly(BROKER, lambda: [committed("g", 2**63 - 1)]),
}

# More of their kind.
OTHERS: dict[str, Costly] = {
    "registration that inflates to 512 MiB": Costly(
        NAME_SERVER, lambda: [registration(bytes(512 * MIB), 1)]
    ),
    "registration of 14 MiB without compression": Costly(
        NAME_SERVER,
        lambda: [registration(topic_lines(600_000), 600_000, compressed=False)],
    ),
    "60 brokers with the same 4,000 topics, which leave": Costly(
        NAME_SERVER,
        lambda: [registration(topic_lines(4_000), 4_000, broker=f"b{n}") for n in range(60)],
    ),
    "1,000 brokers with 200 topics each, which leave": Costly(
        NAME_SERVER,
        lambda: [
            registration(topic_lines(200, f"b{n}-"), 200, broker=f"b{n}") for n in range(1_000)
        ],
    ),
    "20,000 key-value pairs of 100 bytes": Costly(
        NAME_SERVER,
        lambda: many(
            lambda number: asked(
                RequestCode.PUT_KV_CONFIG, namespace="n", key=f"k{number}", value="v" * 100
            ),
            20_000,
        ),
    ),
    "200,000 route look-ups in one stream": Costly(
        NAME_SERVER,
        lambda: many(
            lambda number: asked(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=f"t{number}"), 200_000
        ),
    ),
    "100,000 requests in one stream": Costly(
        BROKER,
        lambda: many(
            lambda _: asked(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId="0"), 100_000
        ),
    ),
    "4 MiB of digits": Costly(BROKER, lambda: [dialect(b'{"a":' + b"9" * (4 * MIB - 100) + b"}")]),
    "4 MiB of escapes in one string": Costly(
        BROKER, lambda: [dialect(b'{"a":"' + b"\\u0041" * (4 * MIB // 6 - 100) + b'"}')]
    ),
    "JSON string of 4 MiB without an end": Costly(
        BROKER, lambda: [dialect(b'{a:"' + b"\\'" * (2 * MIB - 100))]
    ),
    "19,000 nested objects": Costly(
        BROKER, lambda: [dialect(b'{"a":' * 19_000 + b"1" + b"}" * 19_000)]
    ),
    "3,000 references to a list of 10,000": Costly(
        BROKER,
        lambda: [
            dialect(b'{"a":[' + b"1," * 10_000 + b'1],"b":[' + b'{"$ref":"$.a"},' * 3_000 + b"1]}")
        ],
    ),
    "code with a million digits": Costly(
        BROKER, lambda: [json_frame('{"code":' + "1" * 1_000_000 + "}")]
    ),
    "heartbeat with 9,000 subscriptions of one group": Costly(
        BROKER, lambda: [subscriptions(9_000)]
    ),
    "list of 30,000 tags": Costly(
        BROKER, lambda: [expression("||".join(f"t{number}" for number in range(30_000)), "TAG")]
    ),
    "SQL92 expression of 4,000 opening brackets": Costly(
        BROKER, lambda: [expression("(" * 4_000 + "a" + ")" * 4_000)]
    ),
    "SQL92 list of 4,000 texts": Costly(
        BROKER, lambda: [expression("a IN (" + ",".join(["'b'"] * 4_000) + ")")]
    ),
    "SQL92 expression of 4,000 NOT": Costly(BROKER, lambda: [expression("NOT " * 4_000 + "a")]),
    "SQL92 text of 16,000 quotes": Costly(BROKER, lambda: [expression("a = '" + "''" * 8_000)]),
    "topic of 2^31-1 queues": Costly(
        BROKER,
        lambda: [made_topic("T", 2**31 - 1)],
    ),
    "statistics of a topic of 4,096 queues, three times": Costly(
        BROKER,
        lambda: [made_topic("T", 4_096), *[asked(RequestCode.GET_TOPIC_STATS_INFO, topic="T")] * 3],
    ),
    "8,500 sends, each to a new topic": Costly(
        BROKER, lambda: many(lambda number: sent(topic=f"new{number}"), 8_500)
    ),
    "10,000 topics of an administrator": Costly(
        BROKER, lambda: many(lambda number: made_topic(f"t{number}"), 10_000)
    ),
    "9,000 groups of an administrator": Costly(
        BROKER,
        lambda: many(
            lambda number: asked(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                json.dumps({"groupName": f"g{number}"}).encode(),
            ),
            9_000,
        ),
    ),
    "60 heartbeats with SQL92 of 16,000 characters": Costly(
        BROKER,
        lambda: many(lambda number: expression(" OR ".join(["a"] * 2_000 + [f"a = {number}"])), 60),
    ),
    "5,500 pulls, each of a new group": Costly(
        BROKER, lambda: many(lambda number: pulled(f"new{number}"), 5_500)
    ),
    "message with 16,000 keys": Costly(
        BROKER, lambda: [sent(properties="KEYS\x01" + "k " * 16_000 + "\x02")]
    ),
    "500 messages with 5,000 keys each": Costly(
        BROKER, lambda: [sent(properties="KEYS\x01" + "k " * 5_000 + "\x02") * 500]
    ),
    "message with 5,000 properties": Costly(
        BROKER,
        lambda: [sent(properties="".join(f"{number:x}\x01\x02" for number in range(5_000)))],
    ),
    "lock of 4,000 queues": Costly(
        BROKER,
        lambda: [
            dialect(
                json.dumps(
                    {
                        "consumerGroup": "g",
                        "clientId": "c",
                        "mqSet": [
                            {"topic": TOPIC, "brokerName": "broker-a", "queueId": number}
                            for number in range(4_000)
                        ],
                    }
                ).encode()
            )
        ],
    ),
    "20,000 look-ups of messages inside bodies": Costly(
        BROKER,
        lambda: [
            sent(body=bytes(3 * MIB)),
            *many(
                lambda number: asked(
                    RequestCode.VIEW_MESSAGE_BY_ID, offset=str(1000 + 97 * number)
                ),
                20_000,
            ),
        ],
    ),
    "20,000 ends of transactions inside bodies": Costly(
        BROKER,
        lambda: [
            sent(body=bytes(3 * MIB)),
            *many(
                lambda number: asked(
                    RequestCode.END_TRANSACTION,
                    producerGroup="p",
                    tranStateTableOffset="0",
                    commitLogOffset=str(1000 + 97 * number),
                    commitOrRollback="8",
                    msgId="m",
                    transactionId="m",
                ),
                20_000,
            ),
        ],
    ),
    "2 million reports to the replication port": Costly(
        REPLICATION, lambda: [bytes(8 * 2_000_000)]
    ),
}
FRAMES = NAMED | OTHERS
