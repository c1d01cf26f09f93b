"""Mutants of RMQ-PUL and RMQ-LPL."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.broker.pulling.held_pulls import HeldPull, HeldPulls
from staticfire.system_under_test.broker.pulling.pull import PullProcessor
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.store.pull_limits import FixedPullLimits
from staticfire.system_under_test.store.reading.reading import QueueReader
from tests.conformance.mutants.mutant import Answer, answers, requests, system


@answers("RMQ-PUL-01", RequestCode.PULL_MESSAGE)
def next_offset_of_the_request(request: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields["nextBeginOffset"] = request.ext_fields["queueOffset"]
    return answer


@requests("RMQ-PUL-01", RequestCode.PULL_MESSAGE)
def one_message_too_early(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["queueOffset"] = str(max(0, int(request.ext_fields["queueOffset"]) - 1))
    return request


@answers("RMQ-PUL-02", RequestCode.PULL_MESSAGE)
def the_end_is_out_of_range(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.PULL_NOT_FOUND:
        answer.code = ResponseCode.PULL_OFFSET_MOVED
    return answer


@answers("RMQ-PUL-03", RequestCode.PULL_MESSAGE)
def begin_anew_when_out_of_range(_: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields["nextBeginOffset"] = "0"
    return answer


@answers("RMQ-PUL-04", RequestCode.PULL_MESSAGE)
def nothing_is_ever_out_of_range(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.PULL_OFFSET_MOVED:
        answer.code = ResponseCode.PULL_NOT_FOUND
    return answer


@system("RMQ-PUL-05")
def answers_of_any_size(patch: pytest.MonkeyPatch) -> None:
    made = QueueReader.__init__

    def without_limits(self: QueueReader, log: Any, _limits: Any, *more: Any) -> None:
        limits = FixedPullLimits(transfer_memory_bytes=1 << 30, transfer_memory_count=10_000)
        made(self, log, limits, *more)

    patch.setattr(QueueReader, "__init__", without_limits)


@answers("RMQ-PUL-06", RequestCode.PULL_MESSAGE)
def no_match_is_not_found(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
        answer.code = ResponseCode.PULL_NOT_FOUND
    return answer


@requests("RMQ-PUL-07", RequestCode.PULL_MESSAGE)
def every_pull_commits(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["sysFlag"] = str(int(request.ext_fields["sysFlag"]) | 1)
    return request


@answers("RMQ-PUL-08", RequestCode.PULL_MESSAGE)
def always_the_slave(_: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields["suggestWhichBrokerId"] = "1"
    return answer


@answers("RMQ-PUL-09", RequestCode.PULL_MESSAGE)
def permission_ignored(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.NO_PERMISSION:
        answer.code = ResponseCode.PULL_NOT_FOUND
    return answer


@answers("RMQ-PUL-10", RequestCode.VIEW_MESSAGE_BY_ID)
def other_bytes_by_id(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body[:40] + bytes(4) + answer.body[44:]
    return answer


@system("RMQ-LPL-01")
def arrivals_wake_no_pull(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PullProcessor, "messages_arrived", lambda self, messages: None)


@requests("RMQ-LPL-02", RequestCode.PULL_MESSAGE)
def no_pull_waits(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["sysFlag"] = "4"
    return request


@requests("RMQ-LPL-02", RequestCode.PULL_MESSAGE)
def waits_are_long(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["suspendTimeoutMillis"] = "25000"
    return request


@requests("RMQ-LPL-03", RequestCode.PULL_MESSAGE)
def every_tag_wakes(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["subscription"] = "*"
    return request


@system("RMQ-LPL-04")
def only_one_is_woken(patch: pytest.MonkeyPatch) -> None:
    take_arrived = HeldPulls.take_arrived

    def first(self: HeldPulls, *place: Any) -> list[HeldPull]:
        return take_arrived(self, *place)[:1]

    patch.setattr(HeldPulls, "take_arrived", first)


@requests("RMQ-LPL-05", RequestCode.UPDATE_BROKER_CONFIG)
def options_change_nothing(request: RemotingCommand) -> RemotingCommand:
    request.body = b"longPollingEnable=true\n"
    return request


@system("RMQ-LPL-06")
def stopped_brokers_keep_their_connections(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Wire, "connection_lost", lambda self, exc: None)


@system("RMQ-PUL-05")
def filters_look_at_a_few(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueueReader, "_count_to_examine", lambda _self, count, *, filters: min(count, 32))


@system("RMQ-PUL-03")
def what_lies_beyond_the_end_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PullProcessor, "_may_hold", lambda *_: True)
