"""Mutants of RMQ-ADM and RMQ-LIM."""

from __future__ import annotations

import re
from typing import Any

import pytest

from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.broker.administration import statistics_requests
from staticfire.system_under_test.broker.clients import clients
from staticfire.system_under_test.broker.clients.asked_clients import AskedClients
from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.flow_control.flow_control import FlowControl
from staticfire.system_under_test.broker.metadata import offsets
from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets
from staticfire.system_under_test.broker.metadata.topics import Topics
from staticfire.system_under_test.broker.pulling.slow_consumers import SlowConsumers
from staticfire.system_under_test.broker.sending.send import SendProcessor
from staticfire.system_under_test.protocol.codes import VERSION, RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting.connection import Connection
from tests.conformance.mutants.mutant import Answer, answers, requests, system


@system("RMQ-ADM-01")
def any_name_will_do(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topics, "is_system", lambda _self, _topic: False)


@requests("RMQ-ADM-03", RequestCode.UPDATE_BROKER_CONFIG)
def escapes_are_digits(request: RemotingCommand) -> RemotingCommand:
    request.body = request.body.replace(rb"\u", b"")
    return request


@answers("RMQ-ADM-04", RequestCode.GET_CONSUME_STATS)
def only_a_topic_that_is_named_has_statistics(request: RemotingCommand, answer: Answer) -> Answer:
    if not request.ext_fields["topic"]:
        answer.body = b'{"offsetTable":{}}'
    return answer


@answers("RMQ-ADM-11", RequestCode.QUERY_CONSUME_QUEUE)
def every_group_takes_every_message(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b'"eval":false', b'"eval":true')
    return answer


@system("RMQ-ADM-03")
def version_of_the_next_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(statistics_requests, "VERSION", VERSION + 1)


@answers("RMQ-ADM-03", RequestCode.GET_BROKER_RUNTIME_INFO)
def headers_have_another_version(_: RemotingCommand, answer: Answer) -> Answer:
    answer.version += 1
    return answer


@system("RMQ-ADM-03")
def sizes_are_bytes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(statistics_requests, "size_text", lambda size: f"{size} B")


@system("RMQ-ADM-03")
def sizes_have_the_largest_unit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(statistics_requests, "size_text", lambda size: f"{size / (1 << 50):.1f} PiB")


@answers("RMQ-ADM-03", RequestCode.UPDATE_BROKER_CONFIG)
def waits_of_a_millisecond_are_refused(request: RemotingCommand, answer: Answer) -> Answer:
    if request.body.endswith(b"=1\n"):
        answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@answers("RMQ-ADM-09", RequestCode.QUERY_CONSUME_TIME_SPAN)
def queues_without_messages_have_times(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b'"maxTimeStamp":-1', b'"maxTimeStamp":-2')
    return answer


@answers("RMQ-ADM-09", RequestCode.QUERY_CONSUME_TIME_SPAN)
def nothing_is_late(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = re.sub(rb'"delayTime":[0-9]+', b'"delayTime":0', answer.body)
    return answer


@system("RMQ-ADM-06")
def questions_count_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AskedClients, "end", lambda *_: None)


