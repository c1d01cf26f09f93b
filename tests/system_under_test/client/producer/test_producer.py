from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from staticfire.system_under_test.client.producer.ordered_queues import OrderedQueues
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.send_result import SendFailed, SendResult
from staticfire.system_under_test.protocol.batch import decode_batch
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode, SendStatus
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting import RemotingClosed
from tests.system_under_test.client.scripted_remoting import (
    Answer,
    Call,
    Script,
    ScriptedRemoting,
    answer_code,
    answer_route,
    by_code,
    make_env,
    refuse_connection,
    route_of,
    stay_silent,
)
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s

SEND = RequestCode.SEND_MESSAGE_V2
OFFSET_ID = "0A00000100002A9F0000000000000000"
STORED: Script = lambda request: answer_code(  # noqa: E731
    ResponseCode.SUCCESS, msgId=OFFSET_ID, queueId=request.ext_fields["e"], queueOffset="7"
)(request)
ALIVE = answer_code(ResponseCode.SUCCESS)


def broker(send: Script) -> Script:
    """A broker that is well but for its sends."""
    return by_code(c310=send, other=ALIVE)


def reset(_: object) -> Answer:
    return RemotingClosed("reset by peer")


class Sender:
    """A producer, a name server and brokers a, b, ... that answer sends like this."""

    def __init__(self, remoting: ScriptedRemoting, **brokers: Script) -> None:
        self.remoting = remoting
        remoting.scripts["n"] = answer_route(route_of(*sorted(brokers)))
        for name, script in brokers.items():
            remoting.scripts[f"{name}:0"] = script
        self.producer = Producer(
            make_env(), ProducerConfig(group="p", name_servers=("n",), client_id="10.0.0.1@c")
        )

    async def send(self, queue: MessageQueue | None = None) -> SendResult:
        return await self.producer.send(Message(topic="t", body=b"hello"), queue)

    def sends(self) -> list[Call]:
        return [call for call in self.remoting.calls if call.command.code == SEND]

    def sends_by_broker(self) -> str:
        return " ".join(call.address[0] for call in self.sends())


@in_virtual_time
async def test_a_message_is_stored(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(STORED))
    result = await sender.send()
    ext = sender.sends()[0].command.ext_fields
    assert (result.status, result.attempts) == (SendStatus.SEND_OK, 1)
    assert (result.queue.broker_name, result.queue_offset) == ("a", 7)
    assert result.offset_message_id == OFFSET_ID
    assert (ext["a"], ext["b"], ext["c"], ext["d"]) == ("p", "t", "TBW102", "4")
    assert result.message_id in ext["i"]
    assert len(result.message_id) == 32


@in_virtual_time
async def test_queues_are_used_in_turn(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(STORED), b=broker(STORED))
    used = [
        (r.queue.broker_name, r.queue.queue_id) for r in [await sender.send() for _ in range(8)]
    ]
    assert sorted(used[:4]) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert used[:4] == used[4:]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
    ],
)
@in_virtual_time
async def test_stored_but_weaker_is_no_failure_and_not_retried(
    remoting: ScriptedRemoting, code: ResponseCode, status: SendStatus
) -> None:
    weak = answer_code(code, msgId=OFFSET_ID, queueId="0", queueOffset="7")
    sender = Sender(remoting, a=broker(weak))
    result = await sender.send()
    assert (result.status, result.attempts) == (status, 1)


WEAK: Script = lambda request: answer_code(  # noqa: E731
    ResponseCode.SLAVE_NOT_AVAILABLE, msgId=OFFSET_ID, queueId="0", queueOffset="7"
)(request)


