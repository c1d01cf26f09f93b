"""A push consumer of librocketmq as a client process: its threads record each delivery, then succeed.

After a broker was away, the consumer may stop for good: its rebalance waits for the end of a pull that the library has
forgotten, and heartbeats, commits and route updates wait behind it (apache/rocketmq-client-cpp, issues 293 and 318).
The broker gives its queues to other members after 120 s. The harness does not work around this behaviour.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import traceback
from collections.abc import Callable

from staticfire.checkers.model.message_contents import digest_of_text
from staticfire.checkers.op_kinds.values import ConsumeReport
from staticfire.harness.clients.configuration import Configuration
from staticfire.harness.clients.consumer import ListenerControl
from staticfire.harness.clients.contents import origin_of
from staticfire.harness.clients.cpp.library import LOG_FILE_MIB, LOG_FILES, Library
from staticfire.harness.clients.cpp.stopping import EXIT_FAILED, stop_in_time
from staticfire.harness.clients.payload import is_intact, key_of
from staticfire.harness.clients.port import ClientSide

SUCCESS, LATER = 0, 1  # CConsumeStatus
FROM_FIRST_OFFSET = 4  # rocketmq::ConsumeFromWhere


class CppListener:
    """Called by several threads of the library at a time, with one message each."""

    def __init__(
        self, library: Library, group: str, emit: Callable[..., None], control: ListenerControl
    ) -> None:
        self._library = library
        self._dll = library.dll
        self._group = group
        self._emit = emit
        self._control = control
        self._counting = threading.Lock()
        self.opened = threading.Event()  # the library may call before its start has returned
        self.ending = threading.Event()

    def __call__(self, consumer: int, message: int) -> int:
        try:
            return self._consume(message)
        except BaseException:  # not recorded, and ctypes would turn it into SUCCESS
            traceback.print_exc()
            os._exit(EXIT_FAILED)

    def _consume(self, message: int) -> int:
        value = self._value(message)
        delay_s, fails = self._draw()
        self.opened.wait()
        self._say("invoke", self._with_contents(value, message), None)
        if delay_s > 0 and self.ending.wait(delay_s):
            self._say("info", value, "the client ended")
            return LATER
        if fails:
            self._say("info", value, "the listener failed")
            return LATER
        self._say("ok", value, None)
        return SUCCESS

    def _draw(self) -> tuple[float, bool]:
        """Draw the message's delay and whether the listener fails for it. Counts both, for all threads."""
        control = self._control
        delay_s = control.delay_s
        fails = control.failing_share > 0 and random.random() < control.failing_share
        with self._counting:
            control.delayed += delay_s > 0
            control.failed += fails
        return delay_s, fails

    def _say(self, type: str, value: ConsumeReport, error: str | None) -> None:
        self._emit(type, "consume", value, error)

    def _value(self, message: int) -> ConsumeReport:
        topic, broker, queue = self._library.listening_to()
        body = self._library.body(message)
        delivery = [
            key_of(body),
            self._dll.GetMessageQueueOffset(message),
            self._dll.GetMessageCommitLogOffset(message),
            is_intact(body),
            self._dll.GetMessageReconsumeTimes(message),
        ]
        return {
            "group": self._group,
            "topic": topic,
            "broker": broker,
            "queue": queue,
            "messages": [delivery],
        }

    def _with_contents(self, value: ConsumeReport, message: int) -> ConsumeReport:
        """Add contents. The C interface does not list properties, so they are read by name."""
        unique_id, tag, origin = (
            (self._dll.GetMessageProperty(message, name) or b"").decode()
            for name in (b"UNIQ_KEY", b"TAGS", b"ORIGIN_MESSAGE_ID")
        )
        contents = [
            digest_of_text(unique_id) if unique_id else None,
            tag,
            None,
            self._dll.GetMessageBornTimestamp(message),
            self._dll.GetMessageStoreTimestamp(message),
            len(self._library.body(message)),
            origin_of(origin or None, unique_id),
        ]
        return {**value, "messages": [[*value["messages"][0], contents]]}


class CppConsumer:
    """A push consumer of the library, started."""

    def __init__(
        self,
        library: Library,
        fields: Configuration,
        emit: Callable[..., None],
        control: ListenerControl,
    ) -> None:
        """Raises LibraryError."""
        self._library = library
        self._dll = dll = library.dll
        self._handle = dll.CreatePushConsumer(fields["group"].encode())
        self.listener = listener = CppListener(library, fields["group"], emit, control)
        self._callback = library.ffi.MSG_CALLBACK_FUNC(listener)  # kept, since the library uses it
        expression = fields.get("expression", "*").encode()
        is_ordered = fields.get("ordered", False)
        register = dll.RegisterMessageCallbackOrderly if is_ordered else dll.RegisterMessageCallback
        set_up = [
            dll.SetPushConsumerLogFileNumAndSize(self._handle, LOG_FILES, LOG_FILE_MIB),
            dll.SetPushConsumerNameServerAddress(
                self._handle, ";".join(fields["name_servers"]).encode()
            ),
            dll.SetPushConsumerInstanceName(self._handle, fields["client_id"].encode()),
            # One thread, since several would process the messages of a queue in any order.
            dll.SetPushConsumerThreadCount(self._handle, 1),
            # One message per call, since the library sends a whole batch back if one message fails.
            dll.SetPushConsumerMessageBatchMaxSize(self._handle, 1),
            dll.Subscribe(self._handle, fields["topic"].encode(), expression),
            register(self._handle, self._callback),
        ]
        if credentials := fields.get("credentials"):
            keys = (credentials[name].encode() for name in ("access_key", "secret_key"))
            set_up.append(dll.SetPushConsumerSessionCredentials(self._handle, *keys, b"staticfire"))
        if fields.get("consume_from", "CONSUME_FROM_FIRST_OFFSET") == "CONSUME_FROM_FIRST_OFFSET":
            library.set_consume_from(self._handle, FROM_FIRST_OFFSET)
        for status in (*set_up, dll.StartPushConsumer(self._handle)):
            library.check(status)

    def stop(self) -> None:
        """Let the listener end, commit, and leave the group."""
        self.listener.ending.set()
        self.listener.opened.set()
        self._dll.ShutdownPushConsumer(self._handle)


def why_not(fields: Configuration) -> str:
    """Return why the library does not support this configuration, as a sentence; empty if it does."""
    for name, usual in (
        ("strategy", "AVG"),
        ("expression_type", "TAG"),
        ("broadcast", False),
        ("kind", "push"),
        ("trace", False),
    ):
        if fields.get(name, usual) != usual:
            return f"librocketmq's C interface takes no {name} but {usual}; this is {fields[name]}"
    if fields.get("more_topics"):
        return "this client subscribes to one topic"
    if fields.get("forward_to"):
        return "this client does not send on what it is given"
    return ""


async def serve_cpp_consumer(
    library: Library, fields: Configuration, port: ClientSide, control: ListenerControl
) -> None:
    """Consume until the process ends. Raises PortClosed when there are no more requests, LibraryError."""
    if reason := why_not(fields):
        port.emit("fail", "open", {}, reason)
        return
    consumer = await asyncio.to_thread(CppConsumer, library, fields, port.emit, control)
    try:
        port.emit("ok", "open", {}, None)
        consumer.listener.opened.set()
        while True:
            request, reply = await port.next()
            reply(control.apply(request))
    finally:
        await stop_in_time(consumer.stop)
