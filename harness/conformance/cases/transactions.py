"""RMQ-TXN: half messages, their ends, and the broker's check-backs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from staticfire.harness.conformance.answers import number, read_messages
from staticfire.harness.conformance.bench import STORED, Bench
from staticfire.harness.conformance.case import case, require, require_equal
from staticfire.harness.conformance.consumers import Member, register_producer
from staticfire.harness.conformance.failures import BadAnswer
from staticfire.harness.conformance.request_fields import topic_fields
from staticfire.harness.conformance.wire import NoAnswer, Wire
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import parse_offset_message_id

PREPARED = 4  # sysFlag
COMMIT, ROLLBACK = 8, 12
SOON_S = 2.0
CHECK_PERIOD_S = 60.0
HALVES = 4  # open at the same time, and checked in one round
LARGE_QUEUES, LARGE_TOPICS = (
    4096,
    64,
)  # topics with more queues than some brokers have room for
GIVE_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """A half message and the request that ends it."""

    producer: Member
    topic: str
    identity: str
    half_offset: int
    physical_offset: int

    def end_fields(self, how: int, **changed: object) -> dict[str, object]:
        return {
            "producerGroup": self.producer.group,
            "tranStateTableOffset": self.half_offset,
            "commitLogOffset": self.physical_offset,
            "commitOrRollback": how,
            "fromTransactionCheck": False,
            "msgId": self.identity,
            **changed,
        }

    async def end(
        self, how: int, *, wire: Wire | None = None, **changed: object
    ) -> RemotingCommand:
        """Send a request that ends it, and return the answer."""
        fields = self.end_fields(how, **changed)
        return await (wire or self.producer.wire).ask(RequestCode.END_TRANSACTION, fields)


async def prepare(bench: Bench, body: bytes = b"half", *, immunity_s: int = 0) -> Half:
    """Make a topic with one open transaction in queue 1."""
    topic, master = await bench.topic(), await bench.master()
    producer = await register_producer(bench, master.address, bench.fresh_name("p"))
    return await prepare_another(bench, topic, producer, body, immunity_s=immunity_s)


async def prepare_another(
    bench: Bench, topic: str, producer: Member, body: bytes, *, immunity_s: int = 0
) -> Half:
    identity = f"7F000001{bench.fresh_number():024X}"
    properties = {
        "TRAN_MSG": "true",
        "PGROUP": producer.group,
        "UNIQ_KEY": identity,
        "TAGS": "tag",
    }
    if immunity_s:
        properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] = str(immunity_s)
    fields = await bench.store(
        producer.wire,
        topic,
        body,
        queue=1,
        properties=properties,
        sysFlag=PREPARED,
        producerGroup=producer.group,
        bornTimestamp=bench.now_ms(),
    )
    try:
        _, _, physical = parse_offset_message_id(fields.get("msgId", ""))
    except ValueError as error:
        raise BadAnswer(str(error)) from error
    return Half(
        producer=producer,
        topic=topic,
        identity=identity,
        half_offset=number(fields, "queueOffset"),
        physical_offset=physical,
    )


async def bodies(bench: Bench, half: Half, *, within_s: float, wanted: int = 1) -> list[bytes]:
    """Return the bodies in queue 1 of the topic once there are enough, or at the end of the time."""
    address = half.producer.wire.address
    return await bench.read_all(address, half.topic, queue=1, wanted=wanted, within_s=within_s)


@case("RMQ-TXN-01")
async def half_messages(bench: Bench) -> None:
    half = await prepare(bench)
    require_equal("what consumers see", await bodies(bench, half, within_s=SOON_S), [])
    end = await half.producer.wire.ask(
        RequestCode.GET_MAX_OFFSET, {"topic": half.topic, "queueId": 1}
    )
    require_equal("the end of the queue", end.ext_fields.get("offset"), "0")


@case("RMQ-TXN-02")
async def commit(bench: Bench) -> None:
    half = await prepare(bench, b"the body")
    require_equal("the code", (await half.end(COMMIT)).code, 0)
    found = await bodies(bench, half, within_s=SOON_S)
    require_equal("what consumers see", found, [b"the body"])
    await asyncio.sleep(SOON_S)
    pulled = await bench.pull(half.producer.wire, half.topic, queue=1)
    require_equal("how often", len(pulled.messages), 1)
    message = pulled.messages[0]
    require_equal("the tag", message.properties.get("TAGS"), "tag")
    require_equal("the born host", message.born_host, half.producer.wire.local_address)
    require_equal("the unique key", message.properties.get("UNIQ_KEY"), half.identity)
    require_equal(
        "the place of its half", message.prepared_transaction_offset, half.physical_offset
    )


@case("RMQ-TXN-03", limit_s=120, is_slow=True)
async def rollback(bench: Bench) -> None:
    half = await prepare(bench)
    require_equal("the code", (await half.end(ROLLBACK)).code, 0)
    require_equal("what consumers see", await bodies(bench, half, within_s=SOON_S), [])
    asked = await half.producer.next_request(
        RequestCode.CHECK_TRANSACTION_STATE, wait_s=CHECK_PERIOD_S + 15
    )
    require(asked is None, "a transaction that was rolled back is asked for")


@case("RMQ-TXN-04", limit_s=180, is_slow=True)
async def check_back(bench: Bench) -> None:
    half = await prepare(bench, b"the body")
    asked = await _asked(half.producer)
    fields = {
        "offset of the half": number(asked.ext_fields, "tranStateTableOffset"),
        "message id": asked.ext_fields.get("msgId"),
    }
    require_equal("the message that is asked for", fields["message id"], half.identity)
    message = read_messages(asked.body)[0]
    require_equal(
        "topic, queue and body in the question",
        (message.topic, message.queue_id, message.body),
        (half.topic, 1, b"the body"),
    )
    answer = await half.end(
        COMMIT,
        tranStateTableOffset=fields["offset of the half"],
        commitLogOffset=number(asked.ext_fields, "commitLogOffset"),
        fromTransactionCheck=True,
    )
    require_equal("the code for the answer", answer.code, 0)
    require_equal("what consumers see", await bodies(bench, half, within_s=SOON_S), [b"the body"])


async def _asked(producer: Member, *, wait_s: float = 2 * CHECK_PERIOD_S + 15) -> RemotingCommand:
    """Return the broker's check-back, which a producer must get in this time."""
    asked = await producer.next_request(RequestCode.CHECK_TRANSACTION_STATE, wait_s=wait_s)
    require(asked is not None, f"no question about an open transaction in {wait_s:g} s")
    assert asked is not None
    return asked