@pytest.mark.parametrize(
    ("others", "explicit", "tried", "status"),
    [
        (STORED, False, "a b", SendStatus.SEND_OK),
        (WEAK, False, "a b a", SendStatus.SLAVE_NOT_AVAILABLE),
        (stay_silent, False, "a b a", SendStatus.SLAVE_NOT_AVAILABLE),
        (answer_code(ResponseCode.MESSAGE_ILLEGAL), False, "a b", SendStatus.SLAVE_NOT_AVAILABLE),
        (STORED, True, "a", SendStatus.SLAVE_NOT_AVAILABLE),
    ],
)
@in_virtual_time
async def test_what_is_stored_but_weaker_is_tried_elsewhere_if_that_is_wanted(
    remoting: ScriptedRemoting, others: Script, explicit: bool, tried: str, status: SendStatus
) -> None:
    sender = Sender(remoting, a=broker(WEAK), b=broker(others))
    config = ProducerConfig(
        group="p", name_servers=("n",), client_id="10.0.0.1@c", retries_weak=True
    )
    sender.producer = Producer(make_env(), config)
    queue = MessageQueue(topic="t", broker_name="a", queue_id=0) if explicit else None
    while True:  # until the turn of a
        before = len(sender.sends())
        result = await sender.send(queue)
        used = " ".join(sender.sends_by_broker().split()[before:])
        if used.startswith("a"):
            break
    assert (used, result.status) == (tried, status)


BUSY = answer_code(ResponseCode.SYSTEM_BUSY)
ERROR = answer_code(ResponseCode.SYSTEM_ERROR)
NOT_AVAILABLE = answer_code(ResponseCode.SERVICE_NOT_AVAILABLE)
ILLEGAL = answer_code(ResponseCode.MESSAGE_ILLEGAL)


@pytest.mark.parametrize(
    ("answers", "definite", "code", "attempts"),
    [
        ([ILLEGAL, ILLEGAL], True, ResponseCode.MESSAGE_ILLEGAL, 1),
        ([BUSY, BUSY], True, ResponseCode.SYSTEM_BUSY, 1),
        ([NOT_AVAILABLE, NOT_AVAILABLE], True, ResponseCode.SERVICE_NOT_AVAILABLE, 3),
        ([refuse_connection, refuse_connection], True, None, 3),
        ([NOT_AVAILABLE, ERROR], False, None, 3),  # one unclear attempt makes all unclear
        ([ERROR, ERROR], False, ResponseCode.SYSTEM_ERROR, 3),
        ([stay_silent, NOT_AVAILABLE], False, None, 3),
        ([reset, reset], False, None, 3),
    ],
)
@in_virtual_time
async def test_what_a_failed_send_promises(
    remoting: ScriptedRemoting,
    answers: list[Script],
    definite: bool,
    code: ResponseCode | None,
    attempts: int,
) -> None:
    a, b = answers
    sender = Sender(remoting, a=broker(a), b=broker(b))
    with pytest.raises(SendFailed) as failure:
        await sender.send()
    assert failure.value.definite is definite
    assert failure.value.attempts == attempts
    if code is not None:
        assert failure.value.code == code


@in_virtual_time
async def test_a_retry_goes_to_another_broker_under_the_same_id(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(ERROR), b=broker(STORED))
    results = [await sender.send() for _ in range(2)]
    calls = sender.sends()
    retried = next(r for r in results if r.attempts == 2)
    ids = [call for call in calls if retried.message_id in call.command.ext_fields["i"]]
    assert [call.address for call in ids] == ["a:0", "b:0"]


@in_virtual_time
async def test_a_broker_that_plays_dead_costs_one_second_once(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=stay_silent, b=broker(STORED))
    longest_s = 0.0
    for _ in range(600):
        started_s = now_s()
        assert (await sender.send()).status is SendStatus.SEND_OK
        longest_s = max(longest_s, now_s() - started_s)
        await asyncio.sleep(1.0)
    assert longest_s < 1.1
    assert sender.sends_by_broker().count("a") == 1


@in_virtual_time
async def test_a_broker_that_answers_again_is_used_again(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=stay_silent, b=broker(STORED))
    for _ in range(20):
        await sender.send()
        await asyncio.sleep(1.0)
    remoting.scripts["a:0"] = broker(STORED)
    await asyncio.sleep(3.0)
    used = [(await sender.send()).queue.broker_name for _ in range(4)]
    assert sorted(used) == ["a", "a", "b", "b"]


