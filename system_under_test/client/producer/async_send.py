"""Sends with callbacks and without tasks (RocketMQ: DefaultMQProducerImpl.send with a SendCallback).

After a network failure it tries another broker, within the time of one send, but not after a refusal. RocketMQ keeps
the queue id of the first broker for the second, which may not have such a queue; here the retry chooses a new queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.client.producer.send_result import (
    SendFailed,
    SendProgress,
    SendResult,
)
from staticfire.system_under_test.client.producer.sender import Sender
from staticfire.system_under_test.client.routing.routes import Route
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting import RemotingError

IN_FLIGHT_MAX = 65535  # RocketMQ: com.rocketmq.remoting.clientAsyncSemaphoreValue

Done = Callable[[SendResult | SendFailed], None]


class AsyncSends:
    """The asynchronous sends of one producer under way."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._sends: dict[AsyncSend, None] = {}

    def begin(self, message: Message, done: Done) -> None:
        """See Producer.send_async."""
        self._sender.identify(message)
        progress = self._sender.begin()
        if len(self._sends) >= IN_FLIGHT_MAX:
            progress.text = f"{IN_FLIGHT_MAX} messages are under way already"
            raise progress.error()
        send = AsyncSend(self._sender, message, progress, self._ended, done)
        self._sends[send] = None
        send.start()

    def __len__(self) -> int:
        return len(self._sends)

    def stop(self) -> None:
        """Cancel the route look-ups for which sends wait."""
        for send in list(self._sends):
            send.cancel()

    def _ended(self, send: AsyncSend) -> None:
        del self._sends[send]


class AsyncSend:
    """One asynchronous send."""

    def __init__(
        self,
        sender: Sender,
        message: Message,
        progress: SendProgress,
        ended: Callable[[AsyncSend], None],
        done: Done,
    ) -> None:
        self._sender = sender
        self._message = message
        self._progress = progress
        self._ended = ended
        self._done = done
        self._started_ms = 0
        self._looking_up: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Send now if the route is known; otherwise look it up first."""
        try:
            self._body = self._sender.body_of(self._message, self._progress)
        except SendFailed as error:
            self._finish(error)
            return
        route = self._sender.client.routes.route(self._message.topic)
        if route is not None and route.publish_queues:
            self._attempt(route)
        else:
            self._looking_up = asyncio.get_running_loop().create_task(self._look_up())

    def cancel(self) -> None:
        if self._looking_up is not None:
            self._looking_up.cancel()
            self._fail("the producer was stopped")

    async def _look_up(self) -> None:
        try:
            route = await self._sender.route(self._message.topic, self._progress)
        except ClientError as error:
            self._fail(str(error))
            return
        finally:
            self._looking_up = None
        self._attempt(route)

    def _attempt(self, route: Route) -> None:
        sender, progress = self._sender, self._progress
        try:
            queue, address = sender.target(route, None, progress)
            command = sender.command(self._message, self._body, queue, progress)
        except SendFailed as error:
            self._finish(error)
            return
        except ClientError as error:
            self._fail(str(error))
            return
        self._started_ms = sender.now_ms()
        progress.attempts += 1
        answer = sender.client.ask(address, command, max(sender.left_s(progress), 0.001))
        answer.add_done_callback(lambda done: self._answered(queue, done))

    def _answered(self, queue: MessageQueue, answer: asyncio.Future[RemotingCommand]) -> None:
        if answer.cancelled():
            self._fail("the request was cancelled")
            return
        error = answer.exception()
        try:
            if isinstance(error, RemotingError):
                self._broken(queue, error)
            else:
                self._take(queue, answer.result())
        except SendFailed as failure:
            self._finish(failure)

    def _take(self, queue: MessageQueue, response: RemotingCommand) -> None:
        """Raises SendFailed."""
        result = self._sender.take_answer(
            self._message, queue, response, self._started_ms, self._progress
        )
        self._finish(self._progress.error() if result is None else result)

    def _broken(self, queue: MessageQueue, error: RemotingError) -> None:
        sender, progress = self._sender, self._progress
        sender.note_silence(queue, error, self._started_ms, progress)
        route = sender.client.routes.route(self._message.topic)
        tries_left = progress.attempts <= sender.options.retries
        if route is not None and tries_left and sender.left_s(progress) > 0:
            self._attempt(route)
        else:
            self._finish(progress.error())

    def _fail(self, text: str) -> None:
        self._progress.text = text
        self._finish(self._progress.error())

    def _finish(self, outcome: SendResult | SendFailed) -> None:
        self._ended(self)
        if self._sender.on_sent is not None:
            took_s = self._sender.options.send_timeout_s - self._sender.left_s(self._progress)
            self._sender.on_sent(self._message, outcome, int(took_s * 1000))
        self._done(outcome)