@case("RMQ-TXN-05", limit_s=300, is_slow=True)
async def immunity(bench: Bench) -> None:
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    half = await prepare(bench, immunity_s=100)
    await _asked(half.producer, wait_s=260)
    waited_s = loop.time() - start_s
    require(waited_s >= 100, f"asked after {waited_s:.1f} s of an immunity of 100 s")


@case("RMQ-TXN-06", limit_s=600, is_slow=True, spoils=True)  # the recreated queue remains
async def giving_up(bench: Bench) -> None:
    broker = await bench.broker()
    try:
        await broker.obtain(RequestCode.UPDATE_BROKER_CONFIG, body=b"transactionCheckMax=2\n")
        half = await prepare(bench, b"given up")
        large = await _leave_no_room(bench, broker)
        questions = await _questions(half, within_s=4 * CHECK_PERIOD_S)
        broker = await bench.broker()
        for topic in large:
            await broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, queues=1))
        questions += await _questions(half, within_s=3 * CHECK_PERIOD_S)
        require(1 <= questions <= 3, f"asked {questions} times; transactionCheckMax is 2")
        found = await bench.read_all(broker.address, GIVE_UP_TOPIC)
        require(b"given up" in found, f"{GIVE_UP_TOPIC} holds {found!r:.200}")
    finally:
        broker = await bench.broker()
        await broker.obtain(RequestCode.UPDATE_BROKER_CONFIG, body=b"transactionCheckMax=15\n")


async def _questions(half: Half, *, within_s: float) -> int:
    """Return how often the broker asks the producer about a transaction."""
    loop = asyncio.get_running_loop()
    until_s, questions = loop.time() + within_s, 0
    while (left_s := until_s - loop.time()) > 0:
        wait_s = min(left_s, CHECK_PERIOD_S)
        if await half.producer.next_request(RequestCode.CHECK_TRANSACTION_STATE, wait_s=wait_s):
            questions += 1
    return questions