@in_virtual_time
async def test_a_slow_broker_that_answers_pings_is_left_alone_for_a_while(
    remoting: ScriptedRemoting,
) -> None:
    sender = Sender(remoting, a=broker(stay_silent), b=broker(STORED))
    for _ in range(50):
        await sender.send()
        await asyncio.sleep(0.1)
    assert sender.sends_by_broker().count("a") == 1


@in_virtual_time
async def test_the_only_broker_gets_all_the_time(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(stay_silent))
    with pytest.raises(SendFailed) as failure:
        await sender.send()
    assert (failure.value.definite, failure.value.attempts) == (False, 1)
    assert now_s() == pytest.approx(3.0, abs=0.1)


@in_virtual_time
async def test_a_broker_that_no_route_had_yet_is_found_when_the_only_one_plays_dead(
    remoting: ScriptedRemoting,
) -> None:
    sender = Sender(remoting, a=broker(STORED))
    await sender.send()
    remoting.scripts.update(
        {"n": answer_route(route_of("a", "b")), "a:0": stay_silent, "b:0": broker(STORED)}
    )
    result = await sender.send()
    assert (result.queue.broker_name, result.attempts) == ("b", 2)
    assert now_s() == pytest.approx(2.0, abs=0.1)


@in_virtual_time
async def test_a_silent_broker_that_name_servers_have_dropped_is_used_as_soon_as_it_is_back(
    remoting: ScriptedRemoting,
) -> None:
    sender = Sender(remoting, a=broker(STORED), b=broker(STORED))
    await sender.producer.start()
    await asyncio.gather(*(sender.send() for _ in range(4)))
    remoting.scripts.update({"n": answer_route(route_of("b")), "a:0": refuse_connection})
    await asyncio.gather(*(sender.send() for _ in range(4)))
    await asyncio.sleep(5.0)
    remoting.scripts["a:0"] = broker(STORED)
    await asyncio.sleep(1.1)
    used = [(await sender.send()).queue.broker_name for _ in range(4)]
    assert sorted(used) == ["a", "a", "b", "b"]


@in_virtual_time
async def test_an_explicit_queue_is_tried_once(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(NOT_AVAILABLE), b=broker(STORED))
    with pytest.raises(SendFailed) as failure:
        await sender.send(MessageQueue(topic="t", broker_name="a", queue_id=1))
    assert (failure.value.definite, failure.value.attempts) == (True, 1)
    assert sender.sends()[0].command.ext_fields["e"] == "1"


@in_virtual_time
async def test_without_a_route_nothing_was_stored(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(STORED))
    remoting.scripts["n"] = answer_code(ResponseCode.TOPIC_NOT_EXIST)
    with pytest.raises(SendFailed) as failure:
        await sender.send()
    assert (failure.value.definite, failure.value.attempts) == (True, 0)


@in_virtual_time
async def test_a_new_topic_uses_the_route_of_the_template(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(STORED))

    def only_template(request):  # type: ignore[no-untyped-def]
        if request.ext_fields["topic"] == "TBW102":
            return answer_route(route_of("a", queues=8))(request)
        return answer_code(ResponseCode.TOPIC_NOT_EXIST)(request)

    remoting.scripts["n"] = only_template
    used = {(await sender.send()).queue.queue_id for _ in range(8)}
    assert used == {0, 1, 2, 3}


@in_virtual_time
async def test_a_topic_that_is_registered_after_the_first_question_has_its_own_queues(
    remoting: ScriptedRemoting,
) -> None:
    """Brokers that come back to an empty name server register the topic together with the template."""
    sender = Sender(remoting, a=broker(STORED))
    asked: list[str] = []

    def empty_at_first(request):  # type: ignore[no-untyped-def]
        asked.append(request.ext_fields["topic"])
        if len(asked) == 1:
            return answer_code(ResponseCode.TOPIC_NOT_EXIST)(request)
        return answer_route(route_of("a", queues=8 if asked[-1] == "TBW102" else 1))(request)

    remoting.scripts["n"] = empty_at_first
    assert {(await sender.send()).queue.queue_id for _ in range(8)} == {0}
    assert asked == ["t", "TBW102", "t"]


