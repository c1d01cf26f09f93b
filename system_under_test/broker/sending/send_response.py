"""Makes answers to stored messages as bytes from a template, for speed: there is one for every send."""

from __future__ import annotations

import orjson

from staticfire.system_under_test.protocol.codes import VERSION, LanguageCode, ResponseCode
from staticfire.system_under_test.protocol.command import (
    JSON,
    ONEWAY_FLAG,
    PREFIX,
    RESPONSE_FLAG,
    RemotingCommand,
)
from staticfire.system_under_test.remoting import Connection


class SendAnswers:
    """Makes the answers of one broker. `common` are the ext fields that all of them have."""

    __slots__ = ("_common", "_template")

    def __init__(self, common: dict[str, str]) -> None:
        self._common = common
        tail = orjson.dumps(common).decode().replace("%", "%%")[1:-1]
        template = (
            '{"code":%d,"extFields":{"msgId":"%b","queueId":"%d","queueOffset":"%d",'
            f'{tail}}},"flag":{RESPONSE_FLAG},"language":"{LanguageCode.PYTHON.name}","opaque":%d,'
            f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
        )
        self._template = template.encode()  # bytes are formatted in half the time of text

    def ext(self, message_id: str, queue_id: int, queue_offset: int) -> dict[str, str]:
        """The ext fields of an answer, with the position of the message."""
        return {
            "msgId": message_id,
            "queueId": str(queue_id),
            "queueOffset": str(queue_offset),
            **self._common,
        }

    def frame(
        self, opaque: int, code: int, message_id: str, queue_id: int, queue_offset: int
    ) -> bytes:
        """The whole frame of a JSON answer without remark and body."""
        header = self._template % (code, message_id.encode(), queue_id, queue_offset, opaque)
        size = len(header)
        return PREFIX.pack(size + 4, size) + header


class SendAnswer:
    """The answer to one stored message; called with its code once the message is as safe as requested.

    All four codes 0, 10, 11 and 12 carry the position; none has a remark.
    """

    # Not the request itself: that would keep its body in memory until the flush.
    __slots__ = (
        "_answers",
        "_connection",
        "_message_id",
        "_opaque",
        "_queue_id",
        "_queue_offset",
        "_serialize_type",
    )

    def __init__(
        self,
        answers: SendAnswers,
        connection: Connection,
        request: RemotingCommand,
        message_id: str,
        queue_id: int,
        queue_offset: int,
    ) -> None:
        self._answers = answers
        self._connection = connection
        self._opaque = None if request.flag & ONEWAY_FLAG else request.opaque
        self._serialize_type = request.serialize_type
        self._message_id = message_id
        self._queue_id = queue_id
        self._queue_offset = queue_offset

    def __call__(self, code: ResponseCode) -> None:
        opaque = self._opaque
        if opaque is None:
            return
        message_id, queue_id, queue_offset = self._message_id, self._queue_id, self._queue_offset
        if self._serialize_type == JSON:
            self._connection.send_frame(
                self._answers.frame(opaque, code, message_id, queue_id, queue_offset)
            )
        else:
            answer = RemotingCommand(
                code,
                self._answers.ext(message_id, queue_id, queue_offset),
                opaque=opaque,
                flag=RESPONSE_FLAG,
                serialize_type=self._serialize_type,
            )
            self._connection.send(answer)
