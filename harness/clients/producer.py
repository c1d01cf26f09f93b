"""A producer as a client process: applies `send` ops, once each, and says honestly how they ended."""

from __future__ import annotations

from typing import Any

from harness.clients.payload import make_body
from harness.clients.port import ONE_WAY, ClientSide, Outcome, Request
from system_under_test.client.message_properties import DELAY_LEVEL, KEYS, TAGS
from system_under_test.client.producer import Producer, ProducerConfig, SendFailed, SendResult
from system_under_test.env import Env
from system_under_test.protocol.bodies import MessageQueue
from system_under_test.protocol.codes import SendStatus
from system_under_test.protocol.message import Message, parse_offset_message_id


async def serve_producer(env: Env, config: ProducerConfig, port: ClientSide) -> None:
    """Apply requests one at a time until the process ends. `open` starts a new producer.

    Raises PortClosed when there are no more.
    """
    producer = Producer(env, config)
    await producer.start()
    port.emit("ok", "open", {}, None)
    try:
        while True:
            request, reply = await port.next()
            if request["f"] == "open":
                await producer.stop()
                producer = Producer(env, config)
                await producer.start()
                reply(Outcome("ok", {}))
            else:
                reply(await INVOKE[request["f"]](producer, request))
    finally:
        await producer.stop()


async def invoke_send(producer: Producer, request: Request) -> Outcome:
    """One send. One-way ones, weak statuses (stored, but less safely than asked) and unknown ends are `info`."""
    message = _message(request["topic"], request)
    if request.get("one_way"):
        return await _invoke_one_way(producer, message)
    try:
        if "sharding_key" in request:
            result = await producer.send_ordered(message, request["sharding_key"])
        else:
            result = await producer.send(message, _queue(request))
    except SendFailed as error:
        return _failed(error)
    return _sent(result, sent_value(result))


async def invoke_batch(producer: Producer, request: Request) -> Outcome:
    """One batch; it ends as a whole, and `messages` says where each message is."""
    messages = [_message(request["topic"], message) for message in request["messages"]]
    try:
        results = await producer.send_batch(messages)
    except SendFailed as error:
        return _failed(error)
    return _sent(results[0], {"messages": [sent_value(result) for result in results]})


async def _invoke_one_way(producer: Producer, message: Message) -> Outcome:
    try:
        await producer.send_one_way(message)
    except SendFailed as error:
        return _failed(error)
    return Outcome("info", {"attempts": 1}, ONE_WAY)


INVOKE = {"send": invoke_send, "send_batch": invoke_batch}


def _message(topic: str, wanted: dict[str, Any]) -> Message:
    """What is to be sent: `key` and `size`; maybe `tag`, `delay_level` and `properties` of the sender's own."""
    key = wanted["key"]
    properties = {**wanted.get("properties", {}), KEYS: key}
    if "tag" in wanted:
        properties[TAGS] = wanted["tag"]
    if "delay_level" in wanted:
        properties[DELAY_LEVEL] = str(wanted["delay_level"])
    return Message(topic=topic, body=make_body(key, wanted["size"]), properties=properties)


def _failed(error: SendFailed) -> Outcome:
    return Outcome("fail" if error.definite else "info", {"attempts": error.attempts}, str(error))


def _sent(result: SendResult, value: dict[str, Any]) -> Outcome:
    if result.status is SendStatus.SEND_OK:
        return Outcome("ok", value)
    return Outcome("info", value, result.status.name)


def _queue(request: Request) -> MessageQueue | None:
    """The queue the request insists on (probes do), or None."""
    if "queue" not in request:
        return None
    return MessageQueue(
        topic=request["topic"], broker_name=request["broker"], queue_id=request["queue"]
    )


def sent_value(result: SendResult) -> dict[str, Any]:
    return {
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "queue_offset": result.queue_offset,
        "physical_offset": parse_offset_message_id(result.offset_message_id)[2],
        "status": result.status.name,
        "attempts": result.attempts,
    }
