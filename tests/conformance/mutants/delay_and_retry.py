"""Mutants of RMQ-DLY and RMQ-RTY."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.system_under_test.broker.delivery.delay_offsets import DelayOffsetsFile
from staticfire.system_under_test.broker.delivery.delayed_delivery import DelayedDelivery
from staticfire.system_under_test.broker.metadata.topic_redirection import TopicRedirection
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message
from tests.conformance.mutants.mutant import Answer, answers, requests, system


def level_instead(request: RemotingCommand, level: int) -> RemotingCommand:
    """The request with another delay level, if it has one."""
    properties = request.ext_fields["properties"].split("\x02")
    request.ext_fields["properties"] = "\x02".join(
        f"DELAY\x01{level}" if one.startswith("DELAY\x01") else one for one in properties
    )
    return request


@requests("RMQ-DLY-01", RequestCode.SEND_MESSAGE)
def every_level_is_the_second(request: RemotingCommand) -> RemotingCommand:
    return level_instead(request, 2)


@requests("RMQ-DLY-02", RequestCode.SEND_MESSAGE)
def one_level_too_early(request: RemotingCommand) -> RemotingCommand:
    return level_instead(request, 1)


@system("RMQ-DLY-03")
def looks_every_three_seconds(patch: pytest.MonkeyPatch) -> None:
    remaining = DelayedDelivery._remaining_ms
    patch.setattr(
        DelayedDelivery, "_remaining_ms", lambda self, *entry: remaining(self, *entry) + 3000
    )


@requests("RMQ-DLY-04", RequestCode.SEND_MESSAGE)
def high_levels_are_none(request: RemotingCommand) -> RemotingCommand:
    is_high = "DELAY\x0199" in request.ext_fields["properties"]
    return level_instead(request, 0) if is_high else request


@requests("RMQ-DLY-05", RequestCode.SEND_MESSAGE)
def tags_are_lost(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["properties"] = request.ext_fields["properties"].replace("TAGS\x01", "X\x01")
    return request


@system("RMQ-DLY-06")
def begins_at_the_end_after_a_start(patch: pytest.MonkeyPatch) -> None:
    read = DelayedDelivery._read
    starts: list[Any] = []

    def forgetting(self: DelayedDelivery, entry: Any) -> Any:
        if self not in starts:
            starts.append(self)
        return read(self, entry) if len(starts) <= 1 and self is starts[0] else None

    begin = DelayedDelivery.begin

    def counting(self: DelayedDelivery, offsets: Any) -> Any:
        starts.append(self)
        return begin(self, offsets)

    patch.setattr(DelayedDelivery, "_read", forgetting)
    patch.setattr(DelayedDelivery, "begin", counting)


@system("RMQ-DLY-07")
def every_seventh_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    read = DelayedDelivery._read

    def forgetting(self: DelayedDelivery, entry: Any) -> Any:
        message = read(self, entry)
        return None if message is not None and message.body in (b"7", b"14") else message

    patch.setattr(DelayedDelivery, "_read", forgetting)


@answers("RMQ-DLY-08", RequestCode.PULL_MESSAGE)
def the_schedule_topic_cannot_be_read(request: RemotingCommand, answer: Answer) -> Answer:
    if request.ext_fields["topic"] == "SCHEDULE_TOPIC_XXXX":
        answer.body, answer.code = b"", ResponseCode.PULL_NOT_FOUND
    return answer


@requests("RMQ-RTY-01", RequestCode.CONSUMER_SEND_MSG_BACK)
def retries_come_at_once(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["delayLevel"] = "1"
    return request


@answers("RMQ-RTY-02", RequestCode.PULL_MESSAGE)
def retries_do_not_say_whose(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b"ORIGIN_MESSAGE_ID\x01", b"ORIGIN_MESSAGE_IX\x01")
    return answer


@requests("RMQ-RTY-03", RequestCode.CONSUMER_SEND_MSG_BACK)
def no_limit_of_retries(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["maxReconsumeTimes"] = "16"
    return request


@answers("RMQ-RTY-04", RequestCode.PULL_MESSAGE)
def dead_letters_are_unreadable(request: RemotingCommand, answer: Answer) -> Answer:
    if request.ext_fields["topic"].startswith("%DLQ%"):
        answer.code, answer.body = ResponseCode.NO_PERMISSION, b""
    return answer


@requests("RMQ-RTY-05", RequestCode.CONSUMER_SEND_MSG_BACK)
def dead_letters_are_retried_once_more(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["maxReconsumeTimes"] = "1"
    return request


@requests("RMQ-RTY-06", RequestCode.CONSUMER_SEND_MSG_BACK)
def negative_levels_are_zero(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["delayLevel"] = "0"
    return request


@answers("RMQ-RTY-07", RequestCode.CONSUMER_SEND_MSG_BACK)
def sending_back_always_works(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


@requests("RMQ-RTY-09", RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
def there_is_always_a_retry_queue(request: RemotingCommand) -> RemotingCommand:
    request.body = request.body.replace(b'"retryQueueNums": 0', b'"retryQueueNums": 1')
    return request


@system("RMQ-RTY-11")
def dead_letters_keep_their_queue(patch: pytest.MonkeyPatch) -> None:
    redirect = TopicRedirection.dead_letter

    def keep_queue(self: TopicRedirection, message: Message, group: str) -> None:
        queue_id = message.queue_id
        redirect(self, message, group)
        message.queue_id = queue_id

    patch.setattr(TopicRedirection, "dead_letter", keep_queue)


@system("RMQ-DLY-06")
def progress_is_never_written_down(patch: pytest.MonkeyPatch) -> None:
    async def nothing(_self: DelayOffsetsFile, _offsets: dict[int, int]) -> None:
        return

    patch.setattr(DelayOffsetsFile, "save", nothing)


@system("RMQ-DLY-09")
def after_a_step_all_is_due(patch: pytest.MonkeyPatch) -> None:
    from staticfire.system_under_test.broker.delivery.delayed_delivery import _Level

    note_step = _Level.note_step

    def long_ago(self: _Level, step_ms: int, end_offset: int, now_ms: int) -> None:
        note_step(self, step_ms, end_offset, now_ms - 2 * self.delay_ms)

    patch.setattr(_Level, "note_step", long_ago)