@answers("RMQ-ADM-06", RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
def silent_members_have_a_status(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b'"consumerTable":{', b'"consumerTable":{"silent":{},')
    return answer


@answers("RMQ-ADM-04", RequestCode.GET_TOPIC_STATS_INFO)
def statistics_without_times(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = re.sub(rb'"lastUpdateTimestamp":[0-9]+', b'"lastUpdateTimestamp":0', answer.body)
    return answer


@requests("RMQ-ADM-05", RequestCode.QUERY_MESSAGE)
def keys_are_found_at_any_time(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields.update(beginTimestamp="0", endTimestamp=str(1 << 62))
    return request


@requests("RMQ-ADM-01", RequestCode.UPDATE_AND_CREATE_TOPIC)
def topics_never_grow(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["readQueueNums"] = request.ext_fields["writeQueueNums"] = "3"
    return request


@requests("RMQ-ADM-01", RequestCode.DELETE_TOPIC_IN_NAMESRV)
def name_servers_keep_topics(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["topic"] = "another"
    return request


@requests("RMQ-ADM-16", RequestCode.UPDATE_BROKER_CONFIG)
def a_bad_value_spoils_the_others(request: RemotingCommand) -> RemotingCommand:
    if b"=soon" in request.body:
        request.body = b""
    return request


@requests("RMQ-ADM-02", RequestCode.DELETE_SUBSCRIPTIONGROUP)
def groups_stay(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["groupName"] = "another"
    return request


@requests("RMQ-ADM-03", RequestCode.UPDATE_BROKER_CONFIG)
def options_do_not_change(request: RemotingCommand) -> RemotingCommand:
    request.body = b"waitTimeMillsInSendQueue=200\n"
    return request


@answers("RMQ-ADM-04", RequestCode.GET_CONSUME_STATS)
def lag_is_always_zero(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b'"consumerOffset":2', b'"consumerOffset":5')
    return answer


@requests("RMQ-ADM-05", RequestCode.QUERY_MESSAGE)
def only_the_first_key(request: RemotingCommand) -> RemotingCommand:
    if request.ext_fields["key"].endswith("k3"):
        request.ext_fields["key"] = "another"
    return request


@answers("RMQ-ADM-06", RequestCode.CONSUME_MESSAGE_DIRECTLY)
def answers_of_consumers_are_lost(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = b"{}"
    return answer


@answers("RMQ-ADM-07", RequestCode.PULL_MESSAGE)
def cleaning_takes_everything(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code, answer.body = ResponseCode.PULL_NOT_FOUND, b""
    return answer


@requests("RMQ-LIM-01", RequestCode.SEND_MESSAGE)
def bodies_are_cut(request: RemotingCommand) -> RemotingCommand:
    request.body = request.body[: 4 << 20]
    return request


@system("RMQ-LIM-02")
def any_topic_will_do(patch: pytest.MonkeyPatch) -> None:
    send = Wire.send

    def cleaned(self: Wire, command: RemotingCommand) -> Any:
        if command.ext_fields.get("topic") == "has.a.dot":
            command.ext_fields["topic"] = "has-a-dot"
        return send(self, command)

    patch.setattr(Wire, "send", cleaned)


@requests("RMQ-LIM-03", RequestCode.SEND_MESSAGE)
def large_properties_are_dropped(request: RemotingCommand) -> RemotingCommand:
    if len(request.ext_fields["properties"]) > 32_767:
        request.ext_fields["properties"] = ""
    return request


@answers("RMQ-LIM-04", RequestCode.SEND_MESSAGE)
def system_topics_are_missing(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.NO_PERMISSION:
        answer.code = ResponseCode.TOPIC_NOT_EXIST
    return answer


@answers("RMQ-LIM-06", RequestCode.SEND_MESSAGE)
def empty_bodies_are_refused_and_stored(request: RemotingCommand, answer: Answer) -> Answer:
    if not request.body:
        answer.code = ResponseCode.MESSAGE_ILLEGAL
    return answer


@system("RMQ-LIM-07")
def flushes_last_for_ever(patch: pytest.MonkeyPatch) -> None:
    flush_ns = vars(FlowControl)["flush_ns"].fget
    patch.setattr(FlowControl, "flush_ns", property(lambda self: flush_ns(self) * 1_000_000))


@answers("RMQ-LIM-07", RequestCode.SEND_MESSAGE)
def half_of_the_refusals_are_none(request: RemotingCommand, answer: Answer) -> Answer:
    if request.opaque % 2:
        answer.code = ResponseCode.SYSTEM_BUSY
    return answer


@answers("RMQ-LIM-07", RequestCode.SEND_MESSAGE)
def busy_is_called_an_error(request: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.SYSTEM_BUSY:
        answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@system("RMQ-LIM-12")
def slow_groups_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SlowConsumers, "check", lambda _self: None)


@system("RMQ-LIM-12")
def groups_that_are_not_behind_are_refused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SlowConsumers, "_behind", lambda *_: 1 << 62)


@system("RMQ-LIM-13")
def the_table_of_offsets_has_no_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerOffsets, "has_room", lambda *_: True)


@system("RMQ-LIM-13")
def the_table_of_offsets_is_smaller(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offsets, "SIZE_MAX", (6 << 20) - 1)


@system("RMQ-LIM-13")
def subscriptions_have_no_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Clients, "_check_size", lambda *_: None)


@system("RMQ-LIM-13")
def subscriptions_end_earlier(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clients, "SUBSCRIPTIONS_SIZE_MAX", (32 << 20) - 1)


@answers("RMQ-ADM-05", RequestCode.QUERY_MESSAGE)
def the_index_ends_elsewhere(request: RemotingCommand, answer: Answer) -> Answer:
    end = answer.ext_fields.get("indexLastUpdatePhyoffset", "0")
    answer.ext_fields["indexLastUpdatePhyoffset"] = str(int(end) + 1)
    return answer


@answers("RMQ-ADM-03", RequestCode.GET_BROKER_CONFIG)
def options_have_no_version(request: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields.pop("version", None)
    return answer


@system("RMQ-LIM-08")
def nonsense_ends_everything(patch: pytest.MonkeyPatch) -> None:
    abort, handle = Connection.abort, SendProcessor.handle
    aborted: list[Connection] = []

    def aborting(self: Connection) -> None:
        aborted.append(self)
        abort(self)

    def dying(self: SendProcessor, connection: Connection, request: RemotingCommand) -> Any:
        return None if aborted else handle(self, connection, request)

    patch.setattr(Connection, "abort", aborting)
    patch.setattr(SendProcessor, "handle", dying)


@answers("RMQ-LIM-09", RequestCode.PULL_MESSAGE)
def huge_numbers_are_not_answered(request: RemotingCommand, answer: Answer) -> Answer | None:
    return None if request.ext_fields["maxMsgNums"] == str((1 << 31) - 1) else answer


@system("RMQ-LIM-10")
def every_client_waits_for_the_slowest(patch: pytest.MonkeyPatch) -> None:
    pause, handle = Connection.pause_writing, SendProcessor.handle
    unread: list[Connection] = []

    def pausing(self: Connection) -> None:
        unread.append(self)
        pause(self)

    def waiting(self: SendProcessor, connection: Connection, request: RemotingCommand) -> Any:
        return None if unread else handle(self, connection, request)

    patch.setattr(Connection, "pause_writing", pausing)
    patch.setattr(SendProcessor, "handle", waiting)