@in_virtual_time
async def test_a_template_without_a_master_is_asked_for_again(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(STORED))
    route = route_of("a", slaves=True)
    master = route.broker_datas[0].broker_addrs.pop(0)  # not registered yet

    def only_template(request):  # type: ignore[no-untyped-def]
        if request.ext_fields["topic"] == "TBW102":
            return answer_route(route)(request)
        return answer_code(ResponseCode.TOPIC_NOT_EXIST)(request)

    remoting.scripts["n"] = only_template
    with pytest.raises(SendFailed, match="no queue that can be written"):
        await sender.send()
    route.broker_datas[0].broker_addrs[0] = master
    assert (await sender.send()).queue.broker_name == "a"


@in_virtual_time
async def test_heartbeats_go_to_masters_only_and_goodbye_is_said(
    remoting: ScriptedRemoting,
) -> None:
    sender = Sender(remoting, a=broker(STORED))
    remoting.scripts["n"] = answer_route(route_of("a", slaves=True))
    remoting.scripts["a:1"] = ALIVE
    await sender.producer.start()
    await sender.send()
    await asyncio.sleep(31.0)
    await sender.producer.stop()
    assert len(remoting.calls_to("a:0", RequestCode.HEART_BEAT)) == 2
    assert remoting.calls_to("a:1", RequestCode.HEART_BEAT) == []
    goodbye = remoting.calls_to("a:0", RequestCode.UNREGISTER_CLIENT)[0].command.ext_fields
    assert goodbye == {"clientID": "10.0.0.1@c", "producerGroup": "p"}


BATCH = RequestCode.SEND_BATCH_MESSAGE


def stored_batch(ids: str) -> Script:
    stored = answer_code(ResponseCode.SUCCESS, msgId=ids, queueId="0", queueOffset="7")
    return by_code(c320=stored, other=ALIVE)


def two_messages() -> list[Message]:
    return [Message(topic="t", body=body, properties={"KEYS": "k"}) for body in (b"a", b"bb")]


@in_virtual_time
async def test_a_batch_is_one_request_and_each_message_has_its_place(
    remoting: ScriptedRemoting,
) -> None:
    second = OFFSET_ID[:-2] + "64"
    sender = Sender(remoting, a=stored_batch(f"{OFFSET_ID},{second}"))
    results = await sender.producer.send_batch(two_messages())
    [call] = [call for call in remoting.calls if call.command.code == BATCH]
    assert call.command.ext_fields["m"] == "true"
    entries = list(decode_batch(call.command.body))
    assert [entry.body for entry in entries] == [b"a", b"bb"]
    assert [entry.properties["UNIQ_KEY"] for entry in entries] == [
        result.message_id for result in results
    ]
    assert [result.queue_offset for result in results] == [7, 8]
    assert [result.offset_message_id for result in results] == [OFFSET_ID, second]


@pytest.mark.parametrize(
    ("topics", "properties", "said"),
    [
        (("t", "u"), {}, "messages of one topic; these have t, u"),
        (("%RETRY%g", "%RETRY%g"), {}, "cannot go to a retry topic"),
        (("t", "t"), {"DELAY": "3"}, "cannot be delayed"),
        ((), {}, "needs a message"),
        (("t",) * 25_001, {}, "25001 messages; allowed: up to 25000"),
        (("t", "t"), [{"WAIT": "false"}, {}], "WAIT differs here"),
        (("t", "t"), [{"WAIT": "true"}, {"WAIT": "false"}], "WAIT differs here"),
    ],
)
@in_virtual_time
async def test_what_cannot_be_a_batch_is_not_sent(
    remoting: ScriptedRemoting,
    topics: tuple[str, ...],
    properties: dict[str, str] | list[dict[str, str]],
    said: str,
) -> None:
    sender = Sender(remoting, a=stored_batch(f"{OFFSET_ID},{OFFSET_ID}"))
    each = [properties] * len(topics) if isinstance(properties, dict) else properties
    messages = [
        Message(topic=topic, body=b"x", properties=dict(own))
        for topic, own in zip(topics, each, strict=True)
    ]
    with pytest.raises(SendFailed, match=said) as failed:
        await sender.producer.send_batch(messages)
    assert (failed.value.definite, failed.value.attempts) == (True, 0)
    assert not remoting.calls


