"""The progress of one send, and its result."""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.client.message_properties import UNIQUE_KEY
from staticfire.system_under_test.client.send_rules import is_definitely_not_stored
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import SendStatus
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.header_fields import HeaderError
from staticfire.system_under_test.protocol.headers import SendMessageResponse
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting import RemotingError


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """The message is stored; only SEND_OK means that it is as safe as the broker is configured to make it."""

    status: SendStatus
    message_id: str  # UNIQ_KEY: the same for all attempts
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    attempts: int
    region: str | None = None
    is_traced: bool = True  # TRACE_ON in the broker's answer


class SendFailed(ClientError):
    """No attempt was answered with success.

    `definite` promises that the message is stored nowhere and never will be: every attempt was refused before anything
    was stored, or never left this process. `code` is the response code of the last attempt, None if it had no response,
    and `broker_name` is the broker of that attempt.
    """

    def __init__(
        self,
        text: str,
        *,
        definite: bool,
        code: int | None,
        attempts: int,
        broker_name: str | None = None,
    ) -> None:
        super().__init__(text)
        self.definite = definite
        self.code = code
        self.broker_name = broker_name
        self.text = text
        self.attempts = attempts


@dataclass(slots=True)
class SendProgress:
    """The state of one send. Times are seconds of the loop's clock."""

    deadline_s: float
    attempts: int = 0
    definite: bool = True  # so far nothing can have been stored
    code: int | None = None
    text: str = "the time was up before the first attempt"
    failed_broker: str | None = None
    is_batch: bool = False

    def note_failure(self, broker_name: str, failure: int | RemotingError, text: str) -> None:
        self.definite = self.definite and is_definitely_not_stored(failure)
        self.code = None if isinstance(failure, RemotingError) else failure
        self.text = text
        self.failed_broker = broker_name

    def error(self) -> SendFailed:
        return SendFailed(
            f"{self.text} (attempts: {self.attempts})",
            definite=self.definite,
            code=self.code,
            attempts=self.attempts,
            broker_name=self.failed_broker,
        )


def send_result(
    message: Message,
    queue: MessageQueue,
    status: SendStatus,
    response: RemotingCommand,
    progress: SendProgress,
) -> SendResult:
    """The result in a broker's answer. Raises SendFailed if the answer reports success but is malformed."""
    try:
        header = SendMessageResponse.from_ext(response.ext_fields)
    except HeaderError as error:
        progress.note_failure(queue.broker_name, response.code, str(error))
        raise progress.error() from error
    return SendResult(
        status=status,
        message_id=message.properties.get(UNIQUE_KEY, ""),
        offset_message_id=header.msg_id,
        queue=MessageQueue(
            topic=queue.topic, broker_name=queue.broker_name, queue_id=header.queue_id
        ),
        queue_offset=header.queue_offset,
        attempts=progress.attempts,
        region=header.region,
        is_traced=header.trace_on != "false",
    )