async def _leave_no_room(bench: Bench, broker: Wire) -> list[str]:
    """Make topics until a broker with a limit has no room for another queue; return the topics."""
    made: list[str] = []
    queues = LARGE_QUEUES
    while queues and len(made) < LARGE_TOPICS:
        topic = bench.fresh_name()
        fields = topic_fields(topic, queues=queues)
        if (await broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == 0:
            bench.remove_later(topic, broker.address)
            made.append(topic)
        else:
            queues //= 2
    return made


@case("RMQ-TXN-07")
async def ends_that_do_not_fit(bench: Bench) -> None:
    half = await prepare(bench)
    for what, changed in (
        ("another group", {"producerGroup": "another"}),
        ("another half offset", {"tranStateTableOffset": half.half_offset + 1}),
    ):
        answer = await half.end(COMMIT, **changed)
        require(answer.code != ResponseCode.SUCCESS, f"a commit with {what} was answered with 0")
    require_equal("what consumers see", await bodies(bench, half, within_s=0.5), [])
    require_equal("the code for the right end", (await half.end(COMMIT)).code, 0)
    require_equal("what consumers see then", await bodies(bench, half, within_s=SOON_S), [b"half"])


@case("RMQ-TXN-08", limit_s=200, is_slow=True)
async def ended_is_ended(bench: Bench) -> None:
    half = await prepare(bench)
    await half.end(ROLLBACK)
    await half.producer.next_request(RequestCode.CHECK_TRANSACTION_STATE, wait_s=2 * CHECK_PERIOD_S)
    await half.end(COMMIT)
    require_equal("what consumers see", await bodies(bench, half, within_s=SOON_S), [])


@case("RMQ-TXN-09", limit_s=120)
async def a_kill(bench: Bench) -> None:
    half = await prepare(bench)
    master = half.producer.wire.address
    node, processes = bench.target.nodes[master], bench.controls().process
    await processes.kill(node)
    await processes.start(node)
    again = await bench.until_serving(master, half.topic)
    require_equal("what consumers see", await bodies(bench, half, within_s=0.5), [])
    answer = await _patiently_end(half, again)
    require(answer.code in STORED, f"the code is {answer.code} {answer.remark}; expected 0")
    require_equal("what consumers see then", await bodies(bench, half, within_s=5), [b"half"])


async def _patiently_end(half: Half, broker: Wire) -> RemotingCommand:
    """End a transaction, with retries: a broker that has just started may refuse for a while."""
    for _ in range(100):
        try:
            answer = await half.end(COMMIT, wire=broker)
        except NoAnswer:
            break
        if answer.code in STORED:
            break
        await asyncio.sleep(0.2)
    return answer


@case("RMQ-TXN-10", limit_s=180, is_slow=True)
async def another_producer(bench: Bench) -> None:
    half = await prepare(bench)
    address = half.producer.wire.address
    other = await register_producer(bench, address, half.producer.group)
    half.producer.wire.close()
    asked = await _asked(other)
    require_equal("the message that is asked for", asked.ext_fields.get("msgId"), half.identity)


@case("RMQ-TXN-11")
async def one_is_not_another(bench: Bench) -> None:
    first = await prepare(bench, b"first")
    await first.end(ROLLBACK)
    second = await prepare_another(bench, first.topic, first.producer, b"second")
    if second.half_offset == first.half_offset:
        # Java 4.9.8 recreates the queue of half messages if a topic is removed in a broker's first minute.
        second = await prepare_another(bench, first.topic, first.producer, b"second")
    crossed = await first.end(COMMIT, tranStateTableOffset=second.half_offset)
    require(crossed.code != 0, "offsets of two transactions in one request were answered with 0")
    require_equal("what consumers see", await bodies(bench, second, within_s=SOON_S), [])


@case("RMQ-TXN-13", limit_s=200, is_slow=True, spoils=True)  # damages half messages for good
async def a_topic_is_removed(bench: Bench) -> None:
    half, other = await prepare(bench), await bench.topic()
    await asyncio.sleep(SOON_S)  # the broker writes queue entries after the log
    removed = await half.producer.wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": other})
    require_equal("the code for the removal", removed.code, 0)
    asked = await _asked(half.producer)
    require_equal("the message that is asked for", asked.ext_fields.get("msgId"), half.identity)


@case("RMQ-TXN-16", limit_s=180, is_slow=True)
async def in_turn(bench: Bench) -> None:
    half = await prepare(bench)
    other = await register_producer(bench, half.producer.wire.address, half.producer.group)
    for _ in range(HALVES - 1):
        await prepare_another(bench, half.topic, half.producer, b"half")
    loop = asyncio.get_running_loop()
    until_s, asked = loop.time() + 2 * CHECK_PERIOD_S + 15, [0, 0]
    while sum(asked) < HALVES and loop.time() < until_s:
        for index, producer in enumerate((half.producer, other)):
            if await producer.next_request(RequestCode.CHECK_TRANSACTION_STATE, wait_s=0.5):
                asked[index] += 1
    require(sum(asked) >= HALVES, f"{sum(asked)} questions about {HALVES} open transactions")
    require(min(asked) > 0, f"the two producers were asked {asked[0]} and {asked[1]} times")
