"""A producer as a client process: applies `send` ops, once each, and says honestly how they ended."""

from __future__ import annotations

from harness.clients.payload import make_body
from harness.clients.port import ClientPort, Outcome, Request
from system_under_test.client.producer import Producer, ProducerConfig, SendFailed, SendResult
from system_under_test.env import Env
from system_under_test.protocol.bodies import MessageQueue
from system_under_test.protocol.codes import SendStatus
from system_under_test.protocol.message import Message, parse_offset_message_id


async def serve_producer(env: Env, config: ProducerConfig, port: ClientPort) -> None:
    """Apply requests one at a time until the process ends. `open` starts a new producer."""
    producer = Producer(env, config)
    await producer.start()
    port.emit("ok", "open", {}, None)
    while True:
        request, reply = await port.next()
        if request["f"] == "open":
            await producer.stop()
            producer = Producer(env, config)
            await producer.start()
            reply(Outcome("ok", {}))
        else:
            reply(await invoke_send(producer, request))


async def invoke_send(producer: Producer, request: Request) -> Outcome:
    """One send. Weak statuses (stored, but less safely than asked) and unknown ends are `info`."""
    message = Message(
        topic=request["topic"],
        body=make_body(request["key"], request["size"]),
        properties={"KEYS": request["key"]},
    )
    try:
        result = await producer.send(message, _queue(request))
    except SendFailed as error:
        value: dict[str, object] = {"attempts": error.attempts}
        return Outcome("fail" if error.definite else "info", value, str(error))
    value = sent_value(result)
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


def sent_value(result: SendResult) -> dict[str, object]:
    return {
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "queue_offset": result.queue_offset,
        "physical_offset": parse_offset_message_id(result.offset_message_id)[2],
        "status": result.status.name,
        "attempts": result.attempts,
    }