@pytest.mark.parametrize(
    ("waits", "of_batch"), [(None, ""), ("false", "WAIT\x01false"), ("true", "WAIT\x01true")]
)
@in_virtual_time
async def test_what_a_batch_waits_for_is_what_its_messages_wait_for(
    remoting: ScriptedRemoting, waits: str | None, of_batch: str
) -> None:
    sender = Sender(remoting, a=stored_batch(f"{OFFSET_ID},{OFFSET_ID}"))
    messages = two_messages()
    for message in messages if waits else ():
        message.properties["WAIT"] = str(waits)
    await sender.producer.send_batch(messages)
    [call] = [call for call in remoting.calls if call.command.code == BATCH]
    assert call.command.ext_fields["i"].strip("\x02") == of_batch


@in_virtual_time
async def test_an_answer_for_another_number_of_messages_is_unclear(
    remoting: ScriptedRemoting,
) -> None:
    sender = Sender(remoting, a=stored_batch(OFFSET_ID))
    with pytest.raises(SendFailed) as failure:
        await sender.producer.send_batch(two_messages())
    assert not failure.value.definite


@in_virtual_time
async def test_equal_keys_go_to_one_queue_and_are_tried_once(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(STORED), b=broker(STORED))
    results = [
        await sender.producer.send_ordered(Message(topic="t", body=b"x"), "order-7")
        for _ in range(3)
    ]
    (queue,) = {result.queue for result in results}
    assert "__SHARDINGKEY\x01order-7" in sender.sends()[0].command.ext_fields["i"]
    remoting.scripts[f"{queue.broker_name}:0"] = broker(reset)
    with pytest.raises(SendFailed) as failed:
        await sender.producer.send_ordered(Message(topic="t", body=b"x"), "order-7")
    assert (failed.value.attempts, failed.value.definite) == (1, False)


@in_virtual_time
async def test_a_long_body_is_compressed(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(STORED))
    await sender.producer.send(Message(topic="t", body=b"x" * 5000))
    (call,) = sender.sends()
    assert call.command.ext_fields["f"] == str(0x301)
    assert len(call.command.body) < 100


@in_virtual_time
async def test_what_no_broker_takes_is_not_sent(remoting: ScriptedRemoting) -> None:
    sender = Sender(remoting, a=broker(STORED))
    for message in (
        Message(topic="t", body=bytes((4 << 20) + 1)),
        Message(topic="t", body=b"x", properties={"a": "\x01"}),
    ):
        with pytest.raises(SendFailed) as failed:
            await sender.producer.send(message)
        assert failed.value.definite
    assert sender.sends() == []


@in_virtual_time
async def test_a_new_producer_knows_what_an_earlier_one_has_learned_of_keys(
    remoting: ScriptedRemoting,
) -> None:
    known = OrderedQueues()
    remoting.scripts.update(
        {"n": answer_route(route_of("a", "b")), "a:0": broker(STORED), "b:0": broker(STORED)}
    )
    used: list[list[MessageQueue]] = []
    for _ in range(2):
        config = ProducerConfig(group="p", name_servers=("n",), client_id="10.0.0.1@c")
        producer = Producer(make_env(), config, ordered=known)
        results = [
            await producer.send_ordered(Message(topic="t", body=b"x"), f"k{number}")
            for number in range(10)
            if not used or used[0][number].broker_name == "a"
        ]
        used.append([result.queue for result in results])
        remoting.scripts["n"] = answer_route(route_of("a"))  # b is away
    assert used[1] == [queue for queue in used[0] if queue.broker_name == "a"]


async def send_plain(producer: Producer) -> None:
    await producer.send(Message(topic="t", body=b"x"))


async def send_ordered(producer: Producer) -> None:
    await producer.send_ordered(Message(topic="t", body=b"x"), "k")


async def send_batch(producer: Producer) -> None:
    await producer.send_batch(two_messages())


async def send_one_way(producer: Producer) -> None:
    await producer.send_one_way(Message(topic="t", body=b"x"))


async def send_async(producer: Producer) -> None:
    ended: asyncio.Future[SendResult | SendFailed] = asyncio.get_running_loop().create_future()
    producer.send_async(Message(topic="t", body=b"x"), ended.set_result)
    outcome = await ended
    if isinstance(outcome, SendFailed):
        raise outcome


@pytest.mark.parametrize(
    ("failing", "tried"),
    [
        (BUSY, "a"),
        (NOT_AVAILABLE, "a"),  # a synchronous send goes on to the other broker
        (ILLEGAL, "a"),
        (reset, "ab"),
        (refuse_connection, "ab"),
    ],
)
@in_virtual_time
async def test_as_rocketmq_an_asynchronous_send_that_a_broker_refuses_is_not_tried_again(
    remoting: ScriptedRemoting, failing: Script, tried: str
) -> None:
    """MQClientAPIImpl.sendMessageAsync: needRetry is false for whatever a broker answers, whichever code."""
    sender = Sender(remoting, a=broker(failing), b=broker(STORED))
    for _ in range(2):  # one of them goes to a first
        with contextlib.suppress(SendFailed):
            await send_async(sender.producer)
    ways: dict[str, str] = {}
    for call in sender.sends():
        properties = call.command.ext_fields["i"]
        ways[properties] = ways.get(properties, "") + call.address[0]
    assert sorted(ways.values()) == [tried, "b"]


@pytest.mark.parametrize("send", [send_plain, send_ordered, send_batch, send_one_way, send_async])
@in_virtual_time
async def test_looking_for_the_route_takes_its_time_from_the_send(
    remoting: ScriptedRemoting, send: Callable[[Producer], Awaitable[None]]
) -> None:
    remoting.scripts["n"] = stay_silent  # a question to it ends after 3 s
    config = ProducerConfig(
        group="p", name_servers=("n",), client_id="10.0.0.1@c", send_timeout_s=0.7
    )
    with pytest.raises(SendFailed) as failure:
        await send(Producer(make_env(), config))
    assert now_s() == pytest.approx(0.7, abs=0.01)
    assert (failure.value.definite, failure.value.attempts) == (True, 0)
    assert "no name server said in time" in failure.value.text


@in_virtual_time
async def test_a_broker_and_name_servers_that_play_dead_share_the_time_of_one_send(
    remoting: ScriptedRemoting,
) -> None:
    sender = Sender(remoting, a=broker(STORED))
    await sender.send()
    remoting.scripts["a:0"] = remoting.scripts["n"] = stay_silent
    began_s = now_s()
    with pytest.raises(SendFailed) as failure:
        await sender.send()
    assert now_s() - began_s == pytest.approx(3.0, abs=0.01)
    assert (failure.value.definite, failure.value.attempts) == (False, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "alone_s"),
    [(stay_silent, 600.0), (reset, 600.0), (NOT_AVAILABLE, 600.0), (ILLEGAL, 600.0), (STORED, 0.0)],
)
@in_virtual_time
async def test_as_rocketmq_a_broker_that_failed_is_left_alone_for_ten_minutes(
    remoting: ScriptedRemoting, failing: Script, alone_s: float
) -> None:
    sender = Sender(remoting, a=broker(failing), b=broker(STORED))
    options = ProducerConfig(
        group="p", name_servers=("n",), client_id="10.0.0.1@c", avoids_as_rocketmq=True
    )
    sender.producer = Producer(make_env(), options)
    await sender.producer.start()
    while "a" not in sender.sends_by_broker():
        with contextlib.suppress(SendFailed):
            await sender.send()
    failed_at_s = now_s()
    remoting.scripts["a:0"] = broker(STORED)  # well again, and it answers pings
    await asyncio.sleep(5)
    count = len(sender.sends())
    while "a" not in sender.sends_by_broker().split()[count:]:
        await asyncio.sleep(1)
        await sender.send()
    assert now_s() - failed_at_s == pytest.approx(alone_s, abs=12)
    await sender.producer.stop()
